/**
 * Finds the service for a command: addresses in options come first, then the service of the data folder, then what
 * AWS finds by the job's name. The local service's credentials replace those of the environment completely, so that
 * no real credentials are sent to it.
 */
import { resolve } from 'node:path';
import { DEFAULT_JOB_NAME } from '../lib/contract/names.ts';
import { setVariables, variables } from '../lib/contract/variables.ts';
import { readToken } from '../local/access.ts';
import { DEFAULT_DATA_DIR, findRunning, type StackRecord } from '../local/data-folder.ts';
import { postJson, withToken } from '../sdk/fetch.ts';
import { unexpected, wrongUse } from './command.ts';
import { EXIT, type Output } from './output.ts';

/** Options that several commands share. */
export const DATA_DIR = {
  value: 'dir',
  default: DEFAULT_DATA_DIR,
  about: 'folder of the local service',
} as const;
export const YES = { short: 'y', about: 'do not ask; needed where there is no terminal' } as const;
export const SERVICE_OPTIONS = {
  'data-dir': DATA_DIR,
  url: { value: 'url', about: 'HTTPS API of another service' },
  'token-file': { value: 'file', about: 'file with its token (default: that of the local service)' },
} as const;
export const JOB = {
  value: 'name',
  about: `job (default: the first one of the local service; ${DEFAULT_JOB_NAME} for another service)`,
} as const;

type ServiceOption = 'data-dir' | 'url' | 'token-file' | 'job' | 'queue-url' | 'redis-url' | 'bucket';
export type ServiceValues = { readonly [O in ServiceOption]?: string | undefined };

type Address = 'http' | 'queueUrl' | 'endpoint' | 'region' | 'bucket' | 'redisUrl';
/** `token` is what its HTTPS API asks for. */
export type Service = { readonly job: string; readonly token?: string | undefined } & {
  readonly [A in Address]?: string | undefined;
};

/** @returns undefined when none was named and none runs here. @throws bad_config for an invalid address */
export async function findService(values: ServiceValues): Promise<Service | undefined> {
  const { url, 'queue-url': queueUrl, 'redis-url': redisUrl, bucket } = values;
  assertUrls(values);
  const job = values.job ?? DEFAULT_JOB_NAME;
  if (url !== undefined || queueUrl !== undefined || redisUrl !== undefined) {
    // https://sqs.eu-west-1.amazonaws.com/123456789012/name
    const region = /^https:\/\/sqs\.([a-z0-9-]+)\.amazonaws\./.exec(queueUrl ?? '')?.[1];
    const token = tokenOf(values);
    return { job, http: url?.replace(/\/+$/, ''), token, queueUrl, region, redisUrl, bucket };
  }
  const record = (await findRunning(dataDirOf(values)))?.record;
  if (record) return localService(record, values);
  const credentials = ['AWS_PROFILE', 'AWS_ACCESS_KEY_ID', 'AWS_WEB_IDENTITY_TOKEN_FILE'];
  const hasCredentials = credentials.some((name) => Boolean(variables[name]));
  return values.job !== undefined || hasCredentials ? { job, bucket } : undefined;
}

interface Sent {
  readonly path: string;
  readonly body: string;
  /** Who asks, in errors. */
  readonly command: string;
  /** Of the body. Default: JSON. */
  readonly type?: string;
}

/** Posts JSON to the service's HTTPS API. @param pick finds the answer, or undefined when another service answers */
export async function post<T>(
  { http, token }: Service,
  { path, body, command, type }: Sent,
  pick: (answer: Readonly<Record<string, unknown>>) => T | undefined,
): Promise<T> {
  if (http === undefined) throw wrongUse(`${command} needs the HTTPS API: pass --url`);
  const url = `${http}${path}`;
  const headers: Record<string, string> = type === undefined ? {} : { 'content-type': type };
  const answer = await postJson(url, body, undefined, withToken(undefined, token), headers);
  const picked = pick((answer ?? {}) as Readonly<Record<string, unknown>>);
  if (picked !== undefined) return picked;
  throw wrongUse(`${url} answered, but not as this service does`);
}

/** The texts of a list that is not empty. */
export function textsOf(list: unknown): readonly string[] | undefined {
  const isList = Array.isArray(list) && list.length > 0 && list.every((text) => typeof text === 'string');
  return isList ? list : undefined;
}

export function dataDirOf(values: Pick<ServiceValues, 'data-dir'>): string {
  return resolve(values['data-dir'] ?? DEFAULT_DATA_DIR);
}

/** The token in the file of --token-file, else of the local service if it has one. @throws bad_config */
export function tokenOf(values: ServiceValues, record?: StackRecord): string | undefined {
  // The record is a file, which an earlier version may have written without options.
  const local: Partial<StackRecord> = record ?? {};
  const path = values['token-file'] ?? local.startedWith?.['token-file'];
  return typeof path === 'string' ? readToken(path) : undefined;
}

function localService(record: StackRecord, values: ServiceValues): Service {
  const { job, bucket } = values;
  const places = record.jobs.find((each) => each.job === (job ?? record.job));
  if (!places) {
    const names = record.jobs.map((each) => each.job).join(', ');
    throw wrongUse(`the service of this folder serves ${names}, not the job ${job}; pass --data-dir`);
  }
  setVariables({ AWS_PROFILE: undefined, AWS_SESSION_TOKEN: undefined, ...record.environment });
  const { job: name, http, queueUrl } = places;
  const { AWS_ENDPOINT_URL: endpoint, AWS_REGION: region } = record.environment;
  const { redisUrl } = record;
  const token = tokenOf(values, record);
  return { job: name, http, token, queueUrl, endpoint, region, bucket: bucket ?? record.bucket, redisUrl };
}

/** Reports that no service is running and how to start or name one. @param options that name another one */
export function notRunning(values: ServiceValues, output: Output, options = '--url'): number {
  const start = '`cluster-serving start` starts one';
  const text = `no service runs on ${dataDirOf(values)}; ${start}, ${options} names another`;
  if (output.json) output.answer({ error: text, code: 'not_running' }, '');
  output.note(`error: ${text}`);
  return EXIT.notRunning;
}

/** @throws bad_config */
export function assertUrls(values: ServiceValues): void {
  for (const option of ['url', 'queue-url', 'redis-url'] as const) {
    const text = values[option];
    const protocol = text !== undefined && URL.canParse(text) ? new URL(text).protocol : '';
    const allowed = option === 'redis-url' ? ['redis:', 'rediss:'] : ['http:', 'https:'];
    if (text !== undefined && !allowed.includes(protocol)) {
      throw unexpected(option, `${allowed.join('// or ')}//...`, text);
    }
  }
}
