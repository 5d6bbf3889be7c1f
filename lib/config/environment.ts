/**
 * Reads a function's settings from its environment variables. A missing variable fails with its name at its first
 * use, which is in INIT, and not in the first request with "undefined".
 */
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { asError, badConfig } from '../contract/errors.ts';
import { variables as ownVariables, type Variables } from '../contract/variables.ts';
import { DEFAULT_JOB, type JobConfig, withDefaults } from './job.ts';

/** The variable that a function with results lacks; one with a table has CLUSTER_SERVING_TABLE instead. */
export const RESULTS_VARIABLE = 'CLUSTER_SERVING_REDIS_URL';

/** docs/reference/config.md lists the variables that these comments name. */
export interface Environment {
  /** The job's settings as JSON, from a config.yaml that was checked: CLUSTER_SERVING_CONFIG. Without it, the defaults. */
  readonly job: JobConfig;
  /** Bucket of models, large records and results, and dead letters: CLUSTER_SERVING_BUCKET. */
  readonly bucket: string;
  /** URL of the job's queue: CLUSTER_SERVING_QUEUE_URL. */
  readonly queueUrl: string;
  /** URL of the queue of the notifier: CLUSTER_SERVING_NOTIFY_QUEUE_URL. */
  readonly notifyQueueUrl: string;
  /** URL of its dead-letter queue, for what was given up: CLUSTER_SERVING_NOTIFY_DEAD_LETTER_URL. */
  readonly notifyDeadLetterUrl: string;
  /** URL of the queue of jobs over files: CLUSTER_SERVING_JOBS_QUEUE_URL. */
  readonly fileJobQueueUrl: string;
  /** The mappings of the queues that `throttle` slows down, with their concurrency: CLUSTER_SERVING_EVENT_SOURCES. */
  readonly eventSources: string;
  /** The secret of a target, for the service on one machine: CLUSTER_SERVING_NOTIFY_SECRET_<NAME>, with the target's name in capitals. */
  readonly notifySecret: (target: string) => string | undefined;
  /** False if the function has no queue to send to. */
  readonly hasQueue: boolean;
  /** Address of Redis, `redis://` or `rediss://`, with `?cluster=on` for cluster mode: CLUSTER_SERVING_REDIS_URL. */
  readonly redisUrl: string;
  /** Table of DynamoDB for results, instead of Redis: CLUSTER_SERVING_TABLE. */
  readonly tableName: string;
  /** Another endpoint for it than AWS's: AWS_ENDPOINT_URL_DYNAMODB, else AWS_ENDPOINT_URL. */
  readonly tableEndpoint: string | undefined;
  /** False if the function has neither Redis nor a table. */
  readonly hasResults: boolean;
  /**
   * How to sign in to Redis, when the address does not say it: with IAM to an ElastiCache (CLUSTER_SERVING_REDIS_USER,
   * CLUSTER_SERVING_REDIS_CACHE), or with a password in Systems Manager (CLUSTER_SERVING_REDIS_PASSWORD_PARAMETER).
   */
  readonly redisSignIn: RedisSignIn | undefined;
  /** The memory beyond which Redis would evict results: CLUSTER_SERVING_REDIS_MAX_GB, in bytes. */
  readonly redisMaxBytes: number | undefined;
  /** The job's name in the keys of Redis: CLUSTER_SERVING_REDIS_KEYSPACE. Default: the job's name. */
  readonly keyspace: string;
  /** The function's role, which signs requests. Read each time, because Lambda renews it. */
  readonly role: Role;
  /** Another endpoint than AWS's, as of an emulator: AWS_ENDPOINT_URL. */
  readonly aws: AwsAccess;
  readonly memoryMB: number;
  /** Threads of one run if the job does not set them. Default: the vCPUs that Lambda gives for `memoryMB`. */
  readonly cpus?: number | undefined;
  /** True on Lambda, where INIT opens dependencies. */
  readonly inLambda: boolean;
  /** `off` writes no metrics to CloudWatch: CLUSTER_SERVING_METRICS. */
  readonly hasMetrics: boolean;
  /** The service's name in log lines, as with AWS Powertools: POWERTOOLS_SERVICE_NAME. Default: the job's name. */
  readonly service: string;
  /** The function's name in AWS, including the stage. */
  readonly functionName: string;
  /** True if provisioned concurrency opened this environment before the first request. */
  readonly isProvisioned: boolean;
  /** The X-Ray trace id of the current invocation; read it again in each. */
  readonly traceId: string | undefined;
  /** True if X-Ray records the current invocation. */
  readonly isTraced: boolean;
  /**
   * OpenTelemetry's variables, when one of them names a receiver of spans: OTEL_EXPORTER_OTLP_ENDPOINT,
   * OTEL_EXPORTER_OTLP_TRACES_ENDPOINT. docs/how-to/trace-a-request.md lists the others.
   */
  readonly traces: Variables | undefined;
  /** Where models are downloaded to. */
  readonly modelDirectory: string;
  /** Where a worker's code is, and the model folder that it is handed; only on the single machine. */
  readonly workerFolders?: { readonly directory: string; readonly modelDir: string } | undefined;
}

