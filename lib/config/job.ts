/**
 * A job's settings and their defaults; config.yaml is read into exactly this type. Functions import this file, which
 * takes only types from the schema, so bundles contain no YAML or schema code.
 */
import { DEFAULT_JOB_NAME } from '../contract/names.ts';
import type { BatchAxes } from '../contract/verification.ts';
import type { Ports } from './batch-axes.ts';
import type { ValuesOf } from './readers.ts';
import type { GROUPS } from './schema.ts';

type Group<Name extends keyof typeof GROUPS> = ValuesOf<(typeof GROUPS)[Name]>;

/** How another model is converted to ONNX. Missing settings follow from the model's files. */
export type ImportConfig = Partial<Group<'import'>>;

type OptionalWorker = 'class' | 'tmpFolder' | 'logDir';

/** The settings of schema.ts as a type. Missing image settings follow from the model's input; a preset is resolved. */
export type JobConfig = Group<''> & {
  readonly image: Partial<Omit<Group<'image'>, 'preset'>>;
  readonly import: ImportConfig;
  readonly queue: Group<'queue'>;
  readonly function: Group<'function'>;
  /** Without `class` the job serves a model. */
  readonly worker: Omit<Group<'worker'>, OptionalWorker> & Partial<Pick<Group<'worker'>, OptionalWorker>>;
  readonly http: Omit<Group<'http'>, 'timeoutMs'> & Partial<Pick<Group<'http'>, 'timeoutMs'>>;
};

/** API Gateway waits 30 s; the function ends earlier, so that the answer comes from it. */
const MAX_PREDICT_SECONDS = 29;

export const DEFAULT_JOB: JobConfig = {
  jobName: DEFAULT_JOB_NAME,
  modelPath: 'model',
  postProcessing: '',
  inputAlreadyBatched: false,
  batchSize: 32,
  batching: 'proven',
  inputs: {},
  outputs: {},
  threadPerModel: 0,
  processes: 1,
  modelRefreshSeconds: 30,
  resultTtlSeconds: 86_400,
  image: {},
  import: {},
  queue: {
    batchSize: 10,
    windowSeconds: 0,
    maximumConcurrency: 10,
    maxReceiveCount: 5,
    retentionSeconds: 345_600,
    recordTtlSeconds: 0,
  },
  function: { memoryMB: 1769, timeoutSeconds: 30 },
  http: {
    tokenBucketEnabled: false,
    tokensPerSecond: 100,
    tokenAcquireTimeoutMs: 100,
    corsOrigins: [],
    allowedHosts: [],
  },
  worker: {
    modelName: '',
    numWorker: 1,
    batchGroupTimeout: 5,
    deviceMap: [-1],
    gpuMemoryFraction: 0.2,
    protocol: 'obj',
    logName: 'WKRServer',
    verbose: false,
    predictTimeout: 30_000,
    startTimeout: 120_000,
    stopTimeout: 30_000,
    maxBatches: 0,
    memoryMB: 0,
    python: 'python3',
    allowImgHost: [],
    numWorkerExpanded: 0,
    deviceToExpand: 0,
    busyUtilThreshold: 0.95,
    durationExpand: 300_000,
    durationSqueeze: 600_000,
  },
};

/**
 * A job of settings that lack some, in any group: what an earlier version wrote lacks the settings that this one added.
 * What is unknown here stays, because a later version may have written it.
 */
export function withDefaults(settings: object): JobConfig {
  // The values were checked when they were written.
  return merge(DEFAULT_JOB, settings) as JobConfig;
}

function merge(defaults: object, settings: object): object {
  const merged: Record<string, unknown> = { ...defaults, ...settings };
  for (const [key, value] of Object.entries(defaults)) {
    const set = merged[key] ?? value;
    merged[key] = isGroup(value) ? merge(value, isGroup(set) ? set : {}) : set;
  }
  return merged;
}

function isGroup(value: unknown): value is object {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** The batch axes that a job sets, by name. */
export function axesOf({ inputs, outputs }: Pick<JobConfig, 'inputs' | 'outputs'>): {
  readonly batchAxes: BatchAxes;
  readonly outputAxes: BatchAxes;
} {
  return { batchAxes: flat(inputs), outputAxes: flat(outputs) };
}

function flat(ports: Ports): BatchAxes {
  return Object.fromEntries(Object.entries(ports).map(([name, { batchAxis }]) => [name, batchAxis]));
}

/** MOST_DELIVERIES take longer than a day. */
const LEAST_VISIBILITY_SECONDS = 90;

/** SQS must hide a message for six times the function's timeout, or a slow batch is delivered twice. */
export function hiddenSeconds(job: JobConfig): number {
  return 6 * job.function.timeoutSeconds + job.queue.windowSeconds;
}

/** How long a deployed queue hides a message. */
export function visibilityTimeoutSeconds(job: JobConfig): number {
  return Math.max(LEAST_VISIBILITY_SECONDS, hiddenSeconds(job));
}

/** The timeout of the predict function. Lambda has whole seconds, so http.timeoutMs is rounded up. */
export function predictTimeoutSeconds({ http, function: { timeoutSeconds } }: JobConfig): number {
  const seconds = http.timeoutMs === undefined ? timeoutSeconds : Math.ceil(http.timeoutMs / 1000);
  return Math.min(seconds, MAX_PREDICT_SECONDS);
}
