/**
 * Runs records in a process of the job's worker. Its code is beside the config; its files are those of the bucket, or
 * for the service of this machine, which publishes none, the folder that it serves.
 */

import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { openProcess } from '../../lib/compose/deployed-worker.ts';
import { isInS3, resolveModelPath } from '../../lib/config/model-path.ts';
import { modelPrefix } from '../../lib/contract/names.ts';
import { present } from '../../lib/contract/present.ts';
import { downloadModel, readPointer } from '../../lib/registry/download.ts';
import { makeFolder } from '../../lib/registry/download-folder.ts';
import { copyModel } from '../../lib/registry/source.ts';
import type { ReplayRunner } from '../../local/console/replay.ts';
import type { DlqPlace } from './place.ts';

/** @param limitMs of one record. @throws bad_config, model_unavailable with the worker's traceback */
export async function withWorker<T>(
  { s3, bucket, job, config = 'config.yaml', isLocal }: DlqPlace,
  limitMs: number | undefined,
  work: (runner: ReplayRunner) => Promise<T>,
): Promise<T> {
  const { worker } = job;
  const directory = dirname(resolve(config));
  const folder = await mkdtemp(join(tmpdir(), 'cluster-serving-replay-'));
  try {
    const location = { bucket, prefix: modelPrefix(job.jobName) };
    const pointer = isLocal
      ? { version: present(worker.class, 'worker.class'), files: [] }
      : await readPointer(s3, location, worker.class);
    const downloaded = await downloadModel(s3, location, pointer, folder);
    await makeFolder(downloaded);
    const { version } = pointer;
    const predictTimeout = Math.min(worker.predictTimeout, limitMs ?? job.function.timeoutSeconds * 1000);
    // One process, as each environment has.
    const one = { ...worker, predictTimeout, numWorker: 1, numWorkerExpanded: 0 };
    const modelDir = isLocal ? await modelHere(directory, job.modelPath, folder) : downloaded;
    // The failure of its record is reported.
    const onCrash = () => undefined;
    const runner = await openProcess({ ...job, worker: one }, { directory, modelDir, version }, { onCrash });
    try {
      return await work({ version, run: (records) => runner.run(records) });
    } finally {
      await runner.close();
    }
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

async function modelHere(directory: string, modelPath: string, folder: string): Promise<string> {
  const path = resolveModelPath(directory, modelPath);
  return isInS3(path) ? copyModel(path, folder, {}) : path;
}
