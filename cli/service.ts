/**
 * Finds the service for a command: addresses in options come first, then the service of the data folder, then what
 * AWS finds by the job's name. The local service's credentials replace those of the environment completely, so that
 * no real credentials are sent to it.
 */
import { resolve } from 'node:path';
import { DEFAULT_JOB_NAME } from '../lib/contract/names.ts';
import { setVariables, variables } from '../lib/contract/variables.ts';
import { readToken } from '../local/machine/access.ts';
import { DEFAULT_DATA_DIR, findRunning, type StackRecord } from '../local/service/data-folder.ts';
import { otherServices } from '../local/service/services.ts';
import { type AccessOptions, AUTH_KINDS, type AuthKind, authorizedFetch } from '../sdk/access.ts';
import { request } from '../sdk/fetch.ts';
import { MAX_TOKEN } from '../sdk/http/access.ts';
import { servedJob } from '../sdk/http/served-model.ts';
import { accessOfStack, findStack } from '../sdk/stack.ts';
import { grouped, unexpected, wrongUse } from './command.ts';
import { EXIT, type Output } from './output.ts';

/** Options that several commands share. */
export const DATA_DIR = {
  value: 'dir',
  default: DEFAULT_DATA_DIR,
  about: 'folder of the local service',
} as const;
export const YES = { short: 'y', about: 'do not ask; needed where there is no terminal' } as const;
export const SERVICE_OPTIONS = grouped('Connection', {
  'data-dir': DATA_DIR,
  url: { value: 'url', about: 'HTTPS API of another service' },
  stack: { value: 'name', about: 'CloudFormation stack of a deployment, whose addresses are looked up' },
  region: { value: 'name', about: 'AWS region (default: AWS_REGION, or that of the profile)' },
  profile: { value: 'name', about: 'AWS credentials of ~/.aws (default: AWS_PROFILE)' },
  auth: {
    choices: AUTH_KINDS,
    about: 'how its HTTPS API asks who calls (default: what the stack, the address and the files say)',
  },
  'token-file': {
    value: 'file',
    about: 'file with its token or JWT (default: that of the local service; CLUSTER_SERVING_TOKEN)',
  },
  'api-key-file': { value: 'file', about: 'file with the API key of a gateway (CLUSTER_SERVING_API_KEY)' },
});
export const JOB = {
  group: 'Connection',
  value: 'name',
  about: `job (default: the first one of the local service; ${DEFAULT_JOB_NAME} for another service)`,
} as const;
export const CANARY_KEY = {
  value: 'key',
  about:
    'what decides whether a canary answers, such as the id of a user (default: each uri or request by itself)',
} as const;

export const MODEL = {
  value: 'name',
  about: "a further model of the job, which is to answer (default: the job's own)",
} as const;

type ServiceOption =
  | Exclude<keyof typeof SERVICE_OPTIONS, 'auth'>
  | 'job'
  | 'queue-url'
  | 'redis-url'
  | 'bucket';
export type ServiceValues = { readonly [O in ServiceOption]?: string | undefined } & {
  readonly auth?: AuthKind | undefined;
};

const ANSWER_MS = 35_000;
const POST_MS = 30_000;

type Address = 'http' | 'queueUrl' | 'endpoint' | 'region' | 'bucket' | 'redisUrl';
/** `access` is what its HTTPS API asks for. */
export type Service = { readonly job: string; readonly access: AccessOptions } & {
  readonly [A in Address]?: string | undefined;
};

/** @returns undefined when none was named and none runs here. @throws bad_config for an invalid address */
export async function findService(values: ServiceValues): Promise<Service | undefined> {
  const { url, 'queue-url': queueUrl, 'redis-url': redisUrl, bucket } = values;
  assertUrls(values);
  useAccount(values);
  if (values.stack !== undefined) return serviceOfStack(values.stack, values);
  const job = values.job ?? DEFAULT_JOB_NAME;
  if (url !== undefined || queueUrl !== undefined || redisUrl !== undefined) {
    // https://sqs.eu-west-1.amazonaws.com/123456789012/name
    const region = /^https:\/\/sqs\.([a-z0-9-]+)\.amazonaws\./.exec(queueUrl ?? '')?.[1] ?? values.region;
    const http = url?.replace(/\/+$/, '');
    return { job, http, access: accessOf(values), queueUrl, region, redisUrl, bucket };
  }
  const record = await localRecord(values);
  if (record) return localService(record, values);
  const credentials = ['AWS_PROFILE', 'AWS_ACCESS_KEY_ID', 'AWS_WEB_IDENTITY_TOKEN_FILE'];
  const hasCredentials = credentials.some((name) => Boolean(variables[name]));
  if (values.job === undefined && !hasCredentials) return undefined;
  return { job, bucket, region: values.region, access: {} };
}

