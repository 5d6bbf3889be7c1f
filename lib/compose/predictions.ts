/**
 * Composes what /predictions needs of the queue, of the store of results, or of both. It is deployed twice, each with one of the
 * two; loading the other would be half of a cold start.
 */
import { RESULTS_VARIABLE } from '../config/environment.ts';
import { badConfig } from '../contract/errors.ts';
import type { Priority } from '../contract/schedule.ts';
import type { ReadUpload, Upload } from '../http/uploads.ts';
import { presignedUrl } from '../s3/presign.ts';
import { observers } from './observers.ts';
import type { Scope } from './scope.ts';

export async function composePredictions(scope: Scope) {
  const { hasQueue, hasResults } = scope.environment;
  const [queueing, states, store] = await Promise.all([
    hasQueue ? import('./accept.ts') : undefined,
    hasResults ? import('./states.ts') : undefined,
    hasResults ? import('./results.ts') : undefined,
  ]);
  const accept = () => scope.get(there(queueing, 'CLUSTER_SERVING_QUEUE_URL').accept);
  const parts = () => there(states, RESULTS_VARIABLE);
  return {
    queue: (priority?: Priority) => accept().queue(priority),
    payloads: () => accept().payloads(),
    uploads: (...upload: Parameters<ReadUpload>) => accept().uploads(...upload),
    placeUpload: async (upload: Upload, caller: string) => {
      const { bucket, role, aws, job } = scope.environment;
      const { uploadAddress, uploadPlace } = await import('../s3/uploads.ts');
      const address = uploadAddress({ bucket, job: job.jobName }, upload.sha256, caller);
      return uploadPlace(address, upload, { ...role, endpoint: aws.endpoint }, Date.now());
    },
    // A function outside the VPC of a Redis cannot announce a record.
    ...(states ? { announcer: () => scope.get(states.recordStates) } : {}),
    results: () => scope.get(there(store, RESULTS_VARIABLE).results),
    observers: scope.get(observers),
    locate: (key: string) => {
      const { bucket, role, aws } = scope.environment;
      return presignedUrl(bucket, key, { ...role, endpoint: aws.endpoint }, Date.now());
    },
    // Loaded on demand, with the S3 client.
    batchService: () => import('./batch-service.ts').then((loaded) => scope.get(loaded.batchService)),
    settings: scope.environment.job,
    states: () => scope.get(parts().recordStates),
  };
}

function there<T>(part: T | undefined, variable: string): T {
  if (part) return part;
  throw badConfig(`the environment variable ${variable} is not set`);
}
