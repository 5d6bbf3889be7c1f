/**
 * Uploads the model of `modelPath` to the bucket of its stack and makes it serve; before there is a stack, only
 * checks that it could serve. A running environment looks for a new version every modelRefreshSeconds and answers
 * with the old one until then.
 */
import { readFile, stat } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import { S3Client, type S3ClientConfig } from '@aws-sdk/client-s3';
import type { OnTheWay } from '../convert/cache.ts';
import type { JobConfig } from '../lib/config/job.ts';
import { ServingError } from '../lib/contract/errors.ts';
import { modelPrefix } from '../lib/contract/names.ts';
import { readVerification } from '../lib/contract/verification.ts';
import { findModelFile } from '../lib/registry/onnx-file.ts';
import { modelFiles, publishModel } from '../lib/registry/publish.ts';
import { configPath, readJobConfig } from './config.ts';

export interface PublishRequest {
  /** The folder with serverless.yml, absolute. */
  readonly root: string;
  /** The value of `--param config`. */
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
  /** Notes for the user about an import. */
  readonly notes: readonly string[];
}

/** The usual place for caches, relative to the project. */
const CACHE = join('node_modules', '.cache', 'cluster-serving', 'imported');

/**
 * @throws bad_config; bad_model for a model that cannot be imported; model_unavailable for a directory without a
 * model or with two; errors of S3
 */
export async function publishJob({ root, config, bucket, client }: PublishRequest): Promise<Published> {
  const { job, directory, served } = await prepare(root, config);
  if (!served) return { directory, version: undefined, notes: [] };
  const s3 = new S3Client(client);
  try {
    const location = { bucket, prefix: modelPrefix(job.jobName) };
    if (job.worker.class !== undefined) {
      const { version } = await publishModel(s3, location, directory, { anyFiles: true });
      return { directory, version, notes: [] };
    }
    const [{ verifyVersion }, { verificationNotes }] = await Promise.all([
      import('../convert/verify/version.ts'),
      import('../convert/verify/text.ts'),
    ]);
    const known = readVerification(served.importReport?.verification);
    const { version, verification } = await publishModel(s3, location, served.directory, {
      verify: (file, stored) => verifyVersion(file, { known: stored ?? known, job }),
    });
    return { directory, version, notes: [...served.notes, ...verificationNotes(verification, job.batching)] };
  } finally {
    s3.destroy();
  }
}

export interface PreparedModel {
  /** The model directory, absolute. */
  readonly directory: string;
  /**
   * False when there is no such directory. The stack is still deployed, and answers 503 until a model is published.
   */
  readonly isThere: boolean;
  readonly notes: readonly string[];
}

/**
 * Called before anything is packaged or created: imports the model, or runs it once if it is ONNX.
 * @throws bad_config, bad_model, model_unavailable as publishJob does
 */
export async function prepareModel({
  root,
  config,
}: Pick<PublishRequest, 'root' | 'config'>): Promise<PreparedModel> {
  const { job, directory, served } = await prepare(root, config);
  if (!served) return { directory, isThere: false, notes: [] };
  // An import ran the model already, and a worker's folder is the worker's own.
  if (job.worker.class === undefined && served.importReport === undefined) await assertRuns(served.directory);
  return { directory, isThere: true, notes: served.notes };
}

interface Prepared {
  readonly job: JobConfig;
  readonly directory: string;
  readonly served: OnTheWay | undefined;
}

async function prepare(root: string, config: string | undefined): Promise<Prepared> {
  const { job } = readJobConfig(root, config);
  // Relative to the config file, as in local/start.ts.
  const directory = resolve(dirname(configPath(root, config)), job.modelPath);
  const found = await stat(directory).catch(() => undefined);
  if (!found?.isDirectory()) return { job, directory, served: undefined };
  if (job.worker.class !== undefined) {
    await modelFiles(directory);
    return { job, directory, served: { directory, notes: [] } };
  }
  const { modelOnTheWay } = await import('../convert/cache.ts');
  const served = await modelOnTheWay(directory, {
    job,
    cacheDir: join(root, CACHE, job.jobName),
    version: await packageVersion(),
  });
  return { job, directory, served };
}

async function assertRuns(directory: string): Promise<void> {
  const file = await findModelFile(directory);
  const [{ checkOnnx }, { readOnnxFacts }] = await Promise.all([
    import('../convert/check/check.ts'),
    import('../convert/onnx/facts.ts'),
  ]);
  const { shapelessInputs: shapeless } = await readOnnxFacts(file);
  try {
    await checkOnnx(file, { shapeless, measure: false });
  } catch (error) {
    const { code, message } = ServingError.from(error);
    throw new ServingError(code, `${file}: ${message}`, { cause: error });
  }
}

/** The version of this package, not of the project that deploys. */
async function packageVersion(): Promise<string> {
  const text = await readFile(new URL('../package.json', import.meta.url), 'utf8');
  return (JSON.parse(text) as { version: string }).version;
}
