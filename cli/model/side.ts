/** Opens what an argument of `model` names: a directory, the name of a version, or the version that serves. */
import { existsSync } from 'node:fs';
import type { JobConfig } from '../../lib/config/job.ts';
import { type ModelPointer, readPointer } from '../../lib/registry/download.ts';
import { findModelFile } from '../../lib/registry/onnx-file.ts';
import { readVersion, withVersionCopy } from '../../lib/registry/version-copy.ts';
import type { ConvertOptions } from '../../onnx-import/index.ts';
import type { ModelProcess } from '../../onnx-import/process.ts';
import type { Side } from '../../release/diff/run.ts';
import type { Output } from '../output.ts';
import { withImport } from './import.ts';
import type { OpenPlace } from './place.ts';
import { withSource } from './source.ts';

/** The version that serves, as an argument. */
export const SERVING = 'serving';

export interface DiffSettings {
  readonly job: JobConfig;
  readonly convert: ConvertOptions;
}

interface Given extends DiffSettings {
  readonly dataDir: string;
  readonly signal: AbortSignal;
  readonly process: ModelProcess;
}

/** @param place undefined where each argument is a directory. @param work gets no version for a directory */
export async function withSide(
  place: OpenPlace | undefined,
  argument: string,
  given: Given,
  output: Output,
  work: (side: Side, version?: string) => Promise<number>,
): Promise<number> {
  if (!place || isFolder(argument)) {
    return withSource(argument, given.dataDir, output, (directory) =>
      withFolder(directory, given, output, work),
    );
  }
  const version = await versionOf(place, argument);
  return withVersionCopy(place, version, async (directory) =>
    work({ file: await findModelFile(directory), verification: version.verification }, version.version),
  );
}

function versionOf(place: OpenPlace, argument: string): Promise<ModelPointer> {
  return argument === SERVING ? readPointer(place.s3, place.location) : readVersion(place, argument);
}

async function withFolder(
  directory: string,
  { job, convert, signal, process }: Given,
  output: Output,
  work: (side: Side) => Promise<number>,
): Promise<number> {
  const { needsImport, verify } = await import('../../onnx-import/index.ts');
  const { proofOptions } = await import('../../release/options.ts');
  const checked = async (file: string) =>
    work({ file, verification: await verify(file, { ...proofOptions(job), signal, process }) });
  if (!(await needsImport(directory, convert))) return checked(await findModelFile(directory));
  return withImport(directory, { job, convert, process, measure: false }, output, async (made) =>
    checked(await findModelFile(made.directory)),
  );
}

/** A version has a name without a slash, so \`./abc\` is always a folder. */
export function isFolder(argument: string): boolean {
  return argument !== SERVING && (argument.includes('/') || existsSync(argument));
}
