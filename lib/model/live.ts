/**
 * In: a function's environment. Out: its job's model, opened and warm.
 * Trap: a model that cannot load now must not keep the function from starting; requests answer 503 and try again.
 */
import type { Environment } from '../config/environment.ts';
import { modelPrefix } from '../contract/names.ts';
import { logError } from '../log.ts';
import { openS3 } from '../s3/objects.ts';
import type { ModelHost } from './host.ts';
import type { OnnxRunner } from './onnx.ts';
import { openModel } from './open.ts';
import { threadsForMemory } from './session.ts';

export async function liveModel(environment: Environment): Promise<ModelHost<OnnxRunner>> {
  const { job } = environment;
  const host = openModel({
    s3: openS3({ endpoint: environment.endpoint }),
    location: { bucket: environment.bucket, prefix: modelPrefix(job.jobName) },
    directory: environment.modelDirectory,
    settings: {
      threads: job.threadPerModel || threadsForMemory(environment.memoryMB),
      batchSize: job.batchSize,
      inputAlreadyBatched: job.inputAlreadyBatched,
      image: job.image,
    },
    refreshMs: job.modelRefreshSeconds * 1000,
    now: Date.now,
    onError: (error) => logError(error, { phase: 'model' }),
  });
  await host.ready().catch((error: unknown) => logError(error, { phase: 'model' }));
  return host;
}
