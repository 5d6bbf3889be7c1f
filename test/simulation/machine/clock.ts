/**
 * The clocks and timers of one process. The wall clock of its machine is wrong by an offset that may change; the other
 * clock counts from the start, and stands still while the process is stopped where its machine was stopped with it.
 */
import type { Event, Owner, Scheduler } from './scheduler.ts';

/** When virtual time begins, in ms since 1970. */
export const EPOCH_MS = Date.UTC(2026, 0, 5, 8);

/** The wall clock of a machine. */
export interface WallClock {
  offsetMs: number;
}

type Callback = (...args: unknown[]) => void;

export class SimulatedTimer {
  isReferenced = true;
  readonly #stop: () => void;
  readonly #again: () => void;

  constructor(stop: () => void, again: () => void) {
    this.#stop = stop;
    this.#again = again;
  }

  ref(): this {
    this.isReferenced = true;
    return this;
  }

  unref(): this {
    this.isReferenced = false;
    return this;
  }

  hasRef(): boolean {
    return this.isReferenced;
  }

  refresh(): this {
    this.#again();
    return this;
  }

  close(): this {
    this.#stop();
    return this;
  }
}

export class ProcessClock {
  readonly #scheduler: Scheduler;
  readonly #owner: Owner;
  readonly #wall: WallClock;
  readonly #startedMs: number;
  /** How long the process was stopped, where its clock stood still meanwhile. */
  stoodStillMs = 0;
  /** Timers that have not ended. */
  readonly pending = new Set<SimulatedTimer>();
  readonly Date: DateConstructor;

  constructor(scheduler: Scheduler, owner: Owner, wall: WallClock) {
    this.#scheduler = scheduler;
    this.#owner = owner;
    this.#wall = wall;
    this.#startedMs = scheduler.nowMs;
    const now = () => this.wallMs();
    this.Date = class extends Date {
      constructor(...args: ConstructorParameters<DateConstructor> | []) {
        if (args.length === 0) super(now());
        else super(...args);
      }
      static override now = now;
    } as DateConstructor;
  }

  wallMs(): number {
    return Math.floor(EPOCH_MS + this.#scheduler.nowMs + this.#wall.offsetMs);
  }

  /** Ms since the process started. */
  runningMs(): number {
    return this.#scheduler.nowMs - this.#startedMs - this.stoodStillMs;
  }

  readonly setTimeout = (callback: Callback, ms = 0, ...args: unknown[]): SimulatedTimer =>
    this.#timer(callback, ms, args, false);

  readonly setInterval = (callback: Callback, ms = 0, ...args: unknown[]): SimulatedTimer =>
    this.#timer(callback, ms, args, true);

  readonly clear = (timer: SimulatedTimer | undefined | null): void => void timer?.close();

  readonly setImmediate = (callback: Callback, ...args: unknown[]): SimulatedTimer => {
    const event = this.#scheduler.after(0, this.#owner, () => callback(...args));
    return new SimulatedTimer(
      () => (event.isCancelled = true),
      () => undefined,
    );
  };

  readonly delay = <T>(
    ms: number,
    value?: T,
    { signal }: { signal?: AbortSignal } = {},
  ): Promise<T | undefined> =>
    new Promise((resolve, reject) => {
      if (signal?.aborted) return reject(abortError(signal));
      const onAbort = () => {
        this.clear(timer);
        if (signal) reject(abortError(signal));
      };
      const timer = this.setTimeout(() => {
        signal?.removeEventListener('abort', onAbort);
        resolve(value);
      }, ms);
      signal?.addEventListener('abort', onAbort, { once: true });
    });

  readonly immediately = (): Promise<void> =>
    new Promise((resolve) => void this.setImmediate(() => resolve()));

  #timer(callback: Callback, ms: number, args: unknown[], repeats: boolean): SimulatedTimer {
    const everyMs = ms >= 1 && ms <= 2 ** 31 - 1 ? Math.floor(ms) : 1;
    let event: Event | undefined;
    let dueMs = 0;
    const fire = (): void => {
      // The clock stood still: what is left of the time begins now.
      const leftMs = dueMs - this.runningMs();
      if (leftMs > 1e-6) {
        event = this.#scheduler.after(leftMs, this.#owner, fire);
        return;
      }
      if (repeats) start();
      else this.pending.delete(timer);
      callback(...args);
    };
    const start = () => {
      if (event) event.isCancelled = true;
      dueMs = this.runningMs() + everyMs;
      this.pending.add(timer);
      event = this.#scheduler.after(everyMs, this.#owner, fire);
    };
    const timer = new SimulatedTimer(() => {
      if (event) event.isCancelled = true;
      this.pending.delete(timer);
    }, start);
    start();
    return timer;
  }
}

function abortError(signal: AbortSignal): Error {
  return Object.assign(new Error('The operation was aborted', { cause: signal.reason }), {
    name: 'AbortError',
    code: 'ABORT_ERR',
  });
}

/** `AbortSignal` whose `timeout` follows the clock, and whose `any` does not depend on when garbage is collected. */
export function abortSignals(clock: ProcessClock) {
  return {
    abort: (reason?: unknown) => AbortSignal.abort(reason),
    timeout(ms: number): AbortSignal {
      const stop = new AbortController();
      const late = () =>
        stop.abort(new DOMException('The operation was aborted due to timeout', 'TimeoutError'));
      clock.setTimeout(late, ms).unref();
      return stop.signal;
    },
    any(signals: readonly AbortSignal[]): AbortSignal {
      const stop = new AbortController();
      const aborted = signals.find((signal) => signal.aborted);
      if (aborted) stop.abort(aborted.reason);
      // Without the option `signal`, whose listeners Node keeps for longer than they are needed.
      else
        for (const signal of signals)
          signal.addEventListener('abort', () => stop.abort(signal.reason), { once: true });
      return stop.signal;
    },
  };
}