/** The service with the name of the job that it serves, where only its address was given. */
export async function withServedJob(service: Service, { url, job }: ServiceValues): Promise<Service> {
  const { http, access } = service;
  if (url === undefined || job !== undefined || http === undefined) return service;
  const send = authorizedFetch(http, access);
  const get = async (path: string) => (await request(http + path, {}, ANSWER_MS, undefined, send)).body;
  // A service of an earlier release does not say it; and what else is wrong is the error of the next request.
  return { ...service, job: (await servedJob(get).catch(() => undefined)) ?? service.job };
}

interface Sent {
  readonly path: string;
  readonly body: string;
  /** Who asks, in errors. */
  readonly command: string;
  /** Content type of the body. Default: JSON. */
  readonly type?: string;
  readonly canaryKey?: string | undefined;
  /** The name of a further model. */
  readonly model?: string | undefined;
}

/**
 * Posts JSON to the service's HTTPS API.
 * @param pick finds the answer of a version of the model, or undefined when another service answers
 */
export async function post<T>(
  { http, access }: Service,
  { path, body, command, type, canaryKey, model }: Sent,
  pick: (answer: Readonly<Record<string, unknown>>, version: string) => T | undefined,
): Promise<T> {
  if (http === undefined) throw wrongUse(`${command} needs the HTTPS API: pass --url or --stack`);
  const named =
    model === undefined ? '' : `${path.includes('?') ? '&' : '?'}model=${encodeURIComponent(model)}`;
  const url = `${http}${path}${named}`;
  const key = canaryKey === undefined ? undefined : { 'canary-key': canaryKey };
  const init = { method: 'POST', body, headers: { 'content-type': type ?? 'application/json', ...key } };
  const answer = await request(url, init, POST_MS, undefined, authorizedFetch(http, access));
  const version = answer.headers.get('model-version') ?? '';
  const picked = pick(Object(answer.body), version);
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

/**
 * How requests say who calls: as the options say, else as the local service asks, which gets nothing that the environment
 * has for others.
 * @throws bad_config
 */
export function accessOf(values: ServiceValues, record?: StackRecord): AccessOptions {
  const { auth, region, 'api-key-file': keyFile } = values;
  const isSaid = auth !== undefined || keyFile !== undefined;
  const path = values['token-file'] ?? (isSaid ? undefined : record?.startedWith['token-file']);
  return {
    ...(region !== undefined && { region }),
    ...(typeof path === 'string' && { token: readToken(path, MAX_TOKEN) }),
    ...(keyFile !== undefined && { apiKey: readToken(keyFile, MAX_TOKEN, '--api-key-file') }),
    ...(auth === undefined ? record && typeof path !== 'string' && !isSaid && { auth: 'none' } : { auth }),
  };
}

/** The AWS account of --region and --profile, which every AWS client of this process finds in its environment. */
export function useAccount({ region, profile }: ServiceValues): void {
  if (region !== undefined) {
    if (!/^[a-z]{2,}(-[a-z0-9]+)+$/.test(region))
      throw unexpected('region', 'a region, as eu-west-1', region);
    setVariables({ AWS_REGION: region });
  }
  if (profile === undefined) return;
  const keys = { AWS_ACCESS_KEY_ID: undefined, AWS_SECRET_ACCESS_KEY: undefined };
  setVariables({ ...keys, AWS_SESSION_TOKEN: undefined, AWS_PROFILE: profile });
}

async function serviceOfStack(stack: string, values: ServiceValues): Promise<Service> {
  for (const option of ['url', 'queue-url'] as const)
    if (values[option] !== undefined) throw wrongUse(`--stack says what --${option} does; give one of them`);
  const places = await findStack(stack, { region: values.region });
  const { url: http, queueUrl, region, bucket, job } = places;
  if (values.job !== undefined && values.job !== job)
    throw wrongUse(`--job ${values.job}: stack ${stack} serves the job ${job}`);
  const access = accessOfStack(places, accessOf(values));
  const { 'redis-url': redisUrl = places.redisUrl } = values;
  return { job, http, access, queueUrl, region, bucket: values.bucket ?? bucket, redisUrl };
}

/** That of the folder, or of another one which serves the job that is named. */
async function localRecord(values: ServiceValues): Promise<StackRecord | undefined> {
  const dataDir = dataDirOf(values);
  const record = (await findRunning(dataDir))?.record;
  const serves = ({ jobs }: StackRecord) => jobs.some(({ job }) => job === values.job);
  if (record === undefined || values.job === undefined || serves(record)) return record;
  return (await otherServices(dataDir)).map((other) => other.record).find(serves) ?? record;
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
  const access = accessOf(values, record);
  return { job: name, http, access, queueUrl, endpoint, region, bucket: bucket ?? record.bucket, redisUrl };
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
