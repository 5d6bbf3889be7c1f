/** Times what a request of the Open Inference Protocol waits for (the limit, the model), reads, runs and writes. */
import type { InferencePhase, Observer } from '../../pipeline/observer.ts';

export class Phases {
  readonly #ns: Record<InferencePhase, number> = {
    queue: 0,
    compute_input: 0,
    compute_infer: 0,
    compute_output: 0,
  };
  readonly #now: () => number;
  readonly #begin: number;
  #since: number;
  #reached: { readonly version: string; readonly rows: number } | undefined;

  /** @param now monotonic, in ms */
  constructor(now: () => number) {
    this.#now = now;
    this.#begin = this.#since = now();
  }

  /** Adds the time since the last call, or since the beginning, to `phase`. */
  end(phase: InferencePhase): void {
    const now = this.#now();
    this.#ns[phase] += Math.round((now - this.#since) * 1e6);
    this.#since = now;
  }

  /** Time since the beginning, in ms. */
  get ms(): number {
    return this.#now() - this.#begin;
  }

  /** Names what the request runs on. One that ends before is not told of. */
  reaches(version: string, rows: number): void {
    this.#reached = { version, rows };
  }

  tell(observer: Observer, hasFailed: boolean): void {
    this.end(hasFailed ? 'compute_infer' : 'compute_output');
    if (this.#reached) observer.inferenceEnded?.({ ...this.#reached, ns: this.#ns, hasFailed });
  }
}
