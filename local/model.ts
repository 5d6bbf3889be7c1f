/**
 * In: a job and its model directory. Out: the directory to serve from: the same one, or an import of it.
 * Trap: who serves ONNX must not wait for the converters: they are loaded when the directory needs them.
 */
import { join } from 'node:path';
import type { JobConfig } from '../lib/config/job.ts';
import { installation } from './installation.ts';

export interface ServedModel {
  readonly directory: string;
  /** That it was imported, and what its passport asks for. */
  readonly notes: readonly string[];
}

/** @throws bad_model when the directory holds something that cannot be imported */
export async function servedModel(
  job: JobConfig,
  modelDirectory: string,
  dataDir: string,
): Promise<ServedModel> {
  const { modelOnTheWay } = await import('../convert/cache.ts');
  return modelOnTheWay(modelDirectory, {
    import: job.import,
    cacheDir: join(dataDir, 'imported', job.jobName),
    version: installation().version,
  });
}
