/**
 * Runs requests and the queue's batches one at a time. A run blocks the thread, so further requests would wait unseen
 * in sockets, and a queue that only grows delays all of them. When too many requests wait, all of them are refused
 * with rate_limited, and until the load falls a request runs only if the model is idle. Requests run before batches,
 * but batches get a share of the time and are never refused.
 */
import { ServingError } from '../lib/contract/errors.ts';

interface RunQueueOptions {
  /** Requests that may wait, however short a run is. Default 512. */
  readonly mostWaiting?: number;
  /** A clock in ms. */
  readonly now: () => number;
  /** Lets the event loop read its sockets once. Default setImmediate. */
  readonly look?: () => Promise<void>;
}

const MOST_WAITING = 512;
/** So many callers that wait for each answer are always served, however long a run takes. */
const LEAST_WAITING = 128;
/** Between these two limits, as many requests may wait as can be served in this time. */
const LONGEST_WAIT_MS = 2_000;
/** The weight of the latest run in the average length of a run. */
const NEWEST_SHARE = 0.1;
/** The period over which arrivals are counted. */
const SPAN_MS = 1_000;
/** Requests are accepted again when arrivals need at most this share of the time. */
const CALM_SHARE = 0.9;

/**
 * The event loop accepts one connection per turn and reads its request in the next: after two turns without anything
 * new, all arrivals are counted. Under an endless stream of arrivals the model still runs, and gets two thirds of the
 * thread's time.
 */
const QUIET_LOOKS = 2;
const MOST_LOOKS = 512;
const LEAST_LOOKING_MS = 5;
const LOOK_EVERY_MS = 5;
/** The time for these turns, as a share of the last run. */
const LOOKING_SHARE = 0.5;

/** A waiting slice of a batch runs after this many times its own length, so batches get a fifth of the time. */
const PASSED_OVER_TIMES = 4;
const MOST_PASSED_OVER_MS = 1_000;
/** The share of time for requests while batches wait. */
const REQUEST_SHARE = PASSED_OVER_TIMES / (PASSED_OVER_TIMES + 1);
/**
 * How long a slice may use the model: as long as a request's run while requests arrive, longer when there are none.
 */
const LEAST_SLICE_MS = 5;
const QUIET_SLICE_MS = 100;

/** Short runs start together, up to this total length, which saves turns of the event loop. */
const TOGETHER_MS = 1;
const MOST_TOGETHER = 16;

interface Waiting {
  readonly kind: 'request' | 'slice';
  readonly run: () => Promise<void>;
  readonly refuse: (error: ServingError) => void;
}

export class RunQueue {
  readonly #mostWaiting: number;
  readonly #now: () => number;
  readonly #look: () => Promise<void>;
  #requests: Waiting[] = [];
  #slices: Waiting[] = [];
  /** The work that has the model, or gets it next whatever arrives. */
  #chosen: Waiting | undefined;
  #serving = false;
  #overloaded = false;
  /** The start of the current counting period. */
  #sinceMs: number;
  #arrivals = 0;
  /** All arrivals since the start. */
  #requestCount = 0;
  #lastRunMs = 0;
  #lookedMs = Number.NEGATIVE_INFINITY;
  #lastRequestMs = Number.NEGATIVE_INFINITY;
  /** The moving average of a request's run. */
  #runMs = 0;
  #sliceMs = 0;
  /** The time since which the first waiting slice has been passed over. */
  #passedSinceMs = 0;
  /** The run time of slices in the current counting period. */
  #slicesMs = 0;

  constructor({ mostWaiting = MOST_WAITING, now, look = nextTurn }: RunQueueOptions) {
    this.#mostWaiting = mostWaiting;
    this.#now = now;
    this.#look = look;
    this.#sinceMs = now();
  }

  /** Whether a request would be refused. Call it before spending anything on the request. */
  refuses(): boolean {
    if (!this.#overloaded || this.#chosen === undefined) return false;
    this.#arrive();
    return this.#overloaded;
  }

  /** Runs the work of a request. @throws rate_limited, and the errors of `work` */
  run<T>(work: () => Promise<T>): Promise<T> {
    this.#arrive();
    return new Promise((resolve, reject) => {
      const run = async () => {
        await this.#timed(work).then(resolve, reject);
        const share = this.#runMs === 0 ? 1 : NEWEST_SHARE;
        this.#runMs += (this.#lastRunMs - this.#runMs) * share;
      };
      this.#admit({ kind: 'request', run, refuse: reject });
    });
  }

  /**
   * Runs a slice of a batch: after the requests, within a bounded time, and never refused. @throws the errors of
   * `work`
   */
  runSlice<T>(work: () => Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      const run = async () => {
        await this.#timed(work).then(resolve, reject);
        this.#sliceMs = this.#lastRunMs;
        this.#slicesMs += this.#lastRunMs;
        this.#passedSinceMs = this.#now();
      };
      if (this.#slices.length === 0) this.#passedSinceMs = this.#now();
      this.#slices.push({ kind: 'slice', run, refuse: reject });
      this.#wake();
    });
  }

