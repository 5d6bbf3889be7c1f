/**
 * In: the job's settings and its stack's bucket. Out: the model of `modelPath` in S3, serving.
 * Trap: a running environment looks for a new version every modelRefreshSeconds; until then the old one answers.
 */
import { stat } from 'node:fs/promises';
import { dirname, resolve } from 'node:path';
import { S3Client, type S3ClientConfig } from '@aws-sdk/client-s3';
import { modelPrefix } from '../lib/contract/names.ts';
import { publishModel } from '../lib/model/publish.ts';
import { configPath, readJobConfig } from './config.ts';

export interface PublishRequest {
  /** The folder with serverless.yml, absolute. */
  readonly root: string;
  /** As `--param config`. */
  readonly config: string | undefined;
  readonly bucket: string;
  /** Region and credentials of the deployment. */
  readonly client: S3ClientConfig;
}

export interface Published {
  /** The model directory, absolute. */
  readonly directory: string;
  /** Undefined when there is no such directory. */
  readonly version: string | undefined;
}

/** @throws bad_config, model_unavailable for a directory without a model or with two, and what S3 throws */
export async function publishJob({ root, config, bucket, client }: PublishRequest): Promise<Published> {
  const { job } = readJobConfig(root, config);
  // As local/start.ts: relative to the file that says it.
  const directory = resolve(dirname(configPath(root, config)), job.modelPath);
  const found = await stat(directory).catch(() => undefined);
  if (!found?.isDirectory()) return { directory, version: undefined };
  const s3 = new S3Client(client);
  try {
    const { version } = await publishModel(s3, { bucket, prefix: modelPrefix(job.jobName) }, directory);
    return { directory, version };
  } finally {
    s3.destroy();
  }
}
