/**
 * The last hour of a service in steps of ten seconds, for the page and for /stat. It counts nothing itself: a step is what the
 * service's counters, which Prometheus reads too, have grown by. It has no timer: steps are completed when something
 * happens or is asked.
 */
import { STEP_MS, STEPS, type Step } from '../../console/api.ts';
import { report, Timers } from '../../lib/metrics/timers.ts';

/** What the workers say of themselves. */
export interface LoadSource {
  /** Processes that can work at once. Default 1. */
  readonly workers?: () => number;
  /** Items that wait for one. Default none. */
  readonly waiting?: () => number;
  /** The time that all of them have worked, in ms, from 0 again when others replace them. Default: the sum of the batches'. */
  readonly busyMs?: () => number;
  /** Messages of the queue that wait or are with a function. Default: not known. */
  readonly depth?: () => number;
  /** What they run. Default: not known. */
  readonly version?: () => string;
}

/** Its histogram gives percentiles of any number of values within 4.5 %, in bounded memory. */
const TIMER = 'zoo.serving.request.overall';

const NOTHING = { requests: 0, arrived: 0, finished: 0, failed: 0, batches: 0, batched: 0 };

/** Since the start. */
export type Totals = Readonly<Record<keyof typeof NOTHING, number>> & {
  /** The time of all batches, in ms. */
  readonly batchMs: number;
};

export class History {
  readonly #now: () => number;
  readonly #load: () => LoadSource;
  readonly #totals: () => Totals;
  readonly #steps: Step[] = [];
  readonly #latency = new Timers();
  #atStep: Totals = { ...NOTHING, batchMs: 0 };
  #largest = 0;
  #waited: number | null = null;
  #stepMs: number;
  #busyAtStep = 0;

  /** @param now a clock in ms that never goes back. @param load asked when a step ends, as the totals are */
  constructor(now: () => number, load: () => LoadSource, totals: () => Totals) {
    this.#now = now;
    this.#load = load;
    this.#totals = totals;
    this.#stepMs = now();
  }

  /** Records took so long from their arrival to their outcomes. */
  latency(items: number, tookMs: number): void {
    this.advance();
    for (let i = 0; i < items; i++) this.#latency.record(TIMER, tookMs);
  }

  /** So many records ran together. */
  batch(size: number): void {
    this.advance();
    this.#largest = Math.max(this.#largest, size);
  }

  /** A record that was taken from the queue had waited so long. */
  waited(ms: number): void {
    this.advance();
    this.#waited = Math.max(this.#waited ?? 0, ms);
  }

  /** The steps of the last hour, the oldest first. */
  steps(): readonly Step[] {
    this.advance();
    return this.#steps;
  }

  /** How long ago the last step ended, in ms. */
  get sinceStepMs(): number {
    return this.#now() - this.#stepMs;
  }

  /** Completes the steps that have passed. Each counter calls it before it counts, so that each step has its own. */
  advance(): void {
    const passed = Math.floor((this.#now() - this.#stepMs) / STEP_MS);
    if (passed <= 0) return;
    const load = this.#load();
    const { batchMs, ...totals } = this.#totals();
    const busyMs = load.busyMs?.() ?? batchMs;
    const workers = load.workers?.() ?? 1;
    const sinceMs = busyMs < this.#busyAtStep ? 0 : this.#busyAtStep;
    const share = (busyMs - sinceMs) / (passed * STEP_MS * Math.max(1, workers));
    // One that was busy all along tells so only now.
    const util = Math.min(1, Math.max(0, share));
    const depth = load.depth?.() ?? null;
    const empty: Step = { ...NOTHING, ...NO_LATENCY, largest: 0, waited: null, depth, util, workers };
    const grown = { ...NOTHING };
    for (const key of Object.keys(grown) as (keyof typeof NOTHING)[])
      grown[key] = totals[key] - this.#atStep[key];
    const own = { largest: this.#largest, waited: this.#waited };
    this.#steps.push({ ...empty, ...grown, ...this.#percentiles(), ...own });
    for (let i = 0; i < Math.min(passed - 1, STEPS); i++) this.#steps.push(empty);
    this.#steps.splice(0, this.#steps.length - STEPS);
    this.#atStep = { ...totals, batchMs };
    this.#largest = 0;
    this.#waited = null;
    this.#stepMs += passed * STEP_MS;
    this.#busyAtStep = busyMs;
  }

  #percentiles(): Pick<Step, 'p50' | 'p95' | 'p99'> {
    const histogram = this.#latency.take().get(TIMER);
    if (!histogram) return NO_LATENCY;
    const { median: p50, _95thPercentile: p95, _99thPercentile: p99 } = report(TIMER, histogram, 0);
    return { p50, p95, p99 };
  }
}

const NO_LATENCY = { p50: null, p95: null, p99: null };
