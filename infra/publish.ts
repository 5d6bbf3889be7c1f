/**
 * Uploads the model of `modelPath` to the bucket of its stack and makes it serve; before there is a stack, only
 * checks that it could serve. A running environment looks for a new version at its first call after
 * modelRefreshSeconds and answers with the old one until then.
 */
import { readFile, stat } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { S3Client, type S3ClientConfig } from '@aws-sdk/client-s3';
import type { JobConfig } from '../lib/config/job.ts';
import { isInS3, resolveModelPath } from '../lib/config/model-path.ts';
import { ServingError } from '../lib/contract/errors.ts';
import { modelPrefix } from '../lib/contract/names.ts';
import { readVerification } from '../lib/contract/verification.ts';
import { removeOthers } from '../lib/registry/download-folder.ts';
import { findModelFile } from '../lib/registry/onnx-file.ts';
import { modelFiles, publishModel } from '../lib/registry/publish.ts';
import { copyModel } from '../lib/registry/source.ts';
import type { OnTheWay } from '../onnx-import/cache.ts';
import { configPath, readJobConfig } from './template/config.ts';

export interface PublishRequest {
  /** The folder with serverless.yml, absolute. */
  readonly root: string;
  /** The value of `--param config`. */
  readonly config: string | undefined;
  readonly bucket: string;
  /** True: golden requests of the serving version are neither asked nor kept. */
  readonly dropGolden?: boolean | undefined;
  /** Region and credentials of the deployment. */
  readonly client: S3ClientConfig;
}

/** What a model is prepared from. */
export interface PrepareRequest extends Pick<PublishRequest, 'root' | 'config'> {
  /** Asked for a model in S3 alone: packaging another one needs no account. */
  readonly client: () => Promise<S3ClientConfig>;
}

export interface Published {
  /** The model directory, absolute, or its address in S3. */
  readonly directory: string;
  /** Undefined when there is no such directory. */
  readonly version: string | undefined;
  /** Notes for the user about an import. */
  readonly notes: readonly string[];
}

/** The usual place for caches, relative to the project. */
const CACHE = join('node_modules', '.cache', 'cluster-serving');

/**
 * @throws bad_config; bad_model for a model that cannot be imported; model_unavailable for a directory without a
 * model or with two; errors of S3
 */
export async function publishJob({
  root,
  config,
  bucket,
  dropGolden,
  client,
}: PublishRequest): Promise<Published> {
  const { job, directory, served } = await prepare({ root, config, client: async () => client });
  if (!served) return { directory, version: undefined, notes: [] };
  const s3 = new S3Client(client);
  try {
    const location = { bucket, prefix: modelPrefix(job.jobName) };
    if (job.worker.class !== undefined) {
      const { version } = await publishModel(s3, location, served.directory, { anyFiles: true });
      return { directory, version, notes: [] };
    }
    const [{ verifyVersion }, { keptGoldenNotes, verificationNotes }] = await Promise.all([
      import('../onnx-import/verify/version.ts'),
      import('../onnx-import/verify/text.ts'),
    ]);
    const known = readVerification(served.importReport?.verification);
    const { version, verification, keptGolden } = await publishModel(s3, location, served.directory, {
      dropGolden,
      verify: (file, stored, kept) =>
        verifyVersion(file, { known: stored ?? known, kept, job, isDeployed: true }),
    });
    const notes = [
      ...served.notes,
      ...keptGoldenNotes(keptGolden),
      ...verificationNotes(verification, job.batching),
    ];
    return { directory, version, notes };
  } finally {
    s3.destroy();
  }
}

export interface PreparedModel {
  /** The model directory, absolute, or its address in S3. */
  readonly directory: string;
  /**
   * False when there is no such directory. The stack is still deployed, and answers 503 until a model is published.
   */
  readonly isThere: boolean;
  readonly notes: readonly string[];
}

/**
 * Called before anything is packaged or created: copies a model from S3, and imports it, or runs it once if it is ONNX.
 * @throws bad_config, bad_model, model_unavailable as publishJob does
 */
export async function prepareModel(request: PrepareRequest): Promise<PreparedModel> {
  const { job, directory, served } = await prepare(request);
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

async function prepare({ root, config, client }: PrepareRequest): Promise<Prepared> {
  const { job } = readJobConfig(root, config);
  // Relative to the config file, as in local/start.ts.
  const directory = resolveModelPath(dirname(configPath(root, config)), job.modelPath);
  const here = isInS3(directory)
    ? await copyHere(directory, join(root, CACHE, 'copied', job.jobName), client)
    : directory;
  const found = await stat(here).catch(() => undefined);
  const isWorker = job.worker.class !== undefined;
  if (!found || (isWorker && !found.isDirectory())) return { job, directory, served: undefined };
  if (isWorker) {
    await modelFiles(here);
    return { job, directory, served: { directory: here, notes: [] } };
  }
  const { modelOnTheWay } = await import('../onnx-import/cache.ts');
  const served = await modelOnTheWay(here, {
    job,
    cacheDir: join(root, CACHE, 'imported', job.jobName),
    version: await packageVersion(),
  });
  return { job, directory, served };
}

/** With the account of the deployment, which may be another one than that of the environment. */
async function copyHere(address: string, folder: string, client: PrepareRequest['client']): Promise<string> {
  const s3 = new S3Client({ ...(await client()), followRegionRedirects: true });
  try {
    const copied = await copyModel(address, folder, { s3 });
    await removeOthers(folder, new Set([basename(copied)]));
    return copied;
  } finally {
    s3.destroy();
  }
}

async function assertRuns(directory: string): Promise<void> {
  const file = await findModelFile(directory);
  const [{ checkOnnx }, { readOnnxFacts }] = await Promise.all([
    import('../onnx-import/check/check.ts'),
    import('../onnx-import/onnx/facts.ts'),
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
