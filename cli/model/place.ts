/**
 * Finds the place in S3 for `model` commands. For a named bucket nothing of the local service is used, neither its
 * endpoint nor its credentials, because the bucket belongs to another account.
 */
import { type JobConfig, modelsBudget } from '../../lib/config/job.ts';
import {
  assertJobName,
  assertModelName,
  DEFAULT_JOB_NAME,
  type JobModel,
  modelAt,
  modelPrefix,
  readS3Address,
} from '../../lib/contract/names.ts';
import { variables } from '../../lib/contract/variables.ts';
import type { ModelLocation } from '../../lib/registry/download.ts';
import type { NamedPlace } from '../../lib/registry/memory.ts';
import type { S3Client } from '../../lib/s3/objects.ts';
import { findRunning } from '../../local/service/data-folder.ts';
import { unexpected, wrongUse } from '../command.ts';
import type { Output } from '../output.ts';
import { dataDirOf, findService, notRunning, type ServiceValues } from '../service.ts';

export type PlaceValues = ServiceValues & {
  readonly to?: string | undefined;
  /** The name of a further model. */
  readonly model?: string | undefined;
};

export interface Place {
  /** Where a worker is served from its own folder, and nothing else: its config. */
  readonly workerConfig?: string | undefined;
  /** The name of a further model; undefined for the job's own. */
  readonly model?: string | undefined;
  readonly location: ModelLocation;
  readonly endpoint: string | undefined;
  readonly region: string | undefined;
  /** s3://bucket/prefix/ */
  readonly text: string;
}

export interface OpenPlace extends Place {
  readonly s3: S3Client;
}

type Work = (place: OpenPlace) => Promise<number>;

/** The place that an import publishes to; undefined when the model stays on this machine. @throws bad_config */
export async function importPlace(values: PlaceValues): Promise<Place | undefined> {
  const { to, job, bucket, model, 'data-dir': dataDir } = values;
  if (to !== undefined && (job ?? bucket ?? model) !== undefined) {
    throw wrongUse('--to names bucket and prefix; use it without --job, --bucket and --model');
  }
  if (job === undefined && (bucket ?? dataDir ?? model) !== undefined) {
    const given = bucket === undefined ? (model === undefined ? 'data-dir' : 'model') : 'bucket';
    throw wrongUse(`--${given} goes with --job`);
  }
  if (to === undefined && job === undefined) return undefined;
  const found = await findPlace(values);
  if (found) return found;
  throw wrongUse(`--job ${job}: no local service runs here; --bucket names that of a deployed one`);
}

/** Calls `work` with the place, or reports that there is none. @throws bad_config for conflicting options */
export async function withPlace(values: PlaceValues, output: Output, work: Work): Promise<number> {
  const { to, job, bucket, model, 'data-dir': dataDir } = values;
  if (to !== undefined && (job ?? bucket ?? model ?? dataDir) !== undefined) {
    throw wrongUse('--to names bucket and prefix; use it without --job, --bucket, --model and --data-dir');
  }
  const place = await findPlace(values);
  return place ? withS3(place, work) : notRunning(values, output, '--to or --bucket');
}

/** Closes the S3 client after `work`. */
export async function withS3<T>(place: Place, work: (place: OpenPlace) => Promise<T>): Promise<T> {
  const { openS3 } = await import('../../lib/s3/client.ts');
  const s3 = openS3({ endpoint: place.endpoint, region: place.region });
  try {
    return await work({ ...place, s3 });
  } finally {
    s3.destroy();
  }
}

async function findPlace(values: PlaceValues): Promise<Place | undefined> {
  const { to, bucket, job, model, 'data-dir': dataDir } = values;
  const endpoint = variables['AWS_ENDPOINT_URL'] || undefined;
  if (to !== undefined) {
    const address = readS3Address(to);
    if (address === undefined) throw unexpected('to', 's3://bucket/prefix', to);
    const { bucket: name, key } = address;
    return placeAt(name, key === '' || key.endsWith('/') ? key : `${key}/`, endpoint);
  }
  if (job !== undefined) assertJobName(job);
  if (bucket !== undefined)
    return { ...placeAt(bucket, prefixOf(job ?? DEFAULT_JOB_NAME, model), endpoint), model };
  const service = await findService({ job, 'data-dir': dataDir });
  if (service?.bucket === undefined) return undefined;
  const record = (await findRunning(dataDirOf({ 'data-dir': dataDir })))?.record;
  const { configsOf } = await import('../configs.ts');
  const own = configsOf(record?.startedWith['config']).find((each) => each.job.jobName === service.job);
  const place = placeAt(service.bucket, prefixOf(service.job, model), service.endpoint, service.region);
  return { ...place, model, workerConfig: own?.job.worker.class === undefined ? undefined : own.config };
}

/** A further model shares memory with others, within the budget of these settings. */
export function namedPlace({ model }: Place, job: JobConfig): NamedPlace | undefined {
  return model === undefined ? undefined : { name: model, budgetBytes: modelsBudget(job) };
}

function prefixOf(job: string, model: string | undefined): string {
  return modelPrefix(job, model === undefined ? undefined : assertModelName(model, job));
}

function placeAt(bucket: string, prefix: string, endpoint?: string, region?: string): Place {
  return { location: { bucket, prefix }, endpoint, region, text: `s3://${bucket}/${prefix}` };
}

/** The model that has this place; undefined for a place of `--to` of which nothing is captured. */
export function capturedModel({ location }: Pick<Place, 'location'>): JobModel | undefined {
  return modelAt(location.prefix);
}
