/** A clock that a test sets forward; what is due runs in its order. */
import type { Clock } from '../../lib/pipeline/batch/batcher.ts';

export class TestClock implements Clock {
  #nowMs = 0;
  #timers: { readonly atMs: number; readonly call: () => void }[] = [];

  readonly now = () => this.#nowMs;

  readonly after = (ms: number, call: () => void) => {
    const timer = { atMs: this.#nowMs + ms, call };
    this.#timers.push(timer);
    return () => {
      this.#timers = this.#timers.filter((other) => other !== timer);
    };
  };

  /** Timers that neither ran nor were stopped. */
  get pending(): number {
    return this.#timers.length;
  }

  /** Time passes in which nothing runs, as in a frozen process: what became due runs at the next advance. */
  leap(ms: number): void {
    this.#nowMs += ms;
  }

  /** Resolves after everything that happens immediately in between. */
  async advance(ms: number): Promise<void> {
    const endMs = this.#nowMs + ms;
    for (;;) {
      await settled();
      const [next] = this.#timers.toSorted((a, b) => a.atMs - b.atMs);
      if (!next || next.atMs > endMs) break;
      this.#timers = this.#timers.filter((timer) => timer !== next);
      this.#nowMs = Math.max(this.#nowMs, next.atMs);
      next.call();
    }
    this.#nowMs = endMs;
    await settled();
  }
}

/** Resolves when all promises have reacted to each other. */
export function settled(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}