/** How to reach AWS. The AWS SDK determines what is undefined. */
interface AwsAccess {
  readonly endpoint: string | undefined;
  readonly region?: string | undefined;
  readonly credentials?: { readonly accessKeyId: string; readonly secretAccessKey: string } | undefined;
}

/** How a function signs in to Redis. */
type RedisSignIn = Role &
  (
    | { readonly cache: string; readonly user: string }
    | { readonly parameter: string; readonly user: string | undefined; readonly endpoint: string | undefined }
  );

/** The credentials are those of the function's role, which Lambda renews. */
interface Role {
  readonly region: string;
  readonly credentials: {
    readonly accessKeyId: string;
    readonly secretAccessKey: string;
    readonly sessionToken: string | undefined;
  };
}

/** Every field is read at its first use, because a function needs only the variables of the parts it opens. */
export function readEnvironment(variables: Variables = ownVariables): Environment {
  return {
    get job() {
      return readJob(variables['CLUSTER_SERVING_CONFIG']);
    },
    get bucket() {
      return required(variables, 'CLUSTER_SERVING_BUCKET');
    },
    get queueUrl() {
      return required(variables, 'CLUSTER_SERVING_QUEUE_URL');
    },
    get notifyQueueUrl() {
      return required(variables, 'CLUSTER_SERVING_NOTIFY_QUEUE_URL');
    },
    get notifyDeadLetterUrl() {
      return required(variables, 'CLUSTER_SERVING_NOTIFY_DEAD_LETTER_URL');
    },
    get fileJobQueueUrl() {
      return required(variables, 'CLUSTER_SERVING_JOBS_QUEUE_URL');
    },
    get eventSources() {
      return required(variables, 'CLUSTER_SERVING_EVENT_SOURCES');
    },
    notifySecret: (target) => notifySecretOf(target, variables),
    hasQueue: Boolean(variables['CLUSTER_SERVING_QUEUE_URL']),
    get redisUrl() {
      return required(variables, 'CLUSTER_SERVING_REDIS_URL');
    },
    redisMaxBytes: gigabytes(variables['CLUSTER_SERVING_REDIS_MAX_GB']),
    tableName: variables['CLUSTER_SERVING_TABLE'] ?? '',
    tableEndpoint: variables['AWS_ENDPOINT_URL_DYNAMODB'] || variables['AWS_ENDPOINT_URL'] || undefined,
    hasResults: Boolean(variables['CLUSTER_SERVING_REDIS_URL'] || variables['CLUSTER_SERVING_TABLE']),
    get redisSignIn() {
      return readRedisSignIn(variables);
    },
    get keyspace() {
      return variables['CLUSTER_SERVING_REDIS_KEYSPACE'] ?? this.job.jobName;
    },
    get role() {
      return role(variables);
    },
    aws: { endpoint: variables['AWS_ENDPOINT_URL'] || undefined },
    inLambda: variables['AWS_LAMBDA_RUNTIME_API'] !== undefined,
    memoryMB: Number(variables['AWS_LAMBDA_FUNCTION_MEMORY_SIZE'] ?? 1769),
    hasMetrics: variables['CLUSTER_SERVING_METRICS'] !== 'off',
    get service() {
      return variables['POWERTOOLS_SERVICE_NAME'] ?? this.job.jobName;
    },
    functionName: variables['AWS_LAMBDA_FUNCTION_NAME'] ?? '',
    isProvisioned: variables['AWS_LAMBDA_INITIALIZATION_TYPE'] === 'provisioned-concurrency',
    get traceId() {
      return /Root=([^;]+)/.exec(variables['_X_AMZN_TRACE_ID'] ?? '')?.[1];
    },
    get isTraced() {
      return /(?:^|;)Sampled=1/.test(variables['_X_AMZN_TRACE_ID'] ?? '');
    },
    traces: tracesOf(variables),
    modelDirectory: join(tmpdir(), 'cluster-serving-models'),
  };
}

