/** Composes the files and batches of OpenAI's API, which are objects of S3. */
import { randomBytes } from 'node:crypto';
import { Batches } from '../jobs/openai/batches.ts';
import { BatchFiles } from '../jobs/openai/files.ts';
import { JobObjects } from '../s3/job-store.ts';
import { s3Client } from './s3.ts';
import type { Scope } from './scope.ts';

export function batchService(scope: Scope) {
  const { job, bucket } = scope.environment;
  const place = {
    job: job.jobName,
    bucket,
    store: new JobObjects(scope.get(s3Client), bucket),
    now: Date.now,
    random: () => randomBytes(6).toString('hex'),
  };
  const files = new BatchFiles(place);
  return { files, batches: new Batches(place, files) };
}
