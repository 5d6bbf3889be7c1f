/**
 * In: a function's environment. Out: the store of its job's large records.
 * Trap: nothing is asked of S3 before there is a record that needs it.
 */
import type { Environment } from '../config/environment.ts';
import { openS3 } from '../s3/objects.ts';
import { PayloadStore } from '../s3/payloads.ts';

export function livePayloads(environment: Environment): PayloadStore {
  const s3 = openS3({ endpoint: environment.endpoint });
  return new PayloadStore(s3, environment.bucket, environment.job.jobName);
}
