/**
 * The last hour of a service in steps of ten seconds, for the console and for /stat. It counts nothing itself: a step is what the
 * service's counters have grown by. It has no timer: steps are completed when something happens or is asked. So it stands before
 * what counts.
 */
import { report, Timers } from '../metrics/timers.ts';
import type { Fact, Observer } from '../pipeline/observer.ts';

/** The workers' own figures. */
export interface LoadSource {
  /** Processes that can work at once. Default 1. */
  readonly workers?: () => number;
  /** Items that wait for one. Default none. */
  readonly waiting?: () => number;
  /** The time that all of them have worked, in ms, from 0 again when others replace them. Default: the sum of the batches'. */
  readonly busyMs?: () => number;
  /** Messages of the queue that wait or are with a function. Default: not known. */
  readonly depth?: () => number;
  /** The model or worker that they run. Default: unknown. */
  readonly version?: () => string;
}

/** Its histogram gives percentiles of any number of values within 4.5 %, in bounded memory. */
const TIMER = 'zoo.serving.request.overall';

const NOTHING = { requests: 0, arrived: 0, finished: 0, failed: 0, batches: 0, batched: 0 };

type Percentiles = Readonly<Record<'p50' | 'p95' | 'p99', number | null>>;

/** The growth of the counters, and the gauges at its end or during it. */
type HistoryStep = Readonly<Record<keyof typeof NOTHING | 'largest' | 'util' | 'workers', number>> &
  Percentiles & { readonly waited: number | null; readonly depth: number | null };

/** Since the start. */
export type Totals = Readonly<Record<keyof typeof NOTHING, number>> & {
  /** The time of all batches, in ms. */
  readonly batchMs: number;
};

interface HistoryOptions {
  /** A clock in ms that never goes back. */
  readonly now: () => number;
  readonly stepMs: number;
  /** How many are kept. */
  readonly steps: number;
  /** Asked when a step ends, as `totals` is. */
  readonly load: () => LoadSource;
  readonly totals: () => Totals;
}

export class History implements Observer {
  readonly #options: HistoryOptions;
  readonly #steps: HistoryStep[] = [];
  readonly #latency = new Timers();
  #atStep = NOTHING;
  #largest = 0;
  #waited: number | null = null;
  #stepMs: number;
  #busyAtStep = 0;

  constructor(options: HistoryOptions) {
    this.#options = options;
    this.#stepMs = options.now();
  }

  requestAnswered(): void {
    this.#advance();
  }

  recordsArrived(): void {
    this.#advance();
  }

  recordsRan({ outcomes, tookMs }: Fact<'recordsRan'>): void {
    this.#advance();
    for (const _ of outcomes) this.#latency.record(TIMER, tookMs);
  }

  recordsStored(): void {
    this.#advance();
  }

  runEnded({ records }: Fact<'runEnded'>): void {
    this.#advance();
    this.#largest = Math.max(this.#largest, records);
  }

  stepEnded({ step, tookMs }: Fact<'stepEnded'>): void {
    if (step !== 'wait') return;
    this.#advance();
    this.#waited = Math.max(this.#waited ?? 0, tookMs);
  }

  /** The steps of the last hour, the oldest first. */
  steps(): readonly HistoryStep[] {
    this.#advance();
    return this.#steps;
  }

  /** When the last step ended, by the clock of the options. */
  get stepEndedMs(): number {
    return this.#stepMs;
  }

  /** Completes the steps that have passed. */
  #advance(): void {
    const { now, stepMs, steps } = this.#options;
    const passed = Math.floor((now() - this.#stepMs) / stepMs);
    if (passed <= 0) return;
    const load = this.#options.load();
    const { batchMs, ...totals } = this.#options.totals();
    const busyMs = load.busyMs?.() ?? batchMs;
    const workers = load.workers?.() ?? 1;
    const sinceMs = busyMs < this.#busyAtStep ? 0 : this.#busyAtStep;
    const share = (busyMs - sinceMs) / (passed * stepMs * Math.max(1, workers));
    // One that was busy all along tells so only now.
    const util = Math.min(1, Math.max(0, share));
    const depth = load.depth?.() ?? null;
    const empty: HistoryStep = { ...NOTHING, ...NO_LATENCY, largest: 0, waited: null, depth, util, workers };
    const grown = { ...NOTHING };
    for (const key of Object.keys(grown) as (keyof typeof NOTHING)[])
      grown[key] = totals[key] - this.#atStep[key];
    const own = { largest: this.#largest, waited: this.#waited };
    this.#steps.push({ ...empty, ...grown, ...this.#percentiles(), ...own });
    for (let i = 0; i < Math.min(passed - 1, steps); i++) this.#steps.push(empty);
    this.#steps.splice(0, this.#steps.length - steps);
    this.#atStep = totals;
    this.#largest = 0;
    this.#waited = null;
    this.#stepMs += passed * stepMs;
    this.#busyAtStep = busyMs;
  }

  #percentiles(): Percentiles {
    const histogram = this.#latency.take().get(TIMER);
    if (!histogram) return NO_LATENCY;
    const { median: p50, _95thPercentile: p95, _99thPercentile: p99 } = report(TIMER, histogram, 0);
    return { p50, p95, p99 };
  }
}

const NO_LATENCY: Percentiles = { p50: null, p95: null, p99: null };
