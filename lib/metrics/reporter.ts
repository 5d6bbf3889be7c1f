/**
 * Times work and delivers the timers to the store at most once a second. A function may be frozen after its answer,
 * so timers are delivered before it; a failing store must not fail the request.
 */
import { type TimerName, Timers } from './timers.ts';

interface ReporterOptions {
  /** Delivers all timers, or restores them and throws. */
  readonly deliver: (timers: Timers) => Promise<unknown>;
  /** Monotonic, in ms. */
  readonly now: () => number;
  readonly onError: (error: unknown) => void;
}

const FLUSH_EVERY_MS = 1_000;
/** The pause after a failed delivery, so that not every request pays for it. */
const PAUSE_AFTER_FAILURE_MS = 30_000;

export class Reporter {
  readonly timers = new Timers();
  readonly #options: ReporterOptions;
  #dueAt: number;

  constructor(options: ReporterOptions) {
    this.#options = options;
    this.#dueAt = options.now() + FLUSH_EVERY_MS;
  }

  /** Monotonic, in ms. */
  get now(): () => number {
    return this.#options.now;
  }

  /** Starts a measurement; call the result to end it. */
  start(name: TimerName): () => void {
    const begin = this.#options.now();
    return () => this.timers.record(name, this.#options.now() - begin);
  }

  /** Delivers when a second has passed since the last time. Never rejects. @returns undefined when nothing is due */
  flushWhenDue(): Promise<void> | undefined {
    const now = this.#options.now();
    return now < this.#dueAt || this.timers.empty ? undefined : this.#flush(now);
  }

  async #flush(now: number): Promise<void> {
    this.#dueAt = now + FLUSH_EVERY_MS;
    try {
      await this.#options.deliver(this.timers);
    } catch (error) {
      this.#dueAt = now + PAUSE_AFTER_FAILURE_MS;
      this.#options.onError(error);
    }
  }
}
