/**
 * What a service did since its start: its counters, the last samples of each key, and the last hour in steps of ten seconds
 * for the charts of /stat. Nothing here has a timer; steps are completed when something happens or is asked.
 */
import { STEP_MS, type Step } from '../../console/api.ts';
import { ServingError } from '../../lib/contract/errors.ts';
import type { Model, Outcome, Runner } from '../../lib/contract/values.ts';
import { History, type LoadSource } from '../console/history.ts';
import { ServiceFigures, type Source } from '../description/figures.ts';

const SAMPLES = 1_000;
/** Of a worker's own keys. */
const MOST_KEYS = 100;
const MOST_CLIENTS = 10_000;
const ACTIVE_MS = 180_000;

export type Facts = Readonly<Record<string, unknown>>;

export class ServiceStatistics {
  readonly now: () => number;
  readonly startedMs: number;
  /** The last hour. */
  readonly past: History;
  /** What Prometheus reads, and the last hour is made of. */
  readonly figures: ServiceFigures;
  #load: LoadSource = {};
  readonly #samples = new Map<string, number[]>();
  /** When each client last asked. */
  readonly #clients = new Map<string, { requests: number; lastMs: number }>();
  #arrived = 0;
  #finished = 0;
  #failed = 0;
  #asked = 0;
  #mostInQueue = 0;

