/** Composes a worker on Lambda: one process of the code beside the function, with the model folder from S3. */
import { fileURLToPath } from 'node:url';
import { logError } from '../contract/log.ts';
import type { Runner } from '../contract/values.ts';
import type { ModelManager } from '../inference/model-manager.ts';
import { makeFolder } from '../registry/download-folder.ts';
import { deployedRunner } from '../workers/deployed-runner.ts';
import { EVENT_LOG } from '../workers/log.ts';
import { versionsOf } from './model.ts';
import type { Scope } from './scope.ts';
import { openVersions } from './versions.ts';
import { type OpenWorkerOptions, openBatches, type WorkerCode, type WorkerJob } from './worker.ts';

/** Where packaging puts the code. */
const CODE = fileURLToPath(new URL('./worker/', import.meta.url));

export function worker(scope: Scope): ModelManager {
  return openVersions<Runner>({
    ...versionsOf(scope),
    withoutFiles: scope.environment.job.worker.class,
    async open(folder, { version }) {
      // A model without files downloads nothing, so the folder may not exist.
      await makeFolder(folder);
      const code = { directory: CODE, modelDir: folder, version };
      return openProcess(scope.environment.job, code, { log: EVENT_LOG });
    },
  });
}

/** As readyModel: a worker that cannot start now is started by the next request. */
export async function readyWorker(scope: Scope): Promise<ModelManager> {
  const host = scope.get(worker);
  await host.ready().catch((error: unknown) => logError(error, { phase: 'worker' }));
  return host;
}

/** @throws bad_config for a job without a worker, model_unavailable with the worker's traceback */
export async function openProcess(
  job: WorkerJob,
  code: WorkerCode,
  options?: Pick<OpenWorkerOptions, 'log' | 'onCrash'>,
): Promise<Runner> {
  const { batching, ...opened } = await openBatches(job, code, options);
  return deployedRunner({ ...opened, ...batching, stopMs: job.worker.stopTimeout });
}
