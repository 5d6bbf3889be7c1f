/**
 * The last hour of a service in steps of ten seconds, for the page and for /stat. It has no timer: steps are completed when
 * something happens or is asked. All processes of a job report to it, so that they add up.
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
  /** What they run. Default: not known. */
  readonly version?: () => string;
}

/** Its histogram gives percentiles of any number of values within 4.5 %, in bounded memory. */
const TIMER = 'zoo.serving.request.overall';

const NOTHING = { requests: 0, arrived: 0, finished: 0, failed: 0, batches: 0, batched: 0, largest: 0 };
type Counts = { -readonly [Key in keyof typeof NOTHING]: number };

export class History {
  readonly #now: () => number;
  readonly #load: () => LoadSource;
  readonly #steps: Step[] = [];
  readonly #latency = new Timers();
  #counts: Counts = { ...NOTHING };
  #waited: number | null = null;
  #depth: number | null = null;
  #stepMs: number;
  #busyAtStep = 0;
  #batchMs = 0;

  /** @param now a clock in ms that never goes back. @param load asked when a step ends */
  constructor(now: () => number, load: () => LoadSource) {
    this.#now = now;
    this.#load = load;
    this.#stepMs = now();
  }

  count(what: 'requests' | 'arrived', times: number): void {
    this.#advance();
    this.#counts[what] += times;
  }

  finished(items: number, failed: number, tookMs: number): void {
    this.#advance();
    this.#counts.finished += items;
    this.#counts.failed += failed;
    for (let i = 0; i < items; i++) this.#latency.record(TIMER, tookMs);
  }

  /** A run in a process. */
  batch(size: number, tookMs: number): void {
    this.#advance();
    this.#batchMs += tookMs;
    this.#counts.batches++;
    this.#counts.batched += size;
    this.#counts.largest = Math.max(this.#counts.largest, size);
  }

  /** A record that was taken from the queue had waited so long. */
  waited(ms: number): void {
    this.#advance();
    this.#waited = Math.max(this.#waited ?? 0, ms);
  }

  /** So many messages are in the queue now. */
  depth(messages: number): void {
    this.#advance();
    this.#depth = messages;
  }

  /** The steps of the last hour, the oldest first. */
  steps(): readonly Step[] {
    this.#advance();
    return this.#steps;
  }

  /** How long ago the last step ended, in ms. */
  get sinceStepMs(): number {
    return this.#now() - this.#stepMs;
  }

  /** Completes the steps that have passed. */
  #advance(): void {
    const passed = Math.floor((this.#now() - this.#stepMs) / STEP_MS);
    if (passed <= 0) return;
    const load = this.#load();
    const busyMs = load.busyMs?.() ?? this.#batchMs;
    const workers = load.workers?.() ?? 1;
    const sinceMs = busyMs < this.#busyAtStep ? 0 : this.#busyAtStep;
    const share = (busyMs - sinceMs) / (passed * STEP_MS * Math.max(1, workers));
    // One that was busy all along tells so only now.
    const util = Math.min(1, Math.max(0, share));
    const empty: Step = { ...NOTHING, ...NO_LATENCY, waited: null, depth: null, util, workers };
    const step = { ...empty, ...this.#counts, ...this.#percentiles(), waited: this.#waited };
    this.#steps.push({ ...step, depth: this.#depth });
    for (let i = 0; i < Math.min(passed - 1, STEPS); i++) this.#steps.push(empty);
    this.#steps.splice(0, this.#steps.length - STEPS);
    this.#counts = { ...NOTHING };
    this.#waited = null;
    this.#depth = null;
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
