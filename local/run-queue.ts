/**
 * Runs the work of requests and of the queue's batches one after the other; a request may be rate_limited, a batch
 * never is. A run holds the thread, so what waits would wait uncounted in sockets, and a queue that only grows makes
 * everyone late. When many wait, all of them are refused, and until the queue has drained only what finds the model
 * free runs. Requests go before batches, but not for ever.
 */
import { ServingError } from '../lib/contract/errors.ts';

interface RunQueueOptions {
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
 * came are counted. Under an endless stream of them the model still gets its turn, and two thirds of the thread's time.
 */
const QUIET_LOOKS = 2;
const MOST_LOOKS = 512;
const LEAST_LOOKING_MS = 5;
const LOOK_EVERY_MS = 5;
/** Of the last run. */
const LOOKING_SHARE = 0.5;

/** A batch's portion that waits goes first after this many times its own length: batches get a fifth of the time. */
const PASSED_OVER_TIMES = 4;
const MOST_PASSED_OVER_MS = 1_000;
/** What requests can count on while batches wait. */
const REQUEST_SHARE = PASSED_OVER_TIMES / (PASSED_OVER_TIMES + 1);
/** How long a portion may hold the model: as long as a request does while requests come, and longer when none came. */
const LEAST_PORTION_MS = 5;
const QUIET_PORTION_MS = 100;

/** Short runs are begun together, as many as take so long: the thread then turns once for all of them. */
const TOGETHER_MS = 1;
const MOST_TOGETHER = 16;

interface Waiting {
  readonly kind: 'request' | 'portion';
  readonly run: () => Promise<void>;
  readonly refuse: (error: ServingError) => void;
}

export class RunQueue {
  readonly #mostWaiting: number;
  readonly #now: () => number;
  readonly #look: () => Promise<void>;
  #requests: Waiting[] = [];
  #portions: Waiting[] = [];
  /** Who has the model, or is the next to have it whoever comes. */
  #chosen: Waiting | undefined;
  #serving = false;
  #overloaded = false;
  /** Since when this is counted. */
  #sinceMs: number;
  #arrivals = 0;
  /** Arrivals since ever. */
  #heard = 0;
  #lastRunMs = 0;
  #lookedMs = Number.NEGATIVE_INFINITY;
  #lastRequestMs = Number.NEGATIVE_INFINITY;
  /** How long a request's run takes; the last ones count most. */
  #runMs = 0;
  #portionMs = 0;
  /** Since when the first of the waiting portions could have had the model. */
  #passedSinceMs = 0;
  /** Of portions, in the span that is counted. */
  #portionsMs = 0;

  constructor({ mostWaiting = MOST_WAITING, now, look = nextTurn }: RunQueueOptions) {
    this.#mostWaiting = mostWaiting;
    this.#now = now;
    this.#look = look;
    this.#sinceMs = now();
  }

  /** To be asked when a request comes, before it costs anything: true when it would only be refused. */
  refuses(): boolean {
    if (!this.#overloaded || this.#chosen === undefined) return false;
    this.#arrive();
    return this.#overloaded;
  }

  /** A request's work. @throws rate_limited, and whatever `work` throws */
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

  /** A portion of a batch: after the requests, but for a bounded time, and never refused. @throws what `work` throws */
  runPortion<T>(work: () => Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      const run = async () => {
        await this.#timed(work).then(resolve, reject);
        this.#portionMs = this.#lastRunMs;
        this.#portionsMs += this.#lastRunMs;
        this.#passedSinceMs = this.#now();
      };
      if (this.#portions.length === 0) this.#passedSinceMs = this.#now();
      this.#portions.push({ kind: 'portion', run, refuse: reject });
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

  /** How long the next portion may hold the model. */
  get portionLimitMs(): number {
    const isQuiet = this.#now() - this.#lastRequestMs > SPAN_MS;
    return isQuiet ? QUIET_PORTION_MS : Math.max(LEAST_PORTION_MS, this.#runMs);
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
      this.#chosen ??= this.#isPortionDue() ? this.#portions.shift() : this.#requests.shift();
      // Nobody is chosen and a portion waits: a request that comes while we look goes before it. Who finds the model idle
      // need not look: everybody who came before has been heard.
      const others = this.#requests.length > 0 || this.#portions.length > 0;
      if (this.#overloaded || (others && !wasIdle && this.#isLookDue())) await this.#lookAround();
      this.#chosen ??= this.#portions.shift();
      if (this.#chosen === undefined) break;
      await Promise.all([this.#chosen, ...this.#companions(this.#chosen)].map(({ run }) => run()));
      this.#chosen = undefined;
    }
    this.#serving = false;
  }

  /** Who runs along with the one that was chosen; how long runs take counts their waiting for each other too. */
  #companions({ kind }: Waiting): Waiting[] {
    if (kind === 'portion' || this.#runMs === 0) return [];
    const together = Math.min(MOST_TOGETHER, Math.floor(TOGETHER_MS / this.#runMs));
    return this.#requests.splice(0, Math.max(0, together - 1));
  }

  /** A look costs as much as a short run: between those, one in a few milliseconds is enough, and before a portion. */
  #isLookDue(): boolean {
    return this.#chosen === undefined || this.#now() - this.#lookedMs >= LOOK_EVERY_MS;
  }

  #isPortionDue(): boolean {
    if (this.#portions.length === 0) return false;
    const boundMs = Math.min(MOST_PASSED_OVER_MS, PASSED_OVER_TIMES * this.#portionMs);
    return this.#now() - this.#passedSinceMs >= boundMs;
  }

  #room(): number {
    const inTime = LONGEST_WAIT_MS / Math.max(1, this.#runMs);
    return Math.min(this.#mostWaiting, Math.max(LEAST_WAITING, inTime));
  }

  /** A run is a time in which nobody is heard: whoever came during the last one is counted, or refused, before the next. */
  async #lookAround(): Promise<void> {
    const endMs = this.#now() + Math.max(LEAST_LOOKING_MS, this.#lastRunMs * LOOKING_SHARE);
    for (let looks = 0, quiet = 0; looks < MOST_LOOKS && quiet < QUIET_LOOKS; looks++) {
      const heard = this.#heard;
      await this.#look();
      quiet = heard === this.#heard ? quiet + 1 : 0;
      if (this.#now() >= endMs) break;
    }
    this.#lookedMs = this.#now();
  }

  #arrive(): void {
    this.#heard++;
    this.#lastRequestMs = this.#now();
    const spanMs = this.#now() - this.#sinceMs;
    if (spanMs >= SPAN_MS) {
      const neededMs = this.#arrivals * this.#runMs;
      const thereMs = Math.max(spanMs - this.#portionsMs, spanMs * REQUEST_SHARE);
      if (neededMs <= thereMs * CALM_SHARE) this.#overloaded = false;
      this.#sinceMs += spanMs;
      this.#arrivals = 0;
      this.#portionsMs = 0;
    }
    this.#arrivals++;
  }
}

function nextTurn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}
