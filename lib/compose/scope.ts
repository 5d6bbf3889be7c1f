/**
 * The dependencies of one environment, each opened once, when it is first asked for. A part is a function of the scope
 * and may ask for other parts. A function's process has one scope; the single machine has one for each job.
 */
import type { Environment } from '../config/environment.ts';

type Part<T> = (scope: Scope) => T;

export class Scope {
  readonly environment: Environment;
  readonly #opened = new Map<Part<unknown>, unknown>();

  constructor(environment: Environment) {
    this.environment = environment;
  }

  get<T>(part: Part<T>): T {
    // The map's value was made by this very key, whose type says what it is.
    if (this.#opened.has(part)) return this.#opened.get(part) as T;
    const opened = part(this);
    this.#opened.set(part, opened);
    // What could not be opened is tried again by the next one who asks.
    if (opened instanceof Promise) opened.catch(() => this.#opened.delete(part));
    return opened;
  }
}
