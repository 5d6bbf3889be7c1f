/**
 * Times work and delivers the timers to the store at most once a second. A function may be frozen after its answer, so
 * what is due is sent before it; a store that fails must not cost the request.
 */
import { type TimerName, Timers } from './timers.ts';

interface ReporterOptions {
  /** Takes everything from the timers, or puts it back and throws. */
  readonly deliver: (timers: Timers) => Promise<unknown>;
  /** Monotonic, in ms. */
  readonly now: () => number;
  readonly onError: (error: unknown) => void;
}

const FLUSH_EVERY_MS = 1_000;
/** After a failed delivery, leave the store alone for a while: a request must not pay for it each time. */
const PAUSE_AFTER_FAILURE_MS = 30_000;

export class Reporter {
  readonly timers = new Timers();
  readonly #options: ReporterOptions;
  #dueAt: number;

  constructor(options: ReporterOptions) {
    this.#options = options;
    this.#dueAt = options.now() + FLUSH_EVERY_MS;
  }

  /** Starts a measurement; call the result to end it. */
  start(name: TimerName): () => void {
    const begin = this.#options.now();
    return () => this.timers.record(name, this.#options.now() - begin);
  }

  /** Delivers when a second has passed since the last time. Never throws. */
  async flushWhenDue(): Promise<void> {
    const now = this.#options.now();
    if (now < this.#dueAt || this.timers.empty) return;
    this.#dueAt = now + FLUSH_EVERY_MS;
    try {
      await this.#options.deliver(this.timers);
    } catch (error) {
      this.#dueAt = now + PAUSE_AFTER_FAILURE_MS;
      this.#options.onError(error);
    }
  }
}
