/**
 * Collects an invocation's metrics into one line of CloudWatch's Embedded Metric Format. Each pair of metric name and
 * dimensions is billed monthly, so there are only two dimensions, and a name with an error code exists only once that
 * code has occurred.
 */
import { AsyncLocalStorage } from 'node:async_hooks';
import { type ErrorCode, isErrorCode } from '../contract/errors.ts';

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
} as const;

export type MetricName = keyof typeof METRICS;

/** The dimensions of an environment's metrics. */
interface Dimensions {
  /** Name of the job. */
  readonly Job: string;
  /** Name of the function in AWS, stage included. */
  readonly Function: string;
}

const NAMESPACE = 'ClusterServing';

interface Values {
  readonly metrics: Map<MetricName, number>;
  readonly failures: Map<ErrorCode, number>;
}

const invocation = new AsyncLocalStorage<Values>();

/** Adds to the current invocation; outside of one (on a developer's machine) it does nothing. */
export function measure(name: MetricName, value: number): void {
  const metrics = invocation.getStore()?.metrics;
  if (!metrics) return;
  const before = metrics.get(name);
  metrics.set(name, before === undefined ? value : METRICS[name].join(before, value));
}

export function measureFailures(code: ErrorCode, times = 1): void {
  const failures = invocation.getStore()?.failures;
  if (!failures || times === 0) return;
  failures.set(code, (failures.get(code) ?? 0) + times);
  measure('Failures', times);
}

interface Measuring {
  readonly dimensions: Dimensions;
  /** Searchable in Logs Insights, but not dimensions of a metric. */
  readonly fields: Readonly<Record<string, unknown>>;
  /** Wall clock, in ms. */
  readonly now: () => number;
  readonly write: (line: string) => void;
}

/** Collects what `work` measures and writes it at its end, even if it throws. */
export async function measured<T>(measuring: Measuring, work: () => Promise<T>): Promise<T> {
  const values: Values = { metrics: new Map(), failures: new Map() };
  try {
    return await invocation.run(values, work);
  } finally {
    if (values.metrics.size > 0) measuring.write(lineOf(values, measuring));
  }
}

function lineOf({ metrics, failures }: Values, { dimensions, fields, now }: Measuring): string {
  const values: Record<string, number> = {};
  const definitions: { Name: string; Unit: string }[] = [];
  for (const [name, value] of metrics) {
    values[name] = value;
    definitions.push({ Name: name, Unit: METRICS[name].unit });
  }
  for (const [code, times] of failures) {
    values[`Failures_${code}`] = times;
    definitions.push({ Name: `Failures_${code}`, Unit: 'Count' });
  }
  const directive = {
    Namespace: NAMESPACE,
    Dimensions: [Object.keys(dimensions)],
    Metrics: definitions,
  };
  const aws = { Timestamp: now(), CloudWatchMetrics: [directive] };
  return `${JSON.stringify({ _aws: aws, ...dimensions, ...fields, ...values })}\n`;
}

export interface InvocationMetrics {
  opening<T>(work: () => Promise<T>): Promise<T>;
  invocation<T>(event: unknown, ids: Readonly<Record<string, unknown>>, work: () => Promise<T>): Promise<T>;
}

/** What the metrics need of a function's environment. */
interface MeasuredEnvironment {
  readonly job: { readonly jobName: string };
  readonly hasMetrics: boolean;
  readonly functionName: string;
  readonly isProvisioned: boolean;
}

/**
 * Measures the opening of a function and each of its invocations. An opening may end during the first invocation; its
 * time is in the first line written afterwards.
 * @param write writes a line. Default stdout, which CloudWatch reads
 */
export function createInvocationMetrics(
  environment: MeasuredEnvironment,
  write = (line: string) => void process.stdout.write(line),
): InvocationMetrics {
  const { functionName, isProvisioned } = environment;
  const dimensions = { Job: environment.job.jobName, Function: functionName };
  let isFirst = true;
  let loadMs: number | undefined;
  return {
    async opening(work) {
      const begin = process.uptime();
      const opened = await work();
      loadMs = (process.uptime() - begin) * 1000;
      return opened;
    },
    invocation(event, ids, work) {
      if (!environment.hasMetrics) return work();
      return measured({ dimensions, fields: ids, now: Date.now, write }, async () => {
        measureEvent(event);
        if (isFirst && !isProvisioned) measure('ColdStarts', 1);
        isFirst = false;
        try {
          const answer = await work();
          measureAnswer(answer);
          return answer;
        } finally {
          if (loadMs !== undefined) measure('LoadTime', loadMs);
          loadMs = undefined;
        }
      });
    },
  };
}

/** Measures an event: a request, or a batch of messages. */
function measureEvent(event: unknown): void {
  const { Records } = (event ?? {}) as { Records?: unknown };
  if (Array.isArray(Records)) measure('BatchSize', Records.length);
  else measure('Requests', 1);
}

/** Measures an HTTP answer: whether the request failed, with which code. */
function measureAnswer(answer: unknown): void {
  const { statusCode = 0, body } = (answer ?? {}) as { statusCode?: number; body?: unknown };
  if (statusCode < 400 || typeof body !== 'string') return;
  const code = codeOf(body);
  // Asking for a result that is not there yet is normal and frequent, not a failure.
  if (code !== 'not_found') measureFailures(code);
}

/** The body of an error is `{"error": …, "code": …}`. */
function codeOf(body: string): ErrorCode {
  try {
    const { code } = JSON.parse(body) as { code?: unknown };
    return isErrorCode(code) ? code : 'internal';
  } catch {
    return 'internal';
  }
}

function add(a: number, b: number): number {
  return a + b;
}
