/**
 * Uploads the model of `modelPath`, and the further ones of `models.folder`, to the bucket of their stack and makes them serve; before
 * there is a stack, only checks that they could serve. A running environment looks for a new version at its first call after
 * modelRefreshSeconds and answers with the old one until then.
 */
import { readFile, stat } from 'node:fs/promises';
import { basename, dirname, join, resolve } from 'node:path';
import { S3Client, type S3ClientConfig } from '@aws-sdk/client-s3';
import type { JobConfig } from '../lib/config/job.ts';
import { isInHub, isRemote, resolveModelPath } from '../lib/config/model-path.ts';
import { ServingError } from '../lib/contract/errors.ts';
import { modelPrefix } from '../lib/contract/names.ts';
import { readVerification } from '../lib/contract/verification.ts';
import { removeOthers } from '../lib/registry/download-folder.ts';
import { findModelFile } from '../lib/registry/onnx-file.ts';
import { modelFiles, publishModel } from '../lib/registry/publish.ts';
import { copyModel } from '../lib/registry/source.ts';
import type { OnTheWay } from '../release/cache.ts';
import type { ModelFolder } from '../release/further-models.ts';
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

/** The source of a prepared model. */
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
  /** The names of further models. */
  readonly further: readonly string[];
}

/** The usual place for caches, relative to the project. */
const CACHE = join('node_modules', '.cache', 'cluster-serving');

/**
 * @throws bad_config; bad_model for a model that cannot be imported; model_unavailable for a directory without a
 * model or with two; errors of S3
 */
export async function publishJob(request: PublishRequest): Promise<Published> {
  const { client } = request;
  const prepared = await prepare({ ...request, client: async () => client });
  const s3 = new S3Client(client);
  try {
    const own = await publishOwn(prepared, request, s3);
    const models = await foldersOf(request, prepared.job);
    if (models.length === 0) return { ...own, further: [] };
    const { publishFurther } = await import('../release/further-models.ts');
    const notes = await publishFurther(models, {
      s3,
      bucket: request.bucket,
      job: prepared.job,
      dropGolden: request.dropGolden,
      served: (model) => furtherHere(request, prepared.job, model),
      verifying: () => ({ isDeployed: true }),
    });
    return { ...own, notes: [...own.notes, ...notes], further: models.map(({ name }) => name) };
  } finally {
    s3.destroy();
  }
}

async function publishOwn(
  { job, directory, served }: Prepared,
  { bucket, dropGolden }: PublishRequest,
  s3: S3Client,
): Promise<Omit<Published, 'further'>> {
  if (!served) return { directory, version: undefined, notes: [] };
  const location = { bucket, prefix: modelPrefix(job.jobName) };
  if (job.worker.class !== undefined) {
    const { version } = await publishModel(s3, location, served.directory, { anyFiles: true });
    return { directory, version, notes: [] };
  }
  const [{ verifyVersion }, { keptGoldenNotes, verificationNotes }] = await Promise.all([
    import('../release/version.ts'),
    import('../lib/contract/verification-text.ts'),
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
 * Called before anything is packaged or created: copies a model from S3 or the hub, and imports it, or runs it once if it is ONNX.
 * @throws bad_config, bad_model, model_unavailable as publishJob does
 */
export async function prepareModel(request: PrepareRequest): Promise<PreparedModel> {
  const { job, directory, served } = await prepare(request);
  // An import ran the model already, and a worker's folder is the worker's own.
  if (served && job.worker.class === undefined && served.importReport === undefined)
    await assertRuns(served.directory);
  const notes = [...(served?.notes ?? [])];
  for (const model of await foldersOf(request, job)) {
    const { naming } = await import('../release/further-models.ts');
    const further = await naming(model, () => furtherHere(request, job, model));
    if (further.importReport === undefined) await naming(model, () => assertRuns(further.directory));
    notes.push(...further.notes.map((note) => `model ${model.name}: ${note}`));
  }
  return { directory, isThere: served !== undefined, notes };
}

/** The folders of further models. A worker has none. */
async function foldersOf(
  { root, config }: Pick<PrepareRequest, 'root' | 'config'>,
  { jobName, models, worker }: JobConfig,
): Promise<ModelFolder[]> {
  if (models.folder === undefined || worker.class !== undefined) return [];
  const { modelFolders } = await import('../release/further-models.ts');
  return modelFolders(resolve(dirname(configPath(root, config)), models.folder), jobName);
}

async function furtherHere(
  { root }: Pick<PrepareRequest, 'root'>,
  job: JobConfig,
  { name, folder }: ModelFolder,
): Promise<OnTheWay> {
  const { modelOnTheWay } = await import('../release/cache.ts');
  const cacheDir = join(root, CACHE, 'imported-further', job.jobName, name);
  return modelOnTheWay(folder, { job, cacheDir, version: await packageVersion() });
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
  const here = isRemote(directory) ? await copyHere(directory, job, join(root, CACHE), client) : directory;
  const found = await stat(here).catch(() => undefined);
  const isWorker = job.worker.class !== undefined;
  if (!found || (isWorker && !found.isDirectory())) return { job, directory, served: undefined };
  if (isWorker) {
    await modelFiles(here);
    return { job, directory, served: { directory: here, notes: [] } };
  }
  const { modelOnTheWay } = await import('../release/cache.ts');
  const served = await modelOnTheWay(here, {
    job,
    cacheDir: join(root, CACHE, 'imported', job.jobName),
    version: await packageVersion(),
  });
  const { readOrigin } = await import('../onnx-import/index.ts');
  const { commit } = readOrigin(here) ?? {};
  const notes = commit === undefined ? served.notes : [`${directory} is commit ${commit}`, ...served.notes];
  return { job, directory, served: { ...served, notes } };
}

/** With the account of the deployment, which may be another one than that of the environment. */
async function copyHere(
  address: string,
  { jobName }: JobConfig,
  cache: string,
  client: PrepareRequest['client'],
): Promise<string> {
  if (isInHub(address)) {
    const { copyFromHub } = await import('../release/hub/copy.ts');
    return copyFromHub(address, join(cache, 'hub'));
  }
  const folder = join(cache, 'copied', jobName);
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
  const { check, readFacts } = await import('../onnx-import/index.ts');
  const { shapelessInputs: shapeless } = await readFacts(file);
  try {
    await check(file, { shapeless, measure: false });
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
