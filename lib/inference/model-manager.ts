/**
 * Keeps the runner that serves a job's model and replaces it for new versions. Running requests keep the runner they
 * started with, which closes after the last of them. A version that does not load is reported while the old one keeps
 * serving. At most two versions are open, because memory and /tmp have no room for a third.
 *
 * On Lambda nothing goes on after an answer, so what is due is awaited there, within a share of the invocation's time.
 */
import { modelUnavailable, ServingError } from '../contract/errors.ts';
import type { Runner } from '../contract/values.ts';
import { LoadStopped, type LoadTime, waitWithin, withinTime } from './load-time.ts';

interface RunnerSource<R extends Runner> {
  /** Returns the version that should serve. Cheap. */
  version(signal?: AbortSignal): Promise<string>;
  /**
   * Downloads, verifies, opens and warms up a version. Expensive.
   * @param time ends the download. Default: it may take as long as it takes
   * @throws LoadStopped at the end of its time
   */
  open(version: string, time?: LoadTime): Promise<R>;
}

export interface ManagerOptions {
  /** How long the result of `version` is used, in ms. */
  readonly refreshMs: number;
  readonly now: () => number;
  /** Called when a version did not load, once per attempt. */
  readonly onError: (error: ServingError) => void;
  /** Called with each version from when it serves. */
  readonly onChange?: ((version: string) => void) | undefined;
  /**
   * The time that the running invocation has left, in ms: checks and loads are awaited, and stop within it. Undefined:
   * they go on in the background.
   */
  readonly leftMs?: (() => number) | undefined;
  /** From 0 to below 1. With `leftMs`, it spreads the checks of environments that started together. Default: 0. */
  readonly random?: (() => number) | undefined;
}

interface OpenRunner<R> {
  readonly runner: R;
  users: number;
  retired: boolean;
  closed: boolean;
}

/** S3 answers within a tenth of a second. */
const CHECK_MS = 300;
/** The part of the time left that the load of a new version may take; the rest is for the request. */
const LOAD_SHARE = 0.5;
/** Reserved at the first opening: answering that it failed takes half of this. */
const RESERVE_MS = 1_000;
/** Part of the interval by which a check may come early. */
const SPREAD = 0.5;

export class ModelManager<R extends Runner = Runner> {
  readonly #source: RunnerSource<R>;
  readonly #options: ManagerOptions;
  #current: OpenRunner<R> | undefined;
  /** The previous runner, while it is not closed. */
  #leaving: OpenRunner<R> | undefined;
  #closing: Promise<void> | undefined;
  #opening: Promise<OpenRunner<R>> | undefined;
  #refreshing: Promise<void> | undefined;
  #dueAt = Number.NEGATIVE_INFINITY;
  #reportAt = Number.NEGATIVE_INFINITY;

  constructor(source: RunnerSource<R>, options: ManagerOptions) {
    this.#source = source;
    this.#options = options;
  }

  /** The version that serves, once one does. */
  get version(): string | undefined {
    return this.#current?.runner.version;
  }