/** @param target its name */
export function notifySecretOf(target: string, variables: Variables): string | undefined {
  return variables[notifySecretVariable(target)] || undefined;
}

export function notifySecretVariable(target: string): string {
  return `CLUSTER_SERVING_NOTIFY_SECRET_${target.toUpperCase().replaceAll('-', '_')}`;
}

/** @returns undefined when spans go nowhere */
export function tracesOf(variables: Variables): Variables | undefined {
  const isOff = variables['OTEL_SDK_DISABLED'] === 'true' || variables['OTEL_TRACES_EXPORTER'] === 'none';
  const receiver =
    variables['OTEL_EXPORTER_OTLP_TRACES_ENDPOINT'] || variables['OTEL_EXPORTER_OTLP_ENDPOINT'];
  return receiver && !isOff ? variables : undefined;
}

function readRedisSignIn(variables: Variables): RedisSignIn | undefined {
  const user = variables['CLUSTER_SERVING_REDIS_USER'];
  const parameter = variables['CLUSTER_SERVING_REDIS_PASSWORD_PARAMETER'];
  if (parameter) {
    const endpoint = variables['AWS_ENDPOINT_URL_SSM'] || variables['AWS_ENDPOINT_URL'] || undefined;
    return { ...role(variables), parameter, user: user || undefined, endpoint };
  }
  if (!user) return undefined;
  return { ...role(variables), user, cache: required(variables, 'CLUSTER_SERVING_REDIS_CACHE') };
}

function gigabytes(count: string | undefined): number | undefined {
  return count === undefined ? undefined : Number(count) * 2 ** 30;
}

function role(variables: Variables): Role {
  return {
    region: required(variables, 'AWS_REGION'),
    credentials: {
      accessKeyId: required(variables, 'AWS_ACCESS_KEY_ID'),
      secretAccessKey: required(variables, 'AWS_SECRET_ACCESS_KEY'),
      sessionToken: variables['AWS_SESSION_TOKEN'],
    },
  };
}

function required(variables: Variables, name: string): string {
  const value = variables[name];
  if (!value) throw badConfig(`the environment variable ${name} is not set`);
  return value;
}

/** The deployment writes this JSON from a validated config.yaml. Without it all settings are the defaults. */
function readJob(text: string | undefined): JobConfig {
  if (!text) return DEFAULT_JOB;
  try {
    // A deployment runs this code for a moment beside the settings of an earlier version.
    return withDefaults(JSON.parse(text));
  } catch (error) {
    throw badConfig(`CLUSTER_SERVING_CONFIG is not JSON: ${asError(error).message}`);
  }
}
