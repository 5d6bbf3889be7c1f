/**
 * In: the uris a batch function is about to run. Out: their status `running`, where anybody could see it.
 * Trap: telling costs a second call to Redis. A run that is over at once is not told, so that a fast model's batch
 * stays one round trip.
 */
import type { RecordStates } from './states.ts';

/** A shorter run has its result before anybody has asked. */
const TELL_FROM_MS = 100;

export class RunningNews {
  readonly #states: Pick<RecordStates, 'markRunning'>;
  readonly #timeoutMs: number;
  readonly #now: () => number;
  /** What a record of the last run took; of the first run nobody knows. */
  #recordMs = Number.POSITIVE_INFINITY;

  /**
   * @param timeoutMs how long a record that is not heard of again counts as running: the function's timeout
   * @param now ms, of any clock
   */
  constructor(states: Pick<RecordStates, 'markRunning'>, timeoutMs: number, now: () => number) {
    this.#states = states;
    this.#timeoutMs = timeoutMs;
    this.#now = now;
  }

  /**
   * Tells of these records, if their run will take long by what the last one took. The run need not wait for it.
   * @returns to be called right after the run; resolves when Redis has heard. Never throws.
   */
  begin(uris: readonly string[]): () => Promise<void> {
    const startedMs = this.#now();
    const worthTelling = this.#recordMs * uris.length >= TELL_FROM_MS;
    const told = worthTelling ? this.#states.markRunning(uris, this.#timeoutMs) : Promise.resolve();
    return () => {
      if (uris.length > 0) this.#recordMs = (this.#now() - startedMs) / uris.length;
      return told;
    };
  }
}
