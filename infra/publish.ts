/**
 * In: the job's settings and its stack's bucket. Out: the model of `modelPath` in S3, serving.
 * Trap: a running environment looks for a new version every modelRefreshSeconds; until then the old one answers.
 */
import { readFile, stat } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
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
  /** What the person should know of an import on the way. */
  readonly notes: readonly string[];
}

/** Where packages keep what they can make again; relative to the project. */
const CACHE = join('node_modules', '.cache', 'cluster-serving', 'imported');

/** @throws bad_config, bad_model for a model that cannot be imported, model_unavailable for a directory without a model or with two, and what S3 throws */
export async function publishJob({ root, config, bucket, client }: PublishRequest): Promise<Published> {
  const { job } = readJobConfig(root, config);
  // As local/start.ts: relative to the file that says it.
  const directory = resolve(dirname(configPath(root, config)), job.modelPath);
  const found = await stat(directory).catch(() => undefined);
  if (!found?.isDirectory()) return { directory, version: undefined, notes: [] };
  const { modelOnTheWay } = await import('../convert/cache.ts');
  const served = await modelOnTheWay(directory, {
    import: job.import,
    cacheDir: join(root, CACHE, job.jobName),
    version: await packageVersion(),
  });
  const s3 = new S3Client(client);
  try {
    const location = { bucket, prefix: modelPrefix(job.jobName) };
    const { version } = await publishModel(s3, location, served.directory);
    return { directory, version, notes: served.notes };
  } finally {
    s3.destroy();
  }
}

/** Ours, not that of the project that deploys. */
async function packageVersion(): Promise<string> {
  const text = await readFile(new URL('../package.json', import.meta.url), 'utf8');
  return (JSON.parse(text) as { version: string }).version;
}
