/** Gathers what comes one by one, and works on what has come meanwhile together. */
import { setImmediate } from 'node:timers/promises';

const MOST = 256;

export class Gatherer<T> {
  readonly #work: (items: readonly T[]) => Promise<void>;
  readonly #waiting: T[] = [];
  #running: Promise<void> | undefined;

  /** @param work never rejects */
  constructor(work: (items: readonly T[]) => Promise<void>) {
    this.#work = work;
  }

  add(item: T): void {
    this.#waiting.push(item);
    this.#running ??= this.#run();
  }

  async idle(): Promise<void> {
    await this.#running;
  }

  async #run(): Promise<void> {
    await setImmediate();
    while (this.#waiting.length > 0) await this.#work(this.#waiting.splice(0, MOST));
    this.#running = undefined;
  }
}
