/**
 * Collects an invocation's metrics into one line of CloudWatch's Embedded Metric Format. Each pair of metric name and
 * dimensions is billed monthly, so there are only two dimensions, and a name with an error code exists only once that
 * code has occurred. Further models have lines of their own, in jobs with few of them.
 */
import { AsyncLocalStorage } from 'node:async_hooks';
import { type ErrorCode, isErrorCode } from '../contract/errors.ts';
import type { Fact, Observer, Step } from '../pipeline/observer.ts';

/** Every metric, with its unit and how several values of one invocation are combined. */
const METRICS = {
  /** Requests over HTTP. */
  Requests: { unit: 'Count', join: add },
  /** Records and instances that went to the model, or failed on the way there. */
  Rows: { unit: 'Count', join: add },
  /** Messages of one event of the queue. */
  BatchSize: { unit: 'Count', join: add },
  /** How long the event's oldest record had waited in the queue. */
  QueueAge: { unit: 'Milliseconds', join: Math.max },
  /** Includes decoding inputs. */
  InferenceTime: { unit: 'Milliseconds', join: add },
  /** Opening the model and connections, in the first invocation afterwards. */
  LoadTime: { unit: 'Milliseconds', join: add },
  /** First invocations of an environment, except those of provisioned concurrency. */
  ColdStarts: { unit: 'Count', join: add },
  /** Failed requests and records, including those that are redelivered; `Failures_<code>` counts by code. */
  Failures: { unit: 'Count', join: add },
  /** Messages that were archived as dead letters. */
  DeadLettered: { unit: 'Count', join: add },
  /** Notices for tasks of Step Functions that had ended. */
  NoticesDropped: { unit: 'Count', join: add },
  /** Requests and records that were to be captured and could not be stored. */
  CapturesLost: { unit: 'Count', join: add },
  /** Requests that were refused, and events of the queue that were served, over the budget. */
  BudgetExceeded: { unit: 'Count', join: add },
  /** Requests and events of the queue while the sums of the budget were away. */
  BudgetUnknown: { unit: 'Count', join: add },
  /** Canaries that were rolled back because of what they answered, or after a day. */
  CanariesRolledBack: { unit: 'Count', join: add },
  /** Captured records that a shadow was asked. */
  ShadowRecords: { unit: 'Count', join: add },
  /** Those of them whose first class is another. */
  ShadowFlips: { unit: 'Count', join: add },
  /** Those of them that differ by more than the tolerance. */
  ShadowDiffers: { unit: 'Count', join: add },
} as const;

/** The metrics of a further model. */
interface ModelValues {
  /** Records and instances that ran. */
  ModelRows: number;
  ModelFailures: number;
  /** Until they had run. */
  ModelTime: number;
}

/** Above so many further models none has metrics: three of each are billed. */
const MOST_MODELS = 20;

export type MetricName = keyof typeof METRICS;

/** The steps that are metrics. */
const STEPS: Partial<Record<Step, MetricName>> = { wait: 'QueueAge', run: 'InferenceTime' };

const NAMESPACE = 'ClusterServing';

/** The measurements of one invocation so far. */
interface Values {
  /** Searchable in Logs Insights, but not dimensions of a metric. */
  readonly ids: Readonly<Record<string, unknown>>;
  readonly metrics: Map<MetricName, number>;
  readonly failures: Map<ErrorCode, number>;
  /** By the names of further models. */
  readonly models: Map<string, ModelValues>;
}

interface Measured {
  /** The dimensions: the name of the job, and that of the function in AWS, stage included. */
  readonly dimensions: { readonly Job: string; readonly Function: string };
  readonly isProvisioned: boolean;
  /** Wall clock, in ms. */
  readonly now: () => number;
  /** Writes a line to where CloudWatch reads, stdout. */
  readonly write: (line: string) => void;
}

