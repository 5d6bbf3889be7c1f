/**
 * In: --bucket, --job, --config and the like. Out: where a job's parked messages, model and results are, opened.
 * Trap: --bucket means an account of its own: then nothing of the local service is used, neither its endpoint nor its
 * credentials nor its Redis. And a record must run with the job's own settings, or it fails here and not there.
 */
import { existsSync } from 'node:fs';
import { resolve } from 'node:path';
import { readConfig } from '../../lib/config/file.ts';
import { DEFAULT_JOB, type JobConfig } from '../../lib/config/job.ts';
import { assertJobName, DEFAULT_JOB_NAME } from '../../lib/contract/names.ts';
import { variables } from '../../lib/contract/variables.ts';
import { RedisConnection } from '../../lib/redis/connection.ts';
import { ResultHandover } from '../../lib/redis/replace-result.ts';
import { ParkedMessages } from '../../lib/s3/dead-letters.ts';
import { openS3, type S3Client } from '../../lib/s3/objects.ts';
import { DEFAULT_DATA_DIR, findRunning } from '../../local/data-folder.ts';
import { wrongUse } from '../command.ts';
import { assertUrl, findService } from '../service.ts';

export const DLQ_OPTIONS = {
  'data-dir': { type: 'string' },
  bucket: { type: 'string' },
  job: { type: 'string' },
  config: { type: 'string', short: 'c' },
  'redis-url': { type: 'string' },
  'queue-url': { type: 'string' },
} as const;

export interface DlqValues {
  readonly 'data-dir'?: string | undefined;
  readonly bucket?: string | undefined;
  readonly job?: string | undefined;
  readonly config?: string | undefined;
  readonly 'redis-url'?: string | undefined;
  readonly 'queue-url'?: string | undefined;
}

/** What the settings say. */
interface Settings {
  readonly job: JobConfig;
  /** Undefined when the settings are the defaults because nobody named others. */
  readonly config: string | undefined;
  readonly bucket: string;
  readonly endpoint: string | undefined;
  readonly region: string | undefined;
  readonly queueUrl: string | undefined;
}

export interface DlqPlace extends Settings {
  readonly s3: S3Client;
  readonly parked: ParkedMessages;
  /** Undefined where no Redis is known. */
  readonly results: ResultHandover | undefined;
  close(): Promise<void>;
}

/** For each command; a bucket may be far away. */
const REDIS_MS = 5_000;

interface Where extends Settings {
  readonly redisUrl: string | undefined;
}

/** @returns undefined when none was named and none runs here. @throws bad_config */
export async function openDlq(values: DlqValues): Promise<DlqPlace | undefined> {
  assertUrl('--redis-url', values['redis-url'], ['redis:', 'rediss:']);
  assertUrl('--queue-url', values['queue-url'], ['http:', 'https:']);
  const where = values.bucket === undefined ? await localPlace(values) : bucketPlace(values, values.bucket);
  if (!where) return undefined;
  const { job, bucket, endpoint, region, redisUrl } = where;
  const s3 = openS3({ endpoint, region });
  const timeouts = { connectTimeoutMs: REDIS_MS, commandTimeoutMs: REDIS_MS };
  const connection = redisUrl === undefined ? undefined : new RedisConnection(redisUrl, timeouts);
  const settings = { job: job.jobName, ttlSeconds: job.resultTtlSeconds, now: Date.now };
  return {
    ...where,
    s3,
    parked: new ParkedMessages(s3, bucket, job.jobName),
    results: connection && new ResultHandover(connection, settings),
    async close() {
      s3.destroy();
      await connection?.close();
    },
  };
}

function bucketPlace(values: DlqValues, bucket: string): Where {
  const { job, config } = settingsOf(values);
  return {
    job,
    config,
    bucket,
    endpoint: variables['AWS_ENDPOINT_URL'],
    region: undefined,
    queueUrl: values['queue-url'],
    redisUrl: values['redis-url'],
  };
}

/** What --config says, else ./config.yaml when it is this job's. */
function settingsOf({ config, job }: DlqValues): { job: JobConfig; config: string | undefined } {
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

async function localPlace(values: DlqValues): Promise<Where | undefined> {
  const { job: jobName, 'data-dir': dataDir } = values;
  const record = (await findRunning(resolve(dataDir ?? DEFAULT_DATA_DIR)))?.record;
  if (!record) return undefined;
  const service = await findService({ job: jobName, 'data-dir': dataDir });
  if (service?.bucket === undefined) return undefined;
  const said = values.config === undefined ? record.startedWith['config'] : values.config;
  const configs = (Array.isArray(said) ? said : [said]).filter((path) => typeof path === 'string');
  const read = configs.map((path) => ({ config: path, job: readConfig(path).job }));
  const own = read.find(({ job }) => job.jobName === service.job);
  if (!own && values.config !== undefined) namedJob(values.config, service.job);
  return {
    job: own?.job ?? { ...DEFAULT_JOB, jobName: service.job },
    config: own?.config,
    bucket: service.bucket,
    endpoint: service.endpoint,
    region: service.region,
    queueUrl: values['queue-url'] ?? service.queueUrl,
    redisUrl: values['redis-url'] ?? service.redisUrl,
  };
}
