/** A runner and those who use it: once it is retired, it closes after the last of them. */
import type { Runner } from '../contract/values.ts';
import { waitWithin, withinTime } from './load-time.ts';

export class OpenRunner<R extends Runner> {
  readonly runner: R;
  readonly #onError: (error: unknown) => void;
  #users = 0;
  #onClosed: (() => void) | undefined;
  #closing: Promise<void> | undefined;

  constructor(runner: R, onError: (error: unknown) => void) {
    this.runner = runner;
    this.#onError = onError;
  }

  get version(): string {
    return this.runner.version;
  }

  /** True from when it begins to close. */
  get isClosed(): boolean {
    return this.#closing !== undefined;
  }

  /** Undefined until it begins to close. Never rejects. */
  get closing(): Promise<void> | undefined {
    return this.#closing;
  }

  async use<T>(work: (runner: R) => Promise<T>, runner: R = this.runner): Promise<T> {
    this.#users++;
    try {
      return await work(runner);
    } finally {
      this.#users--;
      this.#closeWhenIdle();
    }
  }

  /** @param onClosed called once it is closed */
  retire(onClosed: () => void): void {
    this.#onClosed = onClosed;
    this.#closeWhenIdle();
  }

  #closeWhenIdle(): void {
    if (this.#onClosed && this.#users === 0)
      this.#closing ??= this.runner.close().catch(this.#onError).finally(this.#onClosed);
  }
}

/** Runners that were replaced, while they are not closed. */
export class LeavingRunners<R extends Runner> {
  readonly #runners = new Set<OpenRunner<R>>();

  get hasAny(): boolean {
    return this.#runners.size > 0;
  }

  add(opened: OpenRunner<R> | undefined): void {
    if (!opened) return;
    this.#runners.add(opened);
    opened.retire(() => this.#runners.delete(opened));
  }

  /** Waits for the end of those that no one uses. Never throws. */
  async closed(limitMs: number): Promise<void> {
    const closing = [...this.#runners].flatMap((opened) => opened.closing ?? []);
    if (closing.length === 0) return;
    const all = Promise.all(closing);
    await withinTime(limitMs, (signal) => waitWithin(signal, all)).catch(() => undefined);
  }
}
