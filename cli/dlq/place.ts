/**
 * Opens a job's dead letters and results. With --bucket, nothing of the local service is used: not its endpoint,
 * credentials or Redis, because the bucket may be in another account. A record must run with the job's own settings;
 * otherwise it may fail here although it works there.
 */
import { existsSync } from 'node:fs';
import { resolve } from 'node:path';
import { connect, openReplacer } from '../../lib/compose/store.ts';
import { readConfig } from '../../lib/config/file.ts';
import { DEFAULT_JOB, type JobConfig } from '../../lib/config/job.ts';
import { assertJobName, DEFAULT_JOB_NAME } from '../../lib/contract/names.ts';
import { variables } from '../../lib/contract/variables.ts';
import { credentialsOf, openS3 } from '../../lib/s3/client.ts';
import { DeadLetters } from '../../lib/s3/dead-letters.ts';
import { findRunning } from '../../local/service/data-folder.ts';
import { wrongUse } from '../command.ts';
import { configsOf } from '../configs.ts';
import { assertUrls, dataDirOf, findService, type ServiceValues } from '../service.ts';

export interface DlqValues extends ServiceValues {
  readonly config?: string | undefined;
}

/** Without a config the settings of the job are the defaults. */
type Place = {
  readonly job: JobConfig;
  readonly bucket: string;
  /** True for the service of this machine, where a worker has its own folder. */
  readonly isLocal: boolean;
} & {
  readonly [Key in 'config' | 'endpoint' | 'region' | 'queueUrl' | 'redisUrl']: string | undefined;
};

export type DlqPlace = NonNullable<Awaited<ReturnType<typeof openDlq>>>;

/** The limit of each Redis command; the Redis may be far away. */
const REDIS_MS = 5_000;

/** @returns undefined when none was named and none runs here. @throws bad_config */
export async function openDlq(values: DlqValues) {
  assertUrls(values);
  const where = values.bucket === undefined ? await localPlace(values) : bucketPlace(values, values.bucket);
  if (!where) return undefined;
  const { job, bucket, endpoint, region } = where;
  const s3 = openS3({ endpoint, region });
  const credentials = () => credentialsOf(s3);
  const timeouts = { connectTimeoutMs: REDIS_MS, commandTimeoutMs: REDIS_MS };
  const connection =
    where.redisUrl === undefined ? undefined : connect({ redisUrl: where.redisUrl, credentials }, timeouts);
  const settings = { job: job.jobName, ttlSeconds: job.resultTtlSeconds, now: Date.now };
  return {
    ...where,
    s3,
    deadLetters: new DeadLetters(s3, bucket, job.jobName),
    /** Undefined when no Redis is known. */
    results: connection && openReplacer(connection, settings),
    async close(): Promise<void> {
      s3.destroy();
      await connection?.close();
    },
  };
}

function bucketPlace(values: DlqValues, bucket: string): Place {
  const { 'queue-url': queueUrl, 'redis-url': redisUrl } = values;
  const endpoint = variables['AWS_ENDPOINT_URL'] || undefined;
  return { ...settingsOf(values), bucket, endpoint, region: undefined, queueUrl, redisUrl, isLocal: false };
}

/** The settings of --config, else of ./config.yaml if it belongs to this job. */
function settingsOf({ config, job }: DlqValues): Pick<Place, 'job' | 'config'> {
  if (job !== undefined) assertJobName(job);
  if (config !== undefined) return { job: namedJob(config, job), config };
  const here = resolve('config.yaml');
  const found = existsSync(here) ? readConfig(here).job : undefined;
  if (found && (job === undefined || job === found.jobName)) return { job: found, config: here };
  return { job: { ...DEFAULT_JOB, jobName: job ?? DEFAULT_JOB_NAME }, config: undefined };
}

function namedJob(config: string, job: string | undefined): JobConfig {
  const found = readConfig(config).job;
  if (job === undefined || job === found.jobName) return found;
  throw wrongUse(`--job ${job}: ${config} is the config of the job ${found.jobName}`);
}

async function localPlace(values: DlqValues): Promise<Place | undefined> {
  const record = (await findRunning(dataDirOf(values)))?.record;
  if (!record) return undefined;
  const service = await findService({ job: values.job, 'data-dir': values['data-dir'] });
  if (service?.bucket === undefined) return undefined;
  const read = configsOf(values.config ?? record.startedWith['config']);
  const own = read.find(({ job }) => job.jobName === service.job);
  if (!own && values.config !== undefined) namedJob(values.config, service.job);
  const { bucket, endpoint, region } = service;
  const { 'queue-url': queueUrl = service.queueUrl, 'redis-url': redisUrl = service.redisUrl } = values;
  const job = own?.job ?? { ...DEFAULT_JOB, jobName: service.job };
  return { job, config: own?.config, bucket, endpoint, region, queueUrl, redisUrl, isLocal: true };
}
