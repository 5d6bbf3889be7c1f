/**
 * Keeps the runner that serves a job's model and replaces it for new versions. Running requests keep the runner they
 * started with, which closes after the last of them. A version that does not load is reported while the old one keeps
 * serving. At most two versions are open, because memory and /tmp have no room for a third.
 */
import { modelUnavailable, ServingError } from '../contract/errors.ts';
import type { Runner } from '../contract/values.ts';

interface RunnerSource<R extends Runner> {
  /** Returns the version that should serve. Cheap. */
  version(): Promise<string>;
  /** Downloads, verifies, opens and warms up a version. Expensive. */
  open(version: string): Promise<R>;
}

interface ManagerOptions {
  /** How long the result of `version` is used, in ms. */
  readonly refreshMs: number;
  readonly now: () => number;
  /** Called when a version did not load, once per attempt. */
  readonly onError: (error: ServingError) => void;
}

interface OpenRunner<R> {
  readonly runner: R;
  users: number;
  retired: boolean;
  closed: boolean;
}

export class ModelManager<R extends Runner = Runner> {
  readonly #source: RunnerSource<R>;
  readonly #options: ManagerOptions;
  #current: OpenRunner<R> | undefined;
  /** The previous runner, while it is not closed. */
  #leaving: OpenRunner<R> | undefined;
  #opening: Promise<OpenRunner<R>> | undefined;
  #refreshing: Promise<void> | undefined;
  #checkedAt = Number.NEGATIVE_INFINITY;

  constructor(source: RunnerSource<R>, options: ManagerOptions) {
    this.#source = source;
    this.#options = options;
  }

  /** The version that serves, once one does. */
  get version(): string | undefined {
    return this.#current?.runner.version;
  }

  /** Opens the model before the first request. @throws model_unavailable; the next call tries again */
  async ready(): Promise<void> {
    if (!this.#serving()) await this.#openFirst();
  }

  /**
   * Calls `work` with the serving runner, which stays open until `work` is done.
   * @throws model_unavailable when none has loaded yet, and whatever `work` throws
   */
  async use<T>(work: (runner: R) => Promise<T>): Promise<T> {
    let opened = this.#serving() ?? (await this.#openFirst());
    // A swap may close it before this line runs; from here to `users++` nothing can.
    while (opened.closed) opened = this.#serving() ?? (await this.#openFirst());
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

  /** Undefined before the first one is open. The current version serves while a new one is opened in the background. */
  #serving(): OpenRunner<R> | undefined {
    if (this.#current && this.#options.now() - this.#checkedAt >= this.#options.refreshMs)
      void this.refresh();
    return this.#current;
  }

  /** All first requests share one opening. After a failure the next request tries again. */
  #openFirst(): Promise<OpenRunner<R>> {
    this.#opening ??= this.#open()
      .then((opened) => {
        this.#current = opened;
        return opened;
      })
      .finally(() => {
        this.#opening = undefined;
      });
    return this.#opening;
  }

  async #open(): Promise<OpenRunner<R>> {
    this.#checkedAt = this.#options.now();
    try {
      const runner = await this.#source.open(await this.#source.version());
      return { runner, users: 0, retired: false, closed: false };
    } catch (error) {
      throw asModelError(error);
    }
  }

  async #refresh(): Promise<void> {
    // The next call after it is closed looks again.
    if (this.#leaving) return;
    this.#checkedAt = this.#options.now();
    try {
      const version = await this.#source.version();
      const old = this.#current;
      if (version === old?.runner.version) return;
      const runner = await this.#source.open(version);
      this.#current = { runner, users: 0, retired: false, closed: false };
      if (old) this.#retire((this.#leaving = old));
    } catch (error) {
      this.#options.onError(asModelError(error));
    }
  }

  #retire(opened: OpenRunner<R>): void {
    opened.retired = true;
    this.#closeWhenIdle(opened);
  }

  #closeWhenIdle(opened: OpenRunner<R>): void {
    if (!opened.retired || opened.closed || opened.users > 0) return;
    opened.closed = true;
    opened.runner
      .close()
      .catch((error: unknown) => this.#options.onError(asModelError(error)))
      .finally(() => {
        if (this.#leaving === opened) this.#leaving = undefined;
      });
  }
}

function asModelError(error: unknown): ServingError {
  const known = ServingError.from(error);
  if (known.code !== 'internal') return known;
  return modelUnavailable(`the model cannot be loaded: ${known.message}`, { cause: error });
}