  /** Opens the model before the first request. @throws model_unavailable, timeout; the next call tries again */
  async ready(): Promise<void> {
    if (!this.#current) await this.#openFirst();
  }

  /**
   * Calls `work` with the serving runner, which stays open until `work` is done.
   * @throws model_unavailable or timeout when none has loaded yet, and the errors of `work`
   */
  async use<T>(work: (runner: R) => Promise<T>): Promise<T> {
    const refreshing = this.#refreshWhenDue();
    if (refreshing) await refreshing;
    let opened = this.#current ?? (await this.#first());
    // A swap may close it before this line runs; from here to `users++` nothing can.
    while (opened.closed) opened = this.#current ?? (await this.#first());
    opened.users++;
    try {
      return await work(opened.runner);
    } finally {
      opened.users--;
      this.#closeWhenIdle(opened);
    }
  }

  /**
   * Looks for a new version now. Resolves when it serves or the old one stays, as it does while the version before is
   * still running. Never throws.
   */
  refresh(): Promise<void> {
    // The first opening reads the version itself; of two parallel openings one would stay open forever.
    if (!this.#current)
      return this.#openFirst().then(
        () => undefined,
        (error: unknown) => this.#options.onError(asModelError(error)),
      );
    this.#refreshing ??= this.#refresh().finally(() => {
      this.#refreshing = undefined;
    });
    return this.#refreshing;
  }

  async close(): Promise<void> {
    await this.#refreshing;
    await this.#opening?.catch(() => undefined);
    if (this.#current) this.#retire(this.#current);
    this.#current = undefined;
  }

  /** @returns what a call has to wait for: undefined when nothing is due, or when it goes on in the background */
  #refreshWhenDue(): Promise<void> | undefined {
    if (!this.#current) return undefined;
    const isAwaited = this.#options.leftMs !== undefined;
    if (isAwaited && this.#refreshing) return this.#refreshing;
    const waitMs = this.#dueAt - this.#options.now();
    // A clock that was set back makes it due.
    if (waitMs > 0 && waitMs <= this.#options.refreshMs) return undefined;
    const refreshing = this.refresh();
    return isAwaited ? refreshing : undefined;
  }

  /** An opening of an earlier invocation, INIT for one, had less time than this one has. */
  async #first(): Promise<OpenRunner<R>> {
    const isEarlier = this.#opening !== undefined;
    return this.#openFirst().catch((error: unknown) => {
      if (isEarlier && error instanceof LoadStopped) return this.#openFirst();
      throw error;
    });
  }

  /** All first requests share one opening. After a failure the next request tries again. */
  #openFirst(): Promise<OpenRunner<R>> {
    this.#opening ??= this.#open()
      .then((opened) => {
        this.#serve(opened);
        return opened;
      })
      .finally(() => {
        this.#opening = undefined;
      });
    return this.#opening;
  }

  async #open(): Promise<OpenRunner<R>> {
    this.#dueAt = this.#nextCheck();
    const { leftMs } = this.#options;
    try {
      return await withinTime(leftMs && leftMs() - RESERVE_MS, async (signal) => {
        const version = await this.#source.version(signal);
        return openRunner(await this.#source.open(version, signal && { signal, mayOpen: () => true }));
      });
    } catch (error) {
      throw asModelError(error);
    }
  }

  async #refresh(): Promise<void> {
    const { leftMs } = this.#options;
    if (this.#closing && leftMs) await this.#closed(leftMs());
    // The next call after it is closed looks again.
    if (this.#leaving) return;
    const wasDueAt = this.#dueAt;
    this.#dueAt = this.#nextCheck();
    let isChecked = false;
    try {
      const version = await withinTime(leftMs && Math.min(CHECK_MS, leftMs() * LOAD_SHARE), (signal) =>
        this.#source.version(signal),
      );
      isChecked = true;
      if (version !== this.version) await this.#load(version);
    } catch (error) {
      const isUnderWay = error instanceof LoadStopped && error.progressed;
      if (leftMs && (!isChecked || isUnderWay)) this.#dueAt = wasDueAt;
      if (!isUnderWay) this.#report(error);
    }
  }

  #serve(opened: OpenRunner<R>): void {
    this.#current = opened;
    this.#options.onChange?.(opened.runner.version);
  }

  async #load(version: string): Promise<void> {
    const { leftMs, now } = this.#options;
    const old = this.#current;
    const limitMs = leftMs && leftMs() * LOAD_SHARE;
    const startedAt = now();
    const mayOpen = () => now() - startedAt <= (limitMs ?? 0) / 2;
    const runner = await withinTime(limitMs, (signal) =>
      this.#source.open(version, signal && { signal, mayOpen }),
    );
    this.#serve(openRunner(runner));
    if (!old) return;
    this.#retire((this.#leaving = old));
    if (leftMs) await this.#closed(leftMs());
  }

  /** Waits for the end of the runner that was replaced, as long as there is time. Never throws. */
  async #closed(leftMs: number): Promise<void> {
    const closing = this.#closing;
    if (!closing) return;
    await withinTime(leftMs * LOAD_SHARE, (signal) => waitWithin(signal, closing)).catch(() => undefined);
  }

  #nextCheck(): number {
    const { now, refreshMs, leftMs, random = () => 0 } = this.#options;
    return now() + (leftMs ? refreshMs * (1 - SPREAD * random()) : refreshMs);
  }

  /** A check that stays due may fail in each request. */
  #report(error: unknown): void {
    const { now, refreshMs, onError, leftMs } = this.#options;
    if (leftMs && now() < this.#reportAt) return;
    this.#reportAt = now() + refreshMs * SPREAD;
    onError(asModelError(error));
  }

  #retire(opened: OpenRunner<R>): void {
    opened.retired = true;
    this.#closeWhenIdle(opened);
  }

  #closeWhenIdle(opened: OpenRunner<R>): void {
    if (!opened.retired || opened.closed || opened.users > 0) return;
    opened.closed = true;
    const closing = opened.runner
      .close()
      .catch((error: unknown) => this.#options.onError(asModelError(error)))
      .finally(() => {
        if (this.#leaving === opened) this.#leaving = undefined;
        if (this.#closing === closing) this.#closing = undefined;
      });
    this.#closing = closing;
  }
}

function openRunner<R>(runner: R): OpenRunner<R> {
  return { runner, users: 0, retired: false, closed: false };
}

function asModelError(error: unknown): ServingError {
  const known = ServingError.from(error);
  if (known.code !== 'internal') return known;
  return modelUnavailable(`the model cannot be loaded: ${known.message}`, { cause: error });
}
