/**
 * In: config.yaml of the project (absent: all defaults) and the parameters of the deployment. Out: every value
 * serverless.yml and the files beside it need. Trap: two jobs must never get one stack, the second would replace the
 * first; and AWS takes fewer characters in names than a job's name may have.
 */
import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { resolve } from 'node:path';
import { type ConfigReading, readConfig } from '../lib/config/file.ts';
import {
  DEFAULT_JOB,
  type JobConfig,
  predictTimeoutSeconds,
  visibilityTimeoutSeconds,
} from '../lib/config/job.ts';
import {
  DEFAULT_JOB_NAME,
  modelPrefix,
  parkedPrefix,
  payloadPrefix,
  queueName,
} from '../lib/contract/names.ts';
import { ServingError } from '../lib/errors.ts';
import { type CorsRules, corsRules } from '../lib/http/cors.ts';

/** osls's words for who may call from a browser. */
/** As they come from the command line (text) or from serverless.yml. */
export interface Parameters {
  readonly stage: string;
  /** File of the job's settings, relative to the project. Default: "config.yaml" when there is one. */
  readonly config: string | undefined;
  /** Who may call the HTTP API: "iam" (signed requests) or "none" (everybody). Default "iam". */
  readonly auth: string;
  /** Requests a second the HTTP API lets through before it answers 429. Default 1,000. */
  readonly requestsPerSecond: string | number;
  /** "on": POST /predict may queue what it is sent. Default "off". */
  readonly respondAsync: string;
  /** One node, or a primary with up to 5 replicas that take over. Default 1. */
  readonly redisNodes: string | number;
  /** How long CloudWatch keeps logs. Default 14. */
  readonly logDays: string | number;
}

export interface Settings {
  readonly jobName: string;
  /** JSON for CLUSTER_SERVING_CONFIG. */
  readonly job: string;
  /** Without the stage: a client that knows only the job finds its queue by this name. */
  readonly queueName: string;
  readonly deadLetterQueueName: string;
  readonly batchSize: number;
  readonly windowSeconds: number;
  readonly maximumConcurrency: number;
  readonly maxReceiveCount: number;
  readonly visibilityTimeoutSeconds: number;
  readonly memoryMB: number;
  readonly timeoutSeconds: number;
  readonly predictTimeoutSeconds: number;
  readonly modelPrefix: string;
  readonly parkedPrefix: string;
  readonly payloadPrefix: string;
  /** For osls: null is no authorizer. */
  readonly authorizer: { readonly type: 'aws_iam' } | null;
  /** For osls: false is no page of any origin. */
  readonly cors: CorsRules | false;
  readonly requestsPerSecond: number;
  readonly respondAsync: 'on' | 'off';
  readonly redisNodes: number;
  readonly redisFailover: boolean;
  readonly logDays: number;
}

/** Lambda takes 4 KB of environment in all; names, urls and the rest need less than 1. */
const MAX_JOB_BYTES = 3 * 1024;
/** With these two and "dead-letter" a function's name has 64 characters. */
const MAX_STAGE_LENGTH = 15;
const MAX_SERVICE_LENGTH = 36;
const SERVICE = 'cluster-serving';

