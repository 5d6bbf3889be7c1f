/** `model diff`: what changes for clients from one version of a model to another. */
import { existsSync } from 'node:fs';
import type { JobConfig } from '../../lib/config/job.ts';
import { type ModelPointer, readPointer } from '../../lib/registry/download.ts';
import { findModelFile } from '../../lib/registry/onnx-file.ts';
import { readVersion, withVersionCopy } from '../../lib/registry/version-copy.ts';
import type { ConvertOptions } from '../../onnx-import/index.ts';
import type { ModelProcess } from '../../onnx-import/process.ts';
import type { Side } from '../../release/diff/run.ts';
import { wrongUse } from '../command.ts';
import { interruptible } from '../interruption.ts';
import { EXIT, type Output } from '../output.ts';
import { dataDirOf } from '../service.ts';
import { withImport } from './import.ts';
import { type OpenPlace, type PlaceValues, withPlace } from './place.ts';
import { withSource } from './source.ts';

/** The version that serves, as an argument. */
const SERVING = 'serving';

export interface DiffSettings {
  readonly job: JobConfig;
  readonly convert: ConvertOptions;
}

/**
 * One argument is compared with the version that serves. Each is a directory, the name of a version, or `serving`.
 * @returns exit code 1 when clients would get wrong results
 */
export async function diff(
  args: readonly string[],
  values: PlaceValues,
  settings: DiffSettings,
  output: Output,
): Promise<number> {
  const [first, second, surplus] = args;
  if (first === undefined) throw wrongUse('model diff: which directory or version?');
  if (surplus !== undefined) throw wrongUse(`model diff: unexpected ${JSON.stringify(surplus)}`);
  const [before, after] = second === undefined ? [SERVING, first] : [first, second];
  const given = { ...settings, dataDir: dataDirOf(values) };
  if (isFolder(before) && isFolder(after)) return compare(undefined, [before, after], given, output);
  return withPlace(values, output, (place) => compare(place, [before, after], given, output));
}

interface Settings extends DiffSettings {
  readonly dataDir: string;
}

async function compare(
  place: OpenPlace | undefined,
  [before, after]: readonly [string, string],
  settings: Settings,
  output: Output,
): Promise<number> {
  const [{ diffVersions }, { reportText }, { newModelProcess }] = await Promise.all([
    import('../../release/diff/diff.ts'),
    import('../../release/diff/report.ts'),
    import('../../release/model-process.ts'),
  ]);
  const process = newModelProcess();
  return interruptible('the comparison', output, (signal) => {
    const given = { ...settings, signal, process };
    return withSide(place, before, given, output, (first) =>
      withSide(place, after, given, output, async (second) => {
        const report = await diffVersions(first, second, given);
        output.answer({ from: before, to: after, ...report }, `${before} -> ${after}\n${reportText(report)}`);
        return report.breaks.length === 0 ? EXIT.ok : EXIT.failed;
      }),
    );
  }).finally(() => process.close());
}

interface Given extends Settings {
  readonly signal: AbortSignal;
  readonly process: ModelProcess;
}

async function withSide(
  place: OpenPlace | undefined,
  argument: string,
  given: Given,
  output: Output,
  work: (side: Side) => Promise<number>,
): Promise<number> {
  if (!place || isFolder(argument)) {
    return withSource(argument, given.dataDir, output, (directory) =>
      withFolder(directory, given, output, work),
    );
  }
  const version = await versionOf(place, argument);
  return withVersionCopy(place, version, async (directory) =>
    work({ file: await findModelFile(directory), verification: version.verification }),
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
function isFolder(argument: string): boolean {
  return argument !== SERVING && (argument.includes('/') || existsSync(argument));
}