  /** @param now a clock in ms that never goes back */
  constructor(now: () => number) {
    this.now = now;
    this.startedMs = now();
    this.figures = new ServiceFigures(() => this.past.advance());
    this.past = new History(
      now,
      () => this.#load,
      () => ({ ...this.figures.totals(), arrived: this.#arrived }),
    );
  }

  /** From now on asks these workers. */
  follow(load: LoadSource): void {
    this.#load = load;
  }

  /** A request with items, of a client. */
  request(client: string, bytes: number): void {
    this.#sample('sys_input_byte', bytes);
    const known = this.#clients.get(client);
    // The client that has not asked for longest comes first.
    this.#clients.delete(client);
    this.#clients.set(client, { requests: (known?.requests ?? 0) + 1, lastMs: this.now() });
    const [oldest] = this.#clients.keys();
    if (this.#clients.size > MOST_CLIENTS && oldest !== undefined) this.#clients.delete(oldest);
  }

  /** A request for this. */
  asked(): void {
    this.#asked++;
  }

  arrived(items: number): void {
    this.past.advance();
    this.#arrived += items;
    this.#mostInQueue = Math.max(this.#mostInQueue, this.inQueue);
  }

  finished(items: number, failed: number, tookMs: number): void {
    this.past.latency(items, tookMs);
    this.#finished += items;
    this.#failed += failed;
    for (let i = 0; i < Math.min(items, SAMPLES); i++) this.#sample('latency', tookMs);
  }

  /** A run in a process. `own`: what a worker's code recorded. */
  batch(size: number, tookMs: number, own: Readonly<Record<string, readonly number[]>> = {}): void {
    this.past.batch(size);
    this.figures.batch(size, tookMs);
    this.#sample('sys_batchsize', size);
    this.#sample('sys_predict', tookMs);
    for (const [key, values] of Object.entries(own)) {
      for (const value of values.slice(-SAMPLES)) this.#sample(key, value);
    }
  }

  /** Items without an outcome. */
  get inQueue(): number {
    return this.#arrived - this.#finished;
  }

  /** Those of them that workers have now. */
  get serving(): number {
    return Math.max(0, this.inQueue - (this.#load.waiting?.() ?? 0));
  }

  /** Processes that can work at once. */
  get workers(): number {
    return this.#load.workers?.() ?? 1;
  }

  /** The steps of the last hour, the oldest first. */
  history(): readonly Step[] {
    return this.past.steps();
  }

  /** The keys of /status/server that change. */
  status(): { readonly statistic: Facts; readonly statistic_postsink: Facts } {
    const steps = this.history();
    const util = steps.at(-1)?.util ?? 0;
    const predict = summary(this.#samples.get('sys_predict') ?? []);
    return {
      statistic: {
        ...ratesOf(
          this.#arrived,
          steps.map(({ arrived }) => arrived),
        ),
        num_sys_request: this.#asked,
        num_total_request: this.#arrived + this.#asked,
        ...this.#clientCounts(),
      },
      statistic_postsink: {
        ...ratesOf(
          this.#finished,
          steps.map(({ finished }) => finished),
        ),
        total_job_in_queue: this.inQueue,
        maximum_job_in_queue: this.#mostInQueue,
        total_processed_job: this.#finished,
        num_exception: this.#failed,
        util,
        // As the original computes it: runs per second, if all workers always ran.
        ideal_maxload: predict && predict.avg > 0 ? (this.workers * 1_000) / predict.avg : 0,
        others: Object.fromEntries([...this.#samples].map(([key, samples]) => [key, summary(samples)])),
      },
    };
  }

  #clientCounts(): Facts {
    const now = this.now();
    const clients = [...this.#clients.values()];
    const { avg = 0, min = 0, max = 0 } = summary(clients.map(({ requests }) => requests)) ?? {};
    return {
      num_total_client: clients.length,
      num_active_client: clients.filter(({ lastMs }) => now - lastMs < ACTIVE_MS).length,
      avg_request_per_client: avg,
      min_request_per_client: min,
      max_request_per_client: max,
    };
  }

  #sample(key: string, value: number): void {
    if (!Number.isFinite(value)) return;
    const samples = this.#samples.get(key) ?? [];
    if (samples.length === 0 && this.#samples.size >= MOST_KEYS) return;
    samples.push(value);
    if (samples.length > SAMPLES) samples.shift();
    this.#samples.set(key, samples);
  }
}

function ratesOf(total: number, perStep: readonly number[]): Facts {
  const rates = perStep.map((count) => (count * 1_000) / STEP_MS);
  const { avg = 0, min = 0, max = 0 } = summary(rates) ?? {};
  return {
    num_data_request: total,
    cur_request_per_second: rates.at(-1) ?? 0,
    avg_request_per_second: avg,
    min_request_per_second: min,
    max_request_per_second: max,
  };
}

interface Summary {
  readonly avg: number;
  readonly min: number;
  readonly max: number;
  readonly std: number;
  readonly med: number;
}

/** @returns undefined without samples */
export function summary(samples: readonly number[]): Summary | undefined {
  if (samples.length === 0) return undefined;
  const sorted = samples.toSorted((a, b) => a - b);
  const half = sorted.length >> 1;
  const at = (index: number) => sorted[index] as number;
  const avg = samples.reduce((sum, value) => sum + value, 0) / samples.length;
  return {
    avg,
    min: at(0),
    max: at(sorted.length - 1),
    std: Math.sqrt(samples.reduce((sum, value) => sum + (value - avg) ** 2, 0) / samples.length),
    med: sorted.length % 2 === 1 ? at(half) : (at(half - 1) + at(half)) / 2,
  };
}

/**
 * The model, whose records are counted. It goes around whatever makes them wait.
 * @param source requests have an outcome here; a record of the queue has one where its result is stored
 */
export function withStatistics(model: Model, statistics: ServiceStatistics, source: Source): Model {
  return wrapped(model, async (records, run) => {
    const startedMs = statistics.now();
    statistics.arrived(records);
    let outcomes: readonly Outcome[] = [];
    try {
      const returned = await run();
      outcomes = returned;
      return returned;
    } catch (error) {
      // A request fails as a whole.
      const failed = { ok: false, error: ServingError.from(error) } as const;
      outcomes = Array.from({ length: records }, () => failed);
      throw error;
    } finally {
      const failed = outcomes.filter((outcome) => !outcome.ok && !hasLeft(outcome)).length;
      statistics.finished(records, failed, statistics.now() - startedMs);
      if (source === 'request') for (const outcome of outcomes) statistics.figures.record(source, outcome);
    }
  });
}

/** The client left before the record ran, which is no fault of either. */
function hasLeft(outcome: Outcome): boolean {
  return !outcome.ok && outcome.error.code === 'cancelled';
}

/** Goes around a run of so many records. */
type Around = (records: number, run: () => Promise<Outcome[]>) => Promise<Outcome[]>;

function wrapped(model: Model, around: Around): Model {
  const wrap = (runner: Runner): Runner => {
    const runIsolated = runner.runIsolated?.bind(runner);
    return {
      version: runner.version,
      ...(runner.inputs ? { inputs: runner.inputs } : {}),
      ...(runner.outputs ? { outputs: runner.outputs } : {}),
      ...(runner.names ? { names: runner.names } : {}),
      run: (records, policy) => around(records.length, () => runner.run(records, policy)),
      ...(runIsolated && {
        runIsolated: (records, limitMs) => around(records.length, () => runIsolated(records, limitMs)),
      }),
      close: () => runner.close(),
    };
  };
  return { use: (work) => model.use((runner) => work(wrap(runner))) };
}
