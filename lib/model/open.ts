/**
 * In: a model's place in S3 and the job's settings. Out: the host that serves it.
 * Trap: /tmp outlives an invocation but not an environment, and holds 512 MB; old versions are removed after a swap.
 */
import { mkdir, readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { ServingError } from '../errors.ts';
import type { S3Client } from '../s3/objects.ts';
import { ModelHost } from './host.ts';
import { type OnnxRunner, type OnnxSettings, openOnnx } from './onnx.ts';
import { findModelFile } from './onnx-file.ts';
import { downloadModel, type ModelLocation, type ModelPointer, readPointer } from './source.ts';

export interface OpenModelOptions {
  readonly s3: S3Client;
  readonly location: ModelLocation;
  /** Where downloads go: one folder per version. */
  readonly directory: string;
  readonly settings: OnnxSettings;
  readonly refreshMs: number;
  readonly now: () => number;
  readonly onError: (error: ServingError) => void;
}

export function openModel(options: OpenModelOptions): ModelHost<OnnxRunner> {
  const { s3, location, directory, settings } = options;
  let pointer: ModelPointer | undefined;
  return new ModelHost(
    {
      async version() {
        pointer = await readPointer(s3, location);
        return pointer.version;
      },
      async open(version) {
        const wanted = pointer?.version === version ? pointer : await readPointer(s3, location);
        await mkdir(directory, { recursive: true });
        const folder = await downloadModel(s3, location, wanted, directory);
        const runner = await openOnnx(await findModelFile(folder), wanted.version, settings);
        await removeOthers(directory, wanted.version);
        return runner;
      },
    },
    options,
  );
}

/** An open session has read or mapped its file: on Linux removing it does no harm. */
async function removeOthers(directory: string, keep: string): Promise<void> {
  for (const name of await readdir(directory)) {
    if (name !== keep && !name.includes('.partial-'))
      await rm(join(directory, name), { recursive: true, force: true });
  }
}