export function emf({ dimensions, isProvisioned, now, write }: Measured): Observer {
  /** Late work of an invocation that has been answered is not counted in the next one. */
  const invocation = new AsyncLocalStorage<Values>();
  let isFirst = !isProvisioned;
  let loadMs: number | undefined;
  const measure = (name: MetricName, value: number) => {
    const metrics = invocation.getStore()?.metrics;
    const before = metrics?.get(name);
    metrics?.set(name, before === undefined ? value : METRICS[name].join(before, value));
  };
  const fail = (code: ErrorCode, times = 1) => {
    const failures = invocation.getStore()?.failures;
    failures?.set(code, (failures.get(code) ?? 0) + times);
    measure('Failures', times);
  };
  return {
    functionOpened: ({ tookMs }) => void (loadMs = tookMs),
    functionCalled({ ids, messages, isScheduled }) {
      invocation.enterWith({ ids, metrics: new Map(), failures: new Map(), models: new Map() });
      if (messages !== undefined) measure('BatchSize', messages);
      else if (!isScheduled) measure('Requests', 1);
      if (isFirst) measure('ColdStarts', 1);
      isFirst = false;
    },
    recordsRan: (ran) => countModel(invocation.getStore()?.models, ran),
    rowsRead: (rows) => measure('Rows', rows),
    stepEnded({ step, tookMs }) {
      const name = STEPS[step];
      if (name) measure(name, tookMs);
    },
    resultRefused: ({ error }) => fail(error.code),
    messageArchived: () => measure('DeadLettered', 1),
    noticeDropped: () => measure('NoticesDropped', 1),
    capturesLost: (records) => measure('CapturesLost', records),
    budgetExceeded: () => measure('BudgetExceeded', 1),
    budgetUnknown: () => measure('BudgetUnknown', 1),
    canaryRolledBack: () => measure('CanariesRolledBack', 1),
    shadowAsked({ compared, flips, differ }) {
      measure('ShadowRecords', compared);
      measure('ShadowFlips', flips);
      measure('ShadowDiffers', differ);
    },
    chunkServed({ finished, returned }) {
      measure('Rows', finished.length + returned.length);
      for (const { outcome } of finished) if (!outcome.ok) fail(outcome.error.code);
      for (const { error } of returned) fail(error.code);
    },
    eventFailed: ({ error, messages }) => fail(error.code, messages),
    functionAnswered(answer) {
      const code = codeOf(answer);
      if (code) fail(code);
      if (loadMs !== undefined) measure('LoadTime', loadMs);
      loadMs = undefined;
      const values = invocation.getStore();
      if (values && values.metrics.size > 0) write(lineOf(values, dimensions, now()));
      for (const model of values?.models ?? []) write(modelLine(dimensions.Job, model, now()));
    },
  };
}

/** The code of a failed HTTP answer, whose body is `{"error": …, "code": …}`. */
function codeOf(answer: unknown): ErrorCode | undefined {
  const { statusCode = 0, body }: { statusCode?: number; body?: unknown } = Object(answer);
  if (statusCode < 400 || typeof body !== 'string') return undefined;
  try {
    const { code }: { code?: unknown } = JSON.parse(body);
    // Asking for a result that is not there yet is normal and frequent, not a failure.
    if (code === 'not_found') return undefined;
    return isErrorCode(code) ? code : 'internal';
  } catch {
    return 'internal';
  }
}

function lineOf({ ids, metrics, failures }: Values, dimensions: Measured['dimensions'], now: number): string {
  const counts = Array.from(failures, ([code, times]) => [`Failures_${code}`, times] as const);
  const directive = {
    Namespace: NAMESPACE,
    Dimensions: [Object.keys(dimensions)],
    Metrics: [
      ...Array.from(metrics.keys(), (Name) => ({ Name, Unit: METRICS[Name].unit })),
      ...counts.map(([Name]) => ({ Name, Unit: 'Count' })),
    ],
  };
  const values = Object.fromEntries([...metrics, ...counts]);
  const aws = { Timestamp: now, CloudWatchMetrics: [directive] };
  return `${JSON.stringify({ _aws: aws, ...dimensions, ...ids, ...values })}\n`;
}

function countModel(models: Values['models'] | undefined, { outcomes, tookMs, further }: Fact<'recordsRan'>) {
  if (!models || !further || further.among > MOST_MODELS) return;
  const values = models.get(further.name) ?? { ModelRows: 0, ModelFailures: 0, ModelTime: 0 };
  values.ModelRows += outcomes.length;
  values.ModelFailures += outcomes.filter(({ ok }) => !ok).length;
  values.ModelTime += tookMs;
  models.set(further.name, values);
}

function modelLine(
  Job: string,
  [Model, values]: readonly [name: string, values: ModelValues],
  now: number,
): string {
  const dimensions = { Job, Model };
  const directive = {
    Namespace: NAMESPACE,
    Dimensions: [Object.keys(dimensions)],
    Metrics: [
      { Name: 'ModelRows', Unit: 'Count' },
      { Name: 'ModelFailures', Unit: 'Count' },
      { Name: 'ModelTime', Unit: 'Milliseconds' },
    ],
  };
  const aws = { Timestamp: now, CloudWatchMetrics: [directive] };
  return `${JSON.stringify({ _aws: aws, ...dimensions, ...values })}\n`;
}

function add(a: number, b: number): number {
  return a + b;
}
