/**
 * In: a model's place in S3 and the job's settings. Out: the host that serves it.
 * Trap: /tmp outlives an invocation but not an environment, and holds 512 MB; a version's files are removed when nobody
 * uses it any more, and not before: the fence of an event under way may still open them.
 */
import { mkdir } from 'node:fs/promises';
import { ServingError } from '../contract/errors.ts';
import { ModelHost } from '../inference/model-manager.ts';
import { type OnnxRunner, type OnnxSettings, openOnnx } from '../inference/runner.ts';
import { downloadModel, type ModelLocation, type ModelPointer, readPointer } from '../registry/download.ts';
import { removeOthers } from '../registry/download-folder.ts';
import { findModelFile } from '../registry/onnx-file.ts';
import type { S3Client } from '../s3/objects.ts';

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
  const open: OnnxRunner[] = [];
  /** What serves, or is being opened. It stays when the host is closed: the next process finds it. */
  let latest: readonly string[] = [];
  /** What cannot be removed is told, and in nobody's way. */
  const tidy = () =>
    removeOthers(directory, new Set([...open.map(({ version }) => version), ...latest])).catch(
      (error: unknown) => options.onError(ServingError.from(error)),
    );
  return new ModelHost(
    {
      async version() {
        pointer = await readPointer(s3, location);
        return pointer.version;
      },
      async open(version) {
        const wanted = pointer?.version === version ? pointer : await readPointer(s3, location);
        const before = latest;
        latest = [...before, wanted.version];
        try {
          await mkdir(directory, { recursive: true });
          // First, for the room: at most the versions in use and this one are there together.
          await tidy();
          const folder = await downloadModel(s3, location, wanted, directory);
          const runner = await openOnnx(await findModelFile(folder), wanted.version, settings);
          latest = [wanted.version];
          open.push(runner);
          return tidyAfter(runner, async () => {
            open.splice(open.indexOf(runner), 1);
            await tidy();
          });
        } catch (error) {
          latest = before;
          throw error;
        }
      },
    },
    options,
  );
}

/** The same runner; once it is closed, `then` is called. */
function tidyAfter(runner: OnnxRunner, then: () => Promise<void>): OnnxRunner {
  let closing: Promise<void> | undefined;
  return { ...runner, close: () => (closing ??= runner.close().then(then)) };
}
