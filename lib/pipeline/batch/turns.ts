/**
 * Runs the works of one key one after the other, in the order of the calls, and those of other keys meanwhile. The last
 * enqueue of a uri counts, so its enqueues must not overtake each other.
 */
export class Turns {
  readonly #last = new Map<string, Promise<void>>();

  /** A work that fails does not keep the next one from running. */
  run<T>(key: string, work: () => Promise<T>): Promise<T> {
    const before = this.#last.get(key);
    const running = before ? before.then(work) : work();
    const end = (): void => {
      if (this.#last.get(key) === ended) this.#last.delete(key);
    };
    const ended: Promise<void> = running.then(end, end);
    this.#last.set(key, ended);
    return running;
  }
}
