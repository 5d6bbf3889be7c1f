/** Composes the dependencies of the function of jobs over files, which is outside the VPC: its results are objects of S3. */

import type { Model } from '../contract/values.ts';
import { plainAnswer } from '../http/plain.ts';
import type { JobDeps } from '../jobs/serve.ts';
import { parseFilter } from '../pipeline/answer/postprocess.ts';
import { QueueSender } from '../queue/sender.ts';
import { JobObjects } from '../s3/job-store.ts';
import { sqsClient } from './accept.ts';
import { endpoints } from './endpoints.ts';
import { observers } from './observers.ts';
import { s3Client } from './s3.ts';
import type { Scope } from './scope.ts';
import { readyRunner } from './served.ts';

/** @param served opens what runs the rows: the job's model or worker, unless the single machine says otherwise */
export async function composeJobs(
  scope: Scope,
  served: (scope: Scope) => Promise<Model> = readyRunner,
): Promise<JobDeps> {
  const { job, bucket, fileJobQueueUrl, memoryMB } = scope.environment;
  const filter = parseFilter(job.postProcessing);
  const sender = new QueueSender(scope.get(sqsClient), {
    queueUrl: fileJobQueueUrl,
    limitMs: () => scope.limitMs(),
  });
  return {
    job: job.jobName,
    bucket,
    store: new JobObjects(scope.get(s3Client), bucket),
    observers: scope.get(observers),
    send: (message, delaySeconds) => sender.send(JSON.stringify(message), {}, undefined, delaySeconds),
    endpoint: endpoints(job.jobName, filter),
    answerText: (outcome, version) => plainAnswer([outcome], filter, version),
    most: job.queue.maxReceiveCount,
    memoryMB,
    arch: process.arch,
    now: Date.now,
    model: await scope.get(served),
  };
}
