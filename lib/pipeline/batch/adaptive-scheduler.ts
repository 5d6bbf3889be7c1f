/**
 * The scheduler of a single machine: how long runs take decides how many requests may wait, and how much of the queue runs
 * at once. A run cannot be interrupted, so a long batch of the queue would hold a process while requests wait: the queue
 * runs in time slices. A line that only grows delays all who wait: when more wait than can be served, all of them are
 * refused, and until the load falls a request waits only for the next batch.
 */
import type { Batched, Line, Scheduler } from './scheduler.ts';

export interface AdaptiveOptions {
  /** A clock in ms. */
  readonly now: () => number;
  /** Most records of a batch. */
  readonly batchSize: number;
  /** False: the records of a batch run one by one, so a batch only saves messages. */
  readonly sharesRuns: boolean;
}

const MOST_WAITING = 512;
/** So many callers that wait for each answer are always served, however long a run takes. */
const LEAST_WAITING = 128;
/** Between these two limits, as many requests may wait as can be served in this time. */
const LONGEST_WAIT_MS = 2_000;
/** The weight of the latest batch in averages. */
const NEWEST_SHARE = 0.1;
/** The period over which arrivals are counted. */
const SPAN_MS = 1_000;
/** Requests wait again when arrivals need at most this share of the time. */
const CALM_SHARE = 0.9;

/** The queue's turn comes after this many times the length of its last slice, so it gets a fifth of the time. */
const PASSED_OVER_TIMES = 4;
const MOST_PASSED_OVER_MS = 1_000;
const REQUEST_SHARE = PASSED_OVER_TIMES / (PASSED_OVER_TIMES + 1);
/** A slice is as long as a batch of requests while requests arrive, longer when there are none. */
const LEAST_SLICE_MS = 5;
const QUIET_SLICE_MS = 100;
/** Records that take so long together may join a request without delaying it. */
const TOGETHER_MS = 1;
/** The resolution of a clock. */
const LEAST_RECORD_MS = 0.001;

export class AdaptiveScheduler implements Scheduler {
  readonly batchSize: number;
  readonly #options: AdaptiveOptions;
  #overloaded = false;
  /** The start of the counting period, and what came and ran in it. */
  #sinceMs: number;
  #arrivals = 0;
  #queueMs = 0;
  #lastRequestMs = Number.NEGATIVE_INFINITY;
  /** Averages of batches: what their requests took, a request, and a record of one. */
  #batchMs = 0;
  #requestMs = 0;
  #requestedMs = 0;
  /** Of a queued record in the last slice. The first slice is one record. */
  #queuedMs = Number.POSITIVE_INFINITY;
  #sliceMs = 0;
  #sliceEndMs = Number.NEGATIVE_INFINITY;

  constructor(options: AdaptiveOptions) {
    this.batchSize = options.batchSize;
    this.#options = options;
    this.#sinceMs = options.now();
  }

  admit(line: Line): ReturnType<Scheduler['admit']> {
    this.#arrive(line.processes);
    if (this.#overloaded) return line.records < this.#most(line) ? 'waits' : 'refused';
    if (line.requests < this.#room(line)) return 'waits';
    this.#overloaded = true;
    return 'sheds';
  }

  isFull(line: Line): boolean {
    return !this.#overloaded && line.requests >= this.#room(line);
  }

  arrived(line: Line): void {
    this.#arrive(line.processes);
  }

  /** The callers of so many requests left before these ran: no load that repeats itself. */
  left(requests: number): void {
    this.#arrivals = Math.max(0, this.#arrivals - requests);
  }

  /** A request that would be refused counts as an arrival. */
  refuses(line: Line): boolean {
    if (!this.#overloaded || line.records < this.#most(line)) return false;
    this.#arrive(line.processes);
    return this.#overloaded;
  }

  get requested(): number {
    const { batchSize, sharesRuns } = this.#options;
    if (sharesRuns || this.#requestedMs === 0) return sharesRuns ? batchSize : 1;
    return Math.max(1, Math.min(batchSize, Math.floor(TOGETHER_MS / this.#requestedMs)));
  }

  queued(requested: number): number {
    const limitMs = requested > 0 ? TOGETHER_MS : this.#sliceLimitMs();
    const most = Math.floor(limitMs / this.#queuedMs) - requested;
    return Math.max(requested > 0 ? 0 : 1, Math.min(most, this.#options.batchSize - requested));
  }

  isQueueDue(): boolean {
    const boundMs = Math.min(MOST_PASSED_OVER_MS, PASSED_OVER_TIMES * this.#sliceMs);
    return this.#options.now() - this.#sliceEndMs >= boundMs;
  }

  ran({ requests, requested, queued }: Batched, tookMs: number): void {
    const ofRequestsMs = (tookMs * requested) / (requested + queued);
    if (requests > 0) {
      const share = this.#batchMs === 0 ? 1 : NEWEST_SHARE;
      this.#batchMs += (ofRequestsMs - this.#batchMs) * share;
      this.#requestMs += (ofRequestsMs / requests - this.#requestMs) * share;
      this.#requestedMs += (ofRequestsMs / requested - this.#requestedMs) * share;
    }
    if (queued === 0) return;
    // Records that fail at once do not predict the next ones, so a slice is at most twice the last.
    const least = Number.isFinite(this.#queuedMs) ? this.#queuedMs / 2 : LEAST_RECORD_MS;
    this.#queuedMs = Math.max(LEAST_RECORD_MS, least, tookMs / (requested + queued));
    this.#queueMs += tookMs - ofRequestsMs;
    if (requested > 0) return;
    this.#sliceMs = tookMs;
    this.#sliceEndMs = this.#options.now();
  }

  refusal(): string {
    return 'more requests than this machine can serve';
  }

  #sliceLimitMs(): number {
    const isQuiet = this.#options.now() - this.#lastRequestMs > SPAN_MS;
    return isQuiet ? QUIET_SLICE_MS : Math.max(LEAST_SLICE_MS, this.#batchMs);
  }

  #room({ processes }: Line): number {
    const inTime = (LONGEST_WAIT_MS * processes) / Math.max(1, this.#requestMs);
    return Math.min(MOST_WAITING, Math.max(LEAST_WAITING, inTime));
  }

  /** Most records that wait in an overload: what the next batches take. */
  #most({ processes }: Line): number {
    return processes * this.requested;
  }

  #arrive(processes: number): void {
    const nowMs = this.#options.now();
    this.#lastRequestMs = nowMs;
    const spanMs = nowMs - this.#sinceMs;
    if (spanMs >= SPAN_MS) {
      const fullMs = processes * spanMs;
      const thereMs = Math.max(fullMs - this.#queueMs, fullMs * REQUEST_SHARE);
      if (this.#arrivals * this.#requestMs <= thereMs * CALM_SHARE) this.#overloaded = false;
      this.#sinceMs = nowMs;
      this.#arrivals = 0;
      this.#queueMs = 0;
    }
    this.#arrivals++;
  }
}
