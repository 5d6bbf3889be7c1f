/**
 * In: work for the model, of requests that wait for it. Out: it done one after the other, or rate_limited.
 * Trap: a run holds the thread, and what comes meanwhile waits in sockets where nobody counts it. On Lambda each
 * request has an environment of its own; here they share one, and a queue that only grows makes all of them late. So
 * when many wait, all of them are sent away, and until there is less to do than can be done only what finds the model
 * free runs: what is served is served at once.
 */
import { ServingError } from '../lib/errors.ts';

export interface RunQueueOptions {
  /** Requests that may wait, however short a run is. Default 512. */
  readonly mostWaiting?: number;
  /** A clock in ms. */
  readonly now: () => number;
  /** Lets the thread look once at its sockets. Default setImmediate. */
  readonly look?: () => Promise<void>;
}

const MOST_WAITING = 512;
/** As many callers, each waiting for its answer before it asks again, are served whatever a run takes. */
const LEAST_WAITING = 128;
/** Between the two: as many as can be served in this time. */
const LONGEST_WAIT_MS = 2_000;
/** Share of the newest run in the length of a run. */
const NEWEST_SHARE = 0.1;
/** How long arrivals are counted to say how much there is to do. */
const SPAN_MS = 1_000;
/** The queue opens again when arrivals would need no more of the time than this. */
const CALM_SHARE = 0.9;

/**
 * The thread takes one new connection a look, and its request at the next: two looks at nothing new mean that all who
 * came are counted. Under an endless stream of them the model still gets its turn, and half of the thread's time.
 */
const QUIET_LOOKS = 2;
const MOST_LOOKS = 512;
const LEAST_LOOKING_MS = 5;

interface Waiting {
  readonly start: () => void;
  readonly refuse: (error: ServingError) => void;
}

export class RunQueue {
  readonly #mostWaiting: number;
  readonly #now: () => number;
  readonly #look: () => Promise<void>;
  #waiting: Waiting[] = [];
  #busy = false;
  #overloaded = false;
  /** Since when this is counted. */
  #sinceMs: number;
  #arrivals = 0;
  /** Arrivals since ever. */
  #heard = 0;
  #lastRunMs = 0;
  /** How long a run takes; the last ones count most. */
  #runMs = 0;

  constructor({ mostWaiting = MOST_WAITING, now, look = nextTurn }: RunQueueOptions) {
    this.#mostWaiting = mostWaiting;
    this.#now = now;
    this.#look = look;
    this.#sinceMs = now();
  }

  /** To be asked when a request comes, before it costs anything: true when it would only be refused. */
  refuses(): boolean {
    if (!this.#overloaded || !this.#busy) return false;
    this.#arrive();
    return this.#overloaded;
  }

  /** @throws rate_limited, and whatever `work` throws */
  async run<T>(work: () => Promise<T>): Promise<T> {
    this.#arrive();
    if (this.#busy) await this.#turn();
    this.#busy = true;
    if (this.#overloaded || this.#waiting.length > 0) await this.#lookAround();
    const startedMs = this.#now();
    try {
      return await work();
    } finally {
      this.#lastRunMs = this.#now() - startedMs;
      const share = this.#runMs === 0 ? 1 : NEWEST_SHARE;
      this.#runMs += (this.#lastRunMs - this.#runMs) * share;
      const next = this.#waiting.shift();
      // It stays busy for the next one, or an arrival would be served before it.
      if (next) next.start();
      else this.#busy = false;
    }
  }

  #turn(): Promise<void> {
    if (!this.#overloaded && this.#waiting.length < this.#room()) {
      return new Promise((start, refuse) => this.#waiting.push({ start, refuse }));
    }
    this.#overloaded = true;
    const error = new ServingError('rate_limited', 'more requests than this machine can serve', {
      retryAfterSeconds: 1,
    });
    for (const { refuse } of this.#waiting.splice(0)) refuse(error);
    return Promise.reject(error);
  }

  #room(): number {
    const inTime = LONGEST_WAIT_MS / Math.max(1, this.#runMs);
    return Math.min(this.#mostWaiting, Math.max(LEAST_WAITING, inTime));
  }

  /** A run is a time in which nobody is heard: whoever came during the last one is counted, or refused, before the next. */
  async #lookAround(): Promise<void> {
    const endMs = this.#now() + Math.max(LEAST_LOOKING_MS, this.#lastRunMs);
    for (let looks = 0, quiet = 0; looks < MOST_LOOKS && quiet < QUIET_LOOKS; looks++) {
      const heard = this.#heard;
      await this.#look();
      quiet = heard === this.#heard ? quiet + 1 : 0;
      if (this.#now() >= endMs) return;
    }
  }

  #arrive(): void {
    this.#heard++;
    const spanMs = this.#now() - this.#sinceMs;
    if (spanMs >= SPAN_MS) {
      const neededMs = this.#arrivals * this.#runMs;
      if (neededMs <= spanMs * CALM_SHARE) this.#overloaded = false;
      this.#sinceMs += spanMs;
      this.#arrivals = 0;
    }
    this.#arrivals++;
  }
}

function nextTurn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}
