/**
 * Returns the directory that a job serves from: its own, or an import of it. The converters are loaded only if
 * needed, so serving ONNX does not wait for them.
 */
import { basename, join } from 'node:path';
import type { JobConfig } from '../../lib/config/job.ts';
import { isInHub, isRemote } from '../../lib/config/model-path.ts';
import { ServingError } from '../../lib/contract/errors.ts';
import { removeOthers } from '../../lib/registry/download-folder.ts';
import type { ImportReport } from '../../onnx-import/index.ts';
import { installation } from '../machine/installation.ts';

export interface ServedModel {
  readonly directory: string;
  /** That it was imported, and what its import report asks for. */
  readonly notes: readonly string[];
  readonly importReport?: ImportReport;
}

/** A copy of more bytes is reported several times. */
const LONG_BYTES = 64_000_000;
const STEPS = 4;

/** An import may take minutes, so its stages are logged to stderr, the log of a background service. */
const log = (line: string) => console.error(line);

/**
 * A job's model directory on this machine: this one, or a copy of what is at s3://… or hf://… now.
 * @param options `prunes`: earlier copies from S3 are removed, which a running worker may still use
 */
export async function modelHere(
  { jobName }: JobConfig,
  modelDirectory: string,
  dataDir: string,
  { prunes = false, tell = log }: { readonly prunes?: boolean; readonly tell?: (line: string) => void } = {},
): Promise<string> {
  if (!isRemote(modelDirectory)) return modelDirectory;
  let told = -1;
  const onBytes = (done: number, total: number) => {
    const step = total > LONG_BYTES ? Math.floor((STEPS * done) / total) : 0;
    if (step > told)
      tell(`job ${jobName}: copying ${modelDirectory}: ${megabytes(done)} of ${megabytes(total)} MB`);
    told = step;
  };
  try {
    // Loaded on demand, because they load what only such a model needs.
    if (isInHub(modelDirectory)) {
      const { copyFromHub } = await import('../../release/hub/copy.ts');
      const onCommit = ({ commit }: { readonly commit: string }) =>
        tell(`job ${jobName}: ${modelDirectory} is commit ${commit}`);
      return await copyFromHub(modelDirectory, join(dataDir, 'hub'), { onBytes, onCommit });
    }
    const folder = join(dataDir, 'copied', jobName);
    const { copyModel } = await import('../../lib/registry/source.ts');
    const copied = await copyModel(modelDirectory, folder, { onBytes });
    if (prunes) await removeOthers(folder, new Set([basename(copied)]));
    return copied;
  } catch (error) {
    const { code, message } = ServingError.from(error);
    throw new ServingError(code, `job ${jobName}: ${message}`, { cause: error });
  }
}

function megabytes(bytes: number): string {
  return (bytes / 1e6).toFixed(1);
}

/** @throws bad_model naming job and directory, when the directory holds something that cannot be imported */
export async function servedModel(
  job: JobConfig,
  modelDirectory: string,
  dataDir: string,
  tell: (line: string) => void = log,
): Promise<ServedModel> {
  const { modelOnTheWay } = await import('../../release/cache.ts');
  let told: string | undefined;
  try {
    return await modelOnTheWay(modelDirectory, {
      job,
      cacheDir: join(dataDir, 'imported', job.jobName),
      version: installation().version,
      onStage: (stage) => {
        if (stage !== told) tell(`job ${job.jobName}: importing ${modelDirectory}: ${stage}`);
        told = stage;
      },
    });
  } catch (error) {
    const { code, message } = ServingError.from(error);
    if (code === 'internal') throw error;
    throw new ServingError(code, `job ${job.jobName}: ${message}`, { cause: error });
  }
}
