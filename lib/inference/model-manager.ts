/**
 * Keeps the runner that serves a job's model and replaces it for new versions, and beside it that of a canary while there is
 * one. Running requests keep the runner they started with, which closes after the last of them. A version that does not load
 * is reported while the old one keeps serving. At most two versions are open, because memory and /tmp have no room for a third.
 *
 * On Lambda nothing goes on after an answer, so what is due is awaited there, within a share of the invocation's time.
 */
import type { Canary, CanaryShare, Runner } from '../contract/values.ts';
import { isOfCanary } from './canary-share.ts';
import { asModelError, LoadStopped, withinTime } from './load-time.ts';
import type { ManagerOptions, RunnerSource } from './manager-options.ts';
import { LeavingRunners, OpenRunner } from './open-runner.ts';

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
  #canary: OpenRunner<R> | undefined;
  /** The share of a canary, whether or not it is open. */
  #share: CanaryShare | undefined;
  /** A canary that did not open, until it is due again. */
  #refused: string | undefined;
  readonly #leaving = new LeavingRunners<R>();
  #opening: Promise<OpenRunner<R>> | undefined;
  #refreshing: Promise<void> | undefined;
  #closing: Promise<void> | undefined;
  #dueAt = Number.NEGATIVE_INFINITY;
  #reportAt = Number.NEGATIVE_INFINITY;

  constructor(source: RunnerSource<R>, options: ManagerOptions) {
    this.#source = source;
    this.#options = options;
  }

  /** The version that serves, once one does. */
  get version(): string | undefined {
    return this.#current?.version;
  }

  /** Undefined while there is none. */
  get canary(): Canary | undefined {
    const share = this.#share;
    if (!share) return undefined;
    return {
      takes: (key) => isOfCanary(key, share),
      model: {
        version: share.version,
        use: (work) =>
          this.#use(work, () => (this.#canary?.version === share.version ? this.#canary : undefined)),
      },
    };
  }

  /** Opens the model before the first request. @throws model_unavailable, timeout; the next call tries again */
  async ready(): Promise<void> {
    if (!this.#current) await this.#openFirst();
  }

  /**
   * Calls `work` with the serving runner, which stays open until `work` is done.
   * @throws model_unavailable or timeout when none has loaded yet, and the errors of `work`
   */
  use<T>(work: (runner: R) => Promise<T>): Promise<T> {
    return this.#use(work);
  }

  /** @param preferred the runner to use where there is one. Default: the serving one */
  #use<T>(work: (runner: R) => Promise<T>, preferred?: () => OpenRunner<R> | undefined): Promise<T> {
    const refreshing = this.#refreshWhenDue();
    const opened = refreshing ? undefined : (preferred?.() ?? this.#current);
    if (!opened) return this.#useLater(work, refreshing, preferred);
    return this.#run(opened, work);
  }

  async #useLater<T>(
    work: (runner: R) => Promise<T>,
    refreshing?: Promise<void>,
    preferred?: () => OpenRunner<R> | undefined,
  ): Promise<T> {
    await refreshing;
    // It has no room beside the version that this call is to have.
    if (this.#closing) await this.#closing.then(() => this.#hasRoom());
    let opened = preferred?.() ?? this.#current ?? (await this.#first());
    // A swap may close it before this line runs; from here to the use nothing can.
    while (opened.isClosed) opened = this.#current ?? (await this.#first());
    return this.#run(opened, work);
  }

  /** While there is a canary, the answers of both sides are counted. */
  #run<T>(opened: OpenRunner<R>, work: (runner: R) => Promise<T>): Promise<T> {
    const { canaries } = this.#options;
    return opened.use(work, this.#share && canaries?.counted(opened.runner, this.#share));
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

  close(): Promise<void> {
    this.#closing ??= this.#close().finally(() => {
      this.#closing = undefined;
    });
    return this.#closing;
  }

  async #close(): Promise<void> {
    await this.#refreshing;
    await this.#opening?.catch(() => undefined);
    this.#leaving.add(this.#current);
    this.#leaving.add(this.#canary);
    this.#current = undefined;
    this.#canary = undefined;
  }

  /** @returns what a call has to wait for: undefined when nothing is due, or when it goes on in the background */
  #refreshWhenDue(): Promise<void> | undefined {
    if (!this.#current) return undefined;
    const isAwaited = this.#options.leftMs !== undefined;
    if (isAwaited && this.#refreshing) return this.#refreshing;
    const waitMs = this.#dueAt - this.#options.now();
    // A clock that was set back makes it due.
    if (waitMs > 0 && waitMs <= this.#options.refreshMs && !this.#lacksCanary) return undefined;
    const refreshing = this.refresh();
    return isAwaited ? refreshing : undefined;
  }

  /** True in an environment that has opened the serving version only. */
  get #lacksCanary(): boolean {
    return this.#share !== undefined && !this.#canary && this.#refused !== this.#share.version;
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
        this.#share = this.#source.canary;
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
        return this.#opened(await this.#source.open(version, signal && { signal, mayOpen: () => true }));
      });
    } catch (error) {
      throw asModelError(error);
    }
  }

  async #refresh(): Promise<void> {
    const { leftMs } = this.#options;
    // The next call after it is closed looks again.
    if (!(await this.#hasRoom())) return;
    const wasDueAt = this.#dueAt;
    this.#dueAt = this.#nextCheck();
    let isChecked = false;
    try {
      const version = await withinTime(leftMs && Math.min(CHECK_MS, leftMs() * LOAD_SHARE), (signal) =>
        this.#source.version(signal),
      );
      isChecked = true;
      if (!(await this.#arrange(version, this.#source.canary))) this.#dueAt = wasDueAt;
    } catch (error) {
      const isUnderWay = error instanceof LoadStopped && error.progressed;
      if (leftMs && (!isChecked || isUnderWay)) this.#dueAt = wasDueAt;
      if (!isUnderWay) this.#report(error);
    }
  }

  /**
   * Closes, swaps and opens what a pointer asks for.
   * @returns false where a runner that was replaced still runs, and nothing may be opened beside it
   */
  async #arrange(version: string, share: CanaryShare | undefined): Promise<boolean> {
    this.#share = share;
    this.#refused = undefined;
    const old = this.#current;
    if (this.#canary && this.#canary.version === version && old?.version !== version) {
      this.#serve(this.#canary);
      this.#canary = undefined;
      this.#leaving.add(old);
    }
    // Also where it stays and another version serves: a third has no room.
    if (this.#canary && (this.#canary.version !== share?.version || version !== this.version)) {
      this.#leaving.add(this.#canary);
      this.#canary = undefined;
    }
    if (version !== this.version) {
      if (!(await this.#hasRoom())) return false;
      await this.#load(version);
    }
    if (!share || this.#canary) return true;
    if (!(await this.#hasRoom())) return false;
    await this.#loadCanary(share);
    return true;
  }

  async #hasRoom(): Promise<boolean> {
    const { leftMs } = this.#options;
    if (leftMs) await this.#leaving.closed(leftMs() * LOAD_SHARE);
    return !this.#leaving.hasAny;
  }

  #serve(opened: OpenRunner<R>): void {
    this.#current = opened;
    this.#options.onChange?.(opened.version);
  }

  async #load(version: string): Promise<void> {
    const { leftMs } = this.#options;
    const old = this.#current;
    this.#serve(await this.#openWithin(version));
    this.#leaving.add(old);
    if (leftMs) await this.#leaving.closed(leftMs() * LOAD_SHARE);
  }

  /** While it is not open, its share is answered by the serving version, which each answer names. */
  async #loadCanary(share: CanaryShare): Promise<void> {
    const { canaries } = this.#options;
    try {
      await canaries?.opening(share);
      this.#canary = await this.#openWithin(share.version);
      canaries?.opened(share);
    } catch (error) {
      if (!(error instanceof LoadStopped && error.progressed)) {
        this.#refused = share.version;
        canaries?.opened(share, asModelError(error));
      }
      throw error;
    }
  }

  /** Opens a version within the share of the time that a request leaves for it. */
  #openWithin(version: string): Promise<OpenRunner<R>> {
    const { leftMs, now } = this.#options;
    const limitMs = leftMs && leftMs() * LOAD_SHARE;
    const startedAt = now();
    const mayOpen = () => now() - startedAt <= (limitMs ?? 0) / 2;
    return withinTime(limitMs, async (signal) =>
      this.#opened(await this.#source.open(version, signal && { signal, mayOpen })),
    );
  }

  #opened(runner: R): OpenRunner<R> {
    return new OpenRunner(runner, (error) => this.#options.onError(asModelError(error)));
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
}
