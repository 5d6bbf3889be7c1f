/** Searches the highest rate that is sustained. Both ends of the answer were tried: one rate passed, one failed. */
interface SearchOptions {
  /** The first rate to try. */
  readonly guess: number;
  /** Until both ends are known, the rate grows or shrinks by this. Default 1.15. */
  readonly stride?: number;
  /** Ends when the lowest rate that failed is at most this times the highest that passed. Default 1.02. */
  readonly precision?: number;
  /** Ends after `tries` attempts, with the best result so far. Default 12. */
  readonly maxTries?: number;
}

export class RateSearch {
  readonly #stride: number;
  readonly #precision: number;
  readonly #maxTries: number;
  #next: number;
  #tries = 0;
  #passed: number | undefined;
  #failed: number | undefined;

  constructor({ guess, stride = 1.15, precision = 1.02, maxTries = 12 }: SearchOptions) {
    if (!(guess > 0) || !(stride > 1) || !(precision > 1)) {
      throw new Error(`expected a guess above 0, a stride and a precision above 1, got ${guess}`);
    }
    this.#next = guess;
    this.#stride = stride;
    this.#precision = precision;
    this.#maxTries = maxTries;
  }

  /** The rate to try, undefined when the search is over. */
  get next(): number | undefined {
    return this.isOver ? undefined : this.#next;
  }

  /** The highest rate that passed. */
  get best(): number | undefined {
    return this.#passed;
  }

  /** The lowest rate that failed was found too: `best` is where the limit is, not where the tries ended. */
  get isBracketed(): boolean {
    return this.#passed !== undefined && this.#failed !== undefined;
  }

  get isOver(): boolean {
    if (this.#tries >= this.#maxTries) return true;
    return this.isBracketed && (this.#failed as number) / (this.#passed as number) <= this.#precision;
  }

  /** True if `next` was sustained. */
  report(hasPassed: boolean): void {
    this.#tries++;
    if (hasPassed) this.#passed = Math.max(this.#passed ?? 0, this.#next);
    else this.#failed = Math.min(this.#failed ?? Number.POSITIVE_INFINITY, this.#next);
    if (this.#passed === undefined) this.#next /= this.#stride;
    else if (this.#failed === undefined) this.#next *= this.#stride;
    else this.#next = Math.sqrt(this.#passed * this.#failed);
  }
}
