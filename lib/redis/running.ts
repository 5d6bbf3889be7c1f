/**
 * Gives the records of a batch function the status `running`. That costs a second call to Redis, so short runs are not
 * reported and a fast model's batch stays one round trip. A run holds the thread, so an answer that came meanwhile
 * would be read after the command's time limit; therefore the answer is awaited before a reported run.
 */
import type { RunningRecord } from '../pipeline/serve.ts';
import type { RecordStates } from './record-states.ts';

/** A shorter run has its result before anybody has asked. */
const REPORT_FROM_MS = 100;
/** Longest wait for Redis before a run: as long as it may take for any command. */
const REPORT_WITHIN_MS = 1_000;

/** To be called right after the run; resolves when nothing is on its way any more. Never throws. */
type EndRun = () => Promise<void>;

export class RunningReports {
  readonly #states: Pick<RecordStates, 'markRunning'>;
  readonly #timeoutMs: number;
  readonly #now: () => number;
  /** What a record of the last run took; unknown before the first run. */
  #recordMs = Number.POSITIVE_INFINITY;

  /**
   * @param timeoutMs how long a record without further reports counts as running: the function's timeout
   * @param now ms, of any clock
   */
  constructor(states: Pick<RecordStates, 'markRunning'>, timeoutMs: number, now: () => number) {
    this.#states = states;
    this.#timeoutMs = timeoutMs;
    this.#now = now;
  }

  /**
   * Reports these records, if their run will take long by what the last one took; only then it is to be waited for.
   * Never throws.
   */
  begin(records: readonly RunningRecord[]): EndRun | Promise<EndRun> {
    const isWorthReporting = this.#recordMs * records.length >= REPORT_FROM_MS;
    return isWorthReporting ? this.#report(records) : this.#measure(records, Promise.resolve());
  }

  async #report(records: readonly RunningRecord[]): Promise<EndRun> {
    const reported = this.#states.markRunning(records, this.#timeoutMs);
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, REPORT_WITHIN_MS);
    });
    await Promise.race([reported, late]);
    clearTimeout(timer);
    return this.#measure(records, reported);
  }

  #measure(records: readonly RunningRecord[], reported: Promise<void>): EndRun {
    const startedMs = this.#now();
    return () => {
      if (records.length > 0) this.#recordMs = (this.#now() - startedMs) / records.length;
      return reported;
    };
  }
}
