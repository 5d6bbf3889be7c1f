/**
 * Gives the records of a batch the status `running`. That costs a second call to the store, so short runs are not reported and
 * the batch of a fast model stays one round trip. A run blocks the thread, and a reply that arrived meanwhile would be read
 * after the command's time limit, so the reply is awaited before the run.
 */
import type { RunningRecord } from '../pipeline/serve.ts';
import type { States } from './store.ts';

/** A shorter run has finished before a client could ask. */
const REPORT_FROM_MS = 100;
/** The longest wait for the store before a run: the time limit of a command. */
const REPORT_WITHIN_MS = 1_000;

/** Call it right after the run. Resolves when no report is under way any more; never throws. */
type EndRun = () => Promise<void>;

export class RunningReports {
  readonly #states: Pick<States, 'markRunning'>;
  readonly #timeoutMs: number;
  readonly #now: () => number;
  /** The time of one record in the last run, in ms; undefined before the first run. */
  #recordMs = Number.POSITIVE_INFINITY;

  /**
   * @param timeoutMs how long a record without further reports counts as running: the function's timeout
   * @param now ms, of any clock
   */
  constructor(states: Pick<States, 'markRunning'>, timeoutMs: number, now: () => number) {
    this.#states = states;
    this.#timeoutMs = timeoutMs;
    this.#now = now;
  }

  /**
   * Reports these records if their run will be long, judged by the last one. Await it before the run; it resolves at once
   * for a short run and never throws.
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
