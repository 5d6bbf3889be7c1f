/**
 * In: a function's environment. Out: its job's model, opened and warm.
 * Trap: a model that cannot load now must not keep the function from starting; requests answer 503 and try again.
 */
import type { Environment } from '../config/environment.ts';
import type { JobConfig } from '../config/job.ts';
import { logError } from '../contract/log.ts';
import { modelPrefix } from '../contract/names.ts';
import type { ModelHost } from '../inference/model-manager.ts';
import type { OnnxRunner, OnnxSettings } from '../inference/runner.ts';
import { threadsForMemory } from '../inference/session.ts';
import { openS3, type S3Client } from '../s3/objects.ts';
import { openModel } from './open-model.ts';

export interface JobModel {
  readonly job: JobConfig;
  readonly s3: S3Client;
  readonly bucket: string;
  /** Where versions are downloaded to. */
  readonly directory: string;
  /** Threads of one run where the job leaves it open. */
  readonly defaultThreads: number;
}

/** The host of a job's model, by the job's settings: the same deployed and local. Nothing is opened yet. */
export function jobModel({ job, s3, bucket, directory, defaultThreads }: JobModel): ModelHost<OnnxRunner> {
  return openModel({
    s3,
    location: { bucket, prefix: modelPrefix(job.jobName) },
    directory,
    settings: modelSettings(job, defaultThreads),
    refreshMs: job.modelRefreshSeconds * 1000,
    now: Date.now,
    onError: (error) => logError(error, { phase: 'model' }),
  });
}

export function modelSettings(job: JobConfig, defaultThreads: number): OnnxSettings {
  return {
    threads: job.threadPerModel || defaultThreads,
    batchSize: job.batchSize,
    inputAlreadyBatched: job.inputAlreadyBatched,
    image: job.image,
  };
}

export async function liveModel(environment: Environment): Promise<ModelHost<OnnxRunner>> {
  const host = jobModel({
    job: environment.job,
    s3: openS3({ endpoint: environment.endpoint }),
    bucket: environment.bucket,
    directory: environment.modelDirectory,
    defaultThreads: threadsForMemory(environment.memoryMB),
  });
  await host.ready().catch((error: unknown) => logError(error, { phase: 'model' }));
  return host;
}
