/**
 * Times steps, and delivers the timers to the store at most once a second. A function may be frozen after its answer, so timers
 * are delivered before it; a failing store must not fail the request.
 */
import { logError } from '../contract/log.ts';
import { LOST_CAPTURES, TIMER_NAMES, Timers } from '../metrics/timers.ts';
import type { Fact, Observer } from '../pipeline/observer.ts';

interface DeliveryOptions {
  /**
   * Delivers all timers, or restores them and throws.
   * @param model the version that serves here; "" where none does
   */
  readonly deliver: (timers: Timers, model: string) => Promise<unknown>;
  /** Monotonic, in ms. */
  readonly now: () => number;
}

const FLUSH_EVERY_MS = 1_000;
/** The pause after a failed delivery, so that not every request pays for it. */
const PAUSE_AFTER_FAILURE_MS = 30_000;

export class DeliveredTimers implements Observer {
  readonly timers = new Timers();
  readonly #options: DeliveryOptions;
  #dueAt: number;
  #model = '';

  constructor(options: DeliveryOptions) {
    this.#options = options;
    this.#dueAt = options.now() + FLUSH_EVERY_MS;
  }

  stepEnded({ step, tookMs }: Fact<'stepEnded'>): void {
    this.timers.record(TIMER_NAMES[step], tookMs);
  }

  capturesLost(records: number): void {
    this.timers.record(LOST_CAPTURES, records);
  }

  modelChanged(version: string): void {
    this.#model = version;
  }

  /** An event takes the timers along with its results. */
  eventServed(): void {
    this.#dueAt = this.#options.now() + FLUSH_EVERY_MS;
  }

  /** Delivers when a second has passed since the last time. Never rejects. @returns undefined when nothing is due */
  flush(): Promise<void> | undefined {
    const now = this.#options.now();
    return now < this.#dueAt || this.timers.empty ? undefined : this.#deliver(now);
  }

  async #deliver(now: number): Promise<void> {
    this.#dueAt = now + FLUSH_EVERY_MS;
    try {
      await this.#options.deliver(this.timers, this.#model);
    } catch (error) {
      this.#dueAt = now + PAUSE_AFTER_FAILURE_MS;
      logError(error, { phase: 'metrics' });
    }
  }
}