  async #timed<T>(work: () => Promise<T>): Promise<T> {
    const startedMs = this.#now();
    try {
      return await work();
    } finally {
      this.#lastRunMs = this.#now() - startedMs;
    }
  }

  /** How long the next slice may use the model. */
  get sliceLimitMs(): number {
    const isQuiet = this.#now() - this.#lastRequestMs > SPAN_MS;
    return isQuiet ? QUIET_SLICE_MS : Math.max(LEAST_SLICE_MS, this.#runMs);
  }

  #admit(request: Waiting): void {
    if (this.#chosen === undefined) {
      this.#chosen = request;
      this.#wake();
    } else if (!this.#overloaded && this.#requests.length < this.#room()) {
      this.#requests.push(request);
    } else {
      this.#overloaded = true;
      const error = new ServingError('rate_limited', 'more requests than this machine can serve', {
        retryAfterSeconds: 1,
      });
      for (const { refuse } of [...this.#requests.splice(0), request]) refuse(error);
    }
  }

  #wake(): void {
    if (!this.#serving) void this.#serve();
  }

  async #serve(): Promise<void> {
    this.#serving = true;
    for (let wasIdle = true; ; wasIdle = false) {
      this.#chosen ??= this.#isSliceDue() ? this.#slices.shift() : this.#requests.shift();
      // A request that arrives in these turns runs before a waiting slice. After an idle period all earlier
      // arrivals are known already.
      const others = this.#requests.length > 0 || this.#slices.length > 0;
      if (this.#overloaded || (others && !wasIdle && this.#isLookDue())) await this.#lookAround();
      this.#chosen ??= this.#slices.shift();
      if (this.#chosen === undefined) break;
      await Promise.all([this.#chosen, ...this.#companions(this.#chosen)].map(({ run }) => run()));
      this.#chosen = undefined;
    }
    this.#serving = false;
  }

  /**
   * The requests that start together with the chosen one. The measured length of a run includes waiting for each
   * other.
   */
  #companions({ kind }: Waiting): Waiting[] {
    if (kind === 'slice' || this.#runMs === 0) return [];
    const together = Math.min(MOST_TOGETHER, Math.floor(TOGETHER_MS / this.#runMs));
    return this.#requests.splice(0, Math.max(0, together - 1));
  }

  /** Looking costs as much as a short run, so once in a few milliseconds is enough, and before each slice. */
  #isLookDue(): boolean {
    return this.#chosen === undefined || this.#now() - this.#lookedMs >= LOOK_EVERY_MS;
  }

  #isSliceDue(): boolean {
    if (this.#slices.length === 0) return false;
    const boundMs = Math.min(MOST_PASSED_OVER_MS, PASSED_OVER_TIMES * this.#sliceMs);
    return this.#now() - this.#passedSinceMs >= boundMs;
  }

  #room(): number {
    const inTime = LONGEST_WAIT_MS / Math.max(1, this.#runMs);
    return Math.min(this.#mostWaiting, Math.max(LEAST_WAITING, inTime));
  }

  /** No request is read during a run, so arrivals of that time are counted, or refused, before the next one. */
  async #lookAround(): Promise<void> {
    const endMs = this.#now() + Math.max(LEAST_LOOKING_MS, this.#lastRunMs * LOOKING_SHARE);
    for (let looks = 0, quiet = 0; looks < MOST_LOOKS && quiet < QUIET_LOOKS; looks++) {
      const before = this.#requestCount;
      await this.#look();
      quiet = before === this.#requestCount ? quiet + 1 : 0;
      if (this.#now() >= endMs) break;
    }
    this.#lookedMs = this.#now();
  }

  #arrive(): void {
    this.#requestCount++;
    this.#lastRequestMs = this.#now();
    const spanMs = this.#now() - this.#sinceMs;
    if (spanMs >= SPAN_MS) {
      const neededMs = this.#arrivals * this.#runMs;
      const thereMs = Math.max(spanMs - this.#slicesMs, spanMs * REQUEST_SHARE);
      if (neededMs <= thereMs * CALM_SHARE) this.#overloaded = false;
      this.#sinceMs += spanMs;
      this.#arrivals = 0;
      this.#slicesMs = 0;
    }
    this.#arrivals++;
  }
}

function nextTurn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}
