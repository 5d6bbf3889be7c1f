/**
 * In: the options that say where a service is, or none. Out: its addresses.
 * Trap: what is said wins, then the service of the data folder, then what the AWS environment finds by the job's
 * name. The local service's credentials are put into the environment whole, so that nothing of a real account is
 * sent to it.
 */
import { resolve } from 'node:path';
import { DEFAULT_JOB_NAME } from '../lib/contract/names.ts';
import { setVariables, variables } from '../lib/contract/variables.ts';
import { DEFAULT_DATA_DIR, findRunning, type StackRecord } from '../local/data-folder.ts';
import { wrongUse } from './command.ts';
import { EXIT, type Output } from './output.ts';

export const SERVICE_OPTIONS = { 'data-dir': { type: 'string' }, url: { type: 'string' } } as const;

export const JOB_OPTION = { job: { type: 'string' } } as const;

export const SERVICE_HELP = `\
      --data-dir <dir>    folder of the local service (default .cluster-serving)
      --url <url>         HTTPS API of a service elsewhere`;

export const JOB_HELP = `      --job <name>        which job (default: the first of the local service, elsewhere ${DEFAULT_JOB_NAME})`;

export interface ServiceValues {
  readonly 'data-dir'?: string | undefined;
  readonly url?: string | undefined;
  readonly job?: string | undefined;
  readonly 'queue-url'?: string | undefined;
  readonly 'redis-url'?: string | undefined;
  readonly bucket?: string | undefined;
}

export interface Service {
  readonly job: string;
  readonly http?: string | undefined;
  readonly queueUrl?: string | undefined;
  readonly endpoint?: string | undefined;
  readonly region?: string | undefined;
  readonly bucket?: string | undefined;
  readonly redisUrl?: string | undefined;
}

/** @returns undefined when none was named and none runs here. @throws bad_config for an address that is none */
export async function findService(values: ServiceValues): Promise<Service | undefined> {
  const { url, 'queue-url': queueUrl, 'redis-url': redisUrl, bucket } = values;
  assertUrl('--url', url, ['http:', 'https:']);
  assertUrl('--queue-url', queueUrl, ['http:', 'https:']);
  assertUrl('--redis-url', redisUrl, ['redis:', 'rediss:']);
  const job = values.job ?? DEFAULT_JOB_NAME;
  if (url !== undefined || queueUrl !== undefined || redisUrl !== undefined) {
    return { job, http: url, queueUrl, region: regionOf(queueUrl), redisUrl, bucket };
  }
  const record = (await findRunning(resolve(values['data-dir'] ?? DEFAULT_DATA_DIR)))?.record;
  if (record) return localService(record, values);
  return values.job !== undefined || hasAwsEnvironment() ? { job, bucket } : undefined;
}

function localService(record: StackRecord, { job, bucket }: ServiceValues): Service {
  const places = record.jobs.find((each) => each.job === (job ?? record.job));
  if (!places) {
    const names = record.jobs.map((each) => each.job).join(', ');
    throw wrongUse(`the service of this folder serves ${names}, not the job ${job}; say --data-dir`);
  }
  setVariables({ AWS_PROFILE: undefined, AWS_SESSION_TOKEN: undefined, ...record.environment });
  return {
    job: places.job,
    http: places.http,
    queueUrl: places.queueUrl,
    endpoint: record.environment['AWS_ENDPOINT_URL'],
    region: record.environment['AWS_REGION'],
    bucket: bucket ?? record.bucket,
    redisUrl: record.redisUrl,
  };
}

/** Says that no service is there, and how there could be one. */
export function notRunning(values: ServiceValues, output: Output, options = '--url'): number {
  const dataDir = resolve(values['data-dir'] ?? DEFAULT_DATA_DIR);
  const text = `no service runs on ${dataDir}; \`cluster-serving start\` starts one, ${options} names another`;
  if (output.json) output.answer({ error: text, code: 'not_running' }, '');
  output.note(`error: ${text}`);
  return EXIT.notRunning;
}

/** Somebody has told the AWS SDK who we are. */
function hasAwsEnvironment(): boolean {
  const names = ['AWS_PROFILE', 'AWS_ACCESS_KEY_ID', 'AWS_WEB_IDENTITY_TOKEN_FILE'];
  return names.some((name) => Boolean(variables[name]));
}

/** https://sqs.eu-west-1.amazonaws.com/123456789012/name says its region. */
function regionOf(queueUrl: string | undefined): string | undefined {
  return /^https:\/\/sqs\.([a-z0-9-]+)\.amazonaws\./.exec(queueUrl ?? '')?.[1];
}

export function assertUrl(option: string, text: string | undefined, protocols: readonly string[]): void {
  if (text === undefined) return;
  const protocol = URL.canParse(text) ? new URL(text).protocol : undefined;
  if (protocol !== undefined && protocols.includes(protocol)) return;
  throw wrongUse(`${option}: expected ${protocols.join('// or ')}//..., got ${JSON.stringify(text)}`);
}