/** @param root the folder with serverless.yml. @throws bad_config with every problem, one a line */
export function readSettings(root: string, parameters: Parameters): Settings {
  const { job } = readJobConfig(root, parameters.config);
  const problems: string[] = [];
  const redisNodes = whole('redisNodes', parameters.redisNodes, 1, 6, problems);
  const requestsPerSecond = whole('requestsPerSecond', parameters.requestsPerSecond, 1, 10_000, problems);
  const logDays = whole('logDays', parameters.logDays, 1, 3_653, problems);
  const respondAsync = readSwitch('respondAsync', parameters.respondAsync, problems);
  const authorizer = readAuthorizer(parameters.auth, problems);
  const { stage } = parameters;
  if (!new RegExp(`^[A-Za-z0-9-]{1,${MAX_STAGE_LENGTH}}$`).test(stage)) {
    problems.push(`stage ${JSON.stringify(stage)}: expected 1 to ${MAX_STAGE_LENGTH} letters, digits or "-"`);
  }
  const deployed = deployedJob(job, problems);
  if (problems.length > 0) throw new ServingError('bad_config', problems.join('\n'));
  return {
    jobName: job.jobName,
    job: deployed,
    queueName: queueName(job.jobName),
    deadLetterQueueName: `${queueName(job.jobName)}-dlq`,
    batchSize: job.queue.batchSize,
    windowSeconds: job.queue.windowSeconds,
    maximumConcurrency: job.queue.maximumConcurrency,
    maxReceiveCount: job.queue.maxReceiveCount,
    visibilityTimeoutSeconds: visibilityTimeoutSeconds(job),
    memoryMB: job.function.memoryMB,
    timeoutSeconds: job.function.timeoutSeconds,
    predictTimeoutSeconds: predictTimeoutSeconds(job),
    modelPrefix: modelPrefix(job.jobName),
    parkedPrefix: parkedPrefix(job.jobName),
    payloadPrefix: payloadPrefix(job.jobName),
    authorizer,
    cors: corsRules(job.http.corsOrigins) ?? false,
    requestsPerSecond,
    respondAsync,
    redisNodes,
    redisFailover: redisNodes > 1,
    logDays,
  };
}

/** Name of the stack without its stage. @throws bad_config */
export function readService(root: string, config: string | undefined): string {
  return serviceName(readJobConfig(root, config).job.jobName);
}

/** A file that was named must be there; the usual one may be absent, and all settings are the defaults. */
export function readJobConfig(root: string, config: string | undefined): ConfigReading {
  const path = configPath(root, config);
  return config !== undefined || existsSync(path) ? readConfig(path) : { job: DEFAULT_JOB, notes: [] };
}

export function configPath(root: string, config: string | undefined): string {
  return resolve(root, config ?? 'config.yaml');
}

/** Without `modelPath` and `import`: where the model comes from is nobody's business in Lambda. */
function deployedJob({ modelPath: _here, import: _made, ...job }: JobConfig, problems: string[]): string {
  const text = JSON.stringify(job);
  const bytes = Buffer.byteLength(text);
  if (bytes > MAX_JOB_BYTES) {
    problems.push(`the job's settings are ${bytes} bytes as JSON, over the limit of ${MAX_JOB_BYTES}`);
  }
  return text;
}

/** The job's name where it can be one; else its start and a digest, so that a_b and a-b stay apart. */
export function serviceName(jobName: string): string {
  if (jobName === DEFAULT_JOB_NAME) return SERVICE;
  const plain = `${SERVICE}-${jobName}`;
  if (!jobName.includes('_') && plain.length <= MAX_SERVICE_LENGTH) return plain;
  const digest = createHash('sha256').update(jobName).digest('hex').slice(0, 6);
  const start = plain.replaceAll('_', '-').slice(0, MAX_SERVICE_LENGTH - digest.length - 1);
  return `${start}-${digest}`;
}

/** Null is osls's word for none. */
function readAuthorizer(auth: string, problems: string[]): Settings['authorizer'] {
  if (auth !== 'iam' && auth !== 'none') {
    problems.push(`param auth ${JSON.stringify(auth)}: expected "iam" or "none"`);
  }
  return auth === 'none' ? null : { type: 'aws_iam' };
}

function readSwitch(name: string, value: string, problems: string[]): 'on' | 'off' {
  if (value !== 'on' && value !== 'off') {
    problems.push(`param ${name} ${JSON.stringify(value)}: expected "on" or "off"`);
  }
  return value === 'on' ? 'on' : 'off';
}

function whole(name: string, value: string | number, min: number, max: number, problems: string[]): number {
  const number = Number(value);
  if (!Number.isInteger(number) || number < min || number > max || value === '') {
    problems.push(`param ${name} ${JSON.stringify(value)}: expected a whole number from ${min} to ${max}`);
  }
  return number;
}
