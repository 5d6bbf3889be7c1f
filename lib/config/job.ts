/**
 * A job's settings and their defaults; config.yaml is read into exactly this type. Functions import this file, which
 * takes only types from the schema, so bundles contain no YAML or schema code.
 */
import type { BatchAxes } from '../contract/verification.ts';
import type { Ports } from './batch-axes.ts';
import { DEFAULTS } from './defaults.ts';
import type { ValuesOf } from './readers.ts';
import type { GROUPS } from './schema.ts';

type Group<Name extends keyof typeof GROUPS> = ValuesOf<(typeof GROUPS)[Name]>;

/** How another model is converted to ONNX. Missing settings follow from the model's files. */
export type ImportConfig = Group<'import'>;

/** The settings of schema.ts as a type. Missing image settings follow from the model's input; a preset is resolved. */
export type JobConfig = Group<''> & {
  readonly [Name in Exclude<keyof typeof GROUPS, '' | 'image'>]: Group<Name>;
} & { readonly image: Omit<Group<'image'>, 'preset'> };

const MB = 1024 * 1024;
/** Memory of a function beside its models. */
const FUNCTION_MB = 256;
const LEAST_MODELS_MB = 64;

/** The budget of the further models of a job, in bytes. */
export function modelsBudget({ models, function: { memoryMB } }: JobConfig): number {
  const half = Math.floor((memoryMB - FUNCTION_MB) / 2);
  return (models.memoryMB ?? Math.max(LEAST_MODELS_MB, half)) * MB;
}

/** API Gateway waits 30 s; the function ends earlier, so that the answer comes from it. */
const MAX_PREDICT_SECONDS = 29;

export const DEFAULT_JOB: JobConfig = DEFAULTS;

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

/** The time limit of the function that looks at versions on trial: it opens models, and replays captures until the next minute. */
export function trialsSeconds({ function: { timeoutSeconds } }: Pick<JobConfig, 'function'>): number {
  return Math.max(60, timeoutSeconds);
}

/** The time limit of the function that slows queues down: three calls of AWS for each. */
export const THROTTLE_SECONDS = 30;

/** The time limit of the notifier, in which it makes its calls and puts what is left into its queue again. */
export const NOTIFIER_SECONDS = 30;
/** Deliveries of a message of the notifier, where even its queue did not take what is left. */
export const NOTIFIER_RECEIVES = 100;

/** The settings that decide the answers of a model, besides its files and its threads. */
export function answerSettings(job: JobConfig): Readonly<Record<string, unknown>> {
  const { batchSize, batching, inputAlreadyBatched, image, inputs, outputs, postProcessing } = job;
  return { batchSize, batching, inputAlreadyBatched, image, inputs, outputs, postProcessing };
}

/** True if records can name somebody who is notified when they are done. */
export function hasTargets({ notify }: Pick<JobConfig, 'notify'>): boolean {
  return Object.keys(notify).length > 0;
}

/** True if a deployment takes jobs over files. */
export function hasFileJobs({ jobs }: Pick<JobConfig, 'jobs'>): boolean {
  return jobs.maximumConcurrency > 0;
}

/**
 * How many batch functions each of the two queues has at the same time, where there are two.
 * @param total of both
 * @param least of each; Lambda's event source takes no 1
 */
export function sharesOf({ highShare }: JobConfig['queue'], total: number, least: number) {
  if (highShare === 0) return { normal: total, high: 0 };
  const high = Math.min(Math.max(Math.round(highShare * total), least), total - least);
  return { normal: total - high, high };
}
