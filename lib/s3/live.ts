/**
 * In: a function's environment. Out: the store of its job's large records.
 * Trap: nothing is asked of S3 before there is a record that needs it.
 */
import type { Environment } from '../config/environment.ts';
import { openS3 } from './objects.ts';
import { PayloadStore } from './payloads.ts';

export function livePayloads(environment: Environment): PayloadStore {
  const s3 = openS3({ endpoint: environment.endpoint });
  return new PayloadStore(s3, environment.bucket, environment.job.jobName);
}
