/** Composes what uses S3: its client, large records, dead letters. Nothing is requested from S3 here. */
import { deadLetterPrefix, modelPrefix } from '../contract/names.ts';
import type { ReadUpload } from '../http/uploads.ts';
import type { Archive } from '../pipeline/dead-letters.ts';
import type { ModelLocation } from '../registry/download.ts';
import { LargeResults } from '../s3/large-results.ts';
import { deferredS3, putText, type S3Client } from '../s3/objects.ts';
import { PayloadStore } from '../s3/payloads.ts';
import { readUpload } from '../s3/uploads.ts';
import type { Scope } from './scope.ts';

export function s3Client({ environment }: Scope): S3Client {
  const { aws } = environment;
  return deferredS3({
    load: async () => (await import('../s3/client.ts')).openS3(aws),
    // On Lambda the role's keys are in the environment. Elsewhere the SDK knows where to look for keys.
    readPlace: () => (environment.inLambda ? { ...environment.role, endpoint: aws.endpoint } : undefined),
  });
}

export function payloads(scope: Scope): PayloadStore {
  const { bucket, job } = scope.environment;
  return new PayloadStore(scope.get(s3Client), bucket, job.jobName, () => scope.limitMs());
}

export function uploads(scope: Scope): ReadUpload {
  const { bucket, job } = scope.environment;
  return (id, caller) => readUpload(scope.get(s3Client), { bucket, job: job.jobName }, id, caller);
}

export function largeResults(scope: Scope): LargeResults {
  const { bucket, job } = scope.environment;
  return new LargeResults(scope.get(s3Client), { bucket, job: job.jobName, now: Date.now });
}

/** @param model the name of a further model. Default: the job's own */
export function modelLocation({ environment }: Scope, model?: string): ModelLocation {
  return { bucket: environment.bucket, prefix: modelPrefix(environment.job.jobName, model) };
}

/** Keeps one dead-lettered message under its id. */
export function archive(scope: Scope): Archive {
  const { bucket, job } = scope.environment;
  const prefix = deadLetterPrefix(job.jobName);
  return (messageId, message) =>
    putText(scope.get(s3Client), { bucket, key: `${prefix}${messageId}.json` }, message);
}
