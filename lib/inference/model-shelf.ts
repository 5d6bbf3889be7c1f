/**
 * Keeps models that are opened when they are first used: each once at a time, within a budget of memory. For one that finds no
 * room, those that were not used for the longest time are closed, but never one in use. One that does not open is not tried
 * again for a while, so that it costs its own callers and nobody else.
 */
import { modelUnavailable, ServingError } from '../contract/errors.ts';
import { leave } from '../contract/under-way.ts';
import type { Canary, Model, Runner } from '../contract/values.ts';
import { tooLarge } from '../pipeline/named-models.ts';
import { LoadStopped, waitWithin } from './load-time.ts';
import type { ModelManager } from './model-manager.ts';

/** How long an opening waits for models in use. */
const ROOM_MS = 10_000;
/** The pause after a model did not open, which doubles with each attempt up to the longest. */
const FIRST_PAUSE_MS = 5_000;
const LONGEST_PAUSE_MS = 60_000;

/**
 * Makes room for so many bytes.
 * @param replaces true for the version that is to serve: where only the one before is in its way, that one is closed first
 * @returns what gives the bytes back
 * @throws model_unavailable, LoadStopped
 */
export type MakeRoom = (
  bytes: number,
  signal: AbortSignal | undefined,
  replaces: boolean,
) => Promise<() => void>;

export interface ShelfOptions<R extends Runner> {
  readonly budgetBytes: number;
  /** Names of models that stay open. */
  readonly pinned: readonly string[];
  /** @returns the model of a name, which is opened later and asks for room then */
  readonly manager: (name: string, makeRoom: MakeRoom) => ModelManager<R>;
  /** A clock in ms. */
  readonly now: () => number;
}

interface Failure {
  readonly error: ServingError;
  readonly untilMs: number;
  readonly pauseMs: number;
}

interface Entry<R extends Runner> {
  readonly name: string;
  readonly manager: ModelManager<R>;
  /** Uses that have begun and not ended. */
  users: number;
  /** Its last use, in the order of all. */
  usedAt: number;
  /** Memory of its open versions. */
  bytes: number;
  /** Set until all of it is given back. */
  closing: Promise<void> | undefined;
  failure: Failure | undefined;
}

export class ModelShelf<R extends Runner = Runner> {
  readonly #options: ShelfOptions<R>;
  readonly #entries = new Map<string, Entry<R>>();
  #uses = 0;
  /** Rooms are made one after the other, so that a large model is not kept waiting by small ones. */
  #turn: Promise<unknown> = Promise.resolve();
  /** Resolves when a use has ended, or memory was given back. */
  #change = Promise.withResolvers<void>();

  constructor(options: ShelfOptions<R>) {
    this.#options = options;
  }

  /** Memory of all open models, in bytes. */
  get bytes(): number {
    return this.#sum(() => true);
  }

  /** The model of a name, which has to be one that exists. Opens nothing. */
  model(name: string): Model {
    const entryOf = () => this.#entries.get(name);
    const use: Model['use'] = (work) => this.#use(name, ({ manager }) => manager.use(work));
    const canaryOf = (canary: Canary): Canary => {
      const useCanary: Model['use'] = (work) => this.#use(name, () => canary.model.use(work));
      return { takes: canary.takes, model: { version: canary.model.version, use: useCanary } };
    };
    return {
      use,
      get version() {
        return entryOf()?.manager.version;
      },
      get canary() {
        const canary = entryOf()?.manager.canary;
        return canary && canaryOf(canary);
      },
    };
  }

  /** True for a model that is open, or being opened. */
  holds(name: string): boolean {
    return (this.#entries.get(name)?.bytes ?? 0) > 0;
  }

  /** Why a model did not open, until it is tried again. */
  failureOf(name: string): ServingError | undefined {
    const failure = this.#entries.get(name)?.failure;
    return failure && this.#isOver(failure) ? undefined : failure?.error;
  }

  /** Closes models that exist no more, once nobody uses them. */
  keep(names: ReadonlySet<string>): void {
    for (const entry of this.#entries.values()) {
      if (names.has(entry.name) || entry.users > 0) continue;
      leave(this.#forget(entry));
    }
  }

  /** Resolves when nothing is open. */
  async close(): Promise<void> {
    await Promise.all(Array.from(this.#entries.values(), (entry) => this.#close(entry)));
  }

  async #use<T>(name: string, work: (entry: Entry<R>) => Promise<T>): Promise<T> {
    const entry = this.#entryOf(name);
    const { failure } = entry;
    if (failure && !this.#isOver(failure)) throw failure.error;
    entry.users++;
    entry.usedAt = ++this.#uses;
    try {
      if (entry.closing) await entry.closing;
      if (entry.manager.version === undefined) await this.#open(entry);
      return await work(entry);
    } finally {
      entry.users--;
      this.#changed();
    }
  }

  /** Callers that come meanwhile share the opening. */
  async #open(entry: Entry<R>): Promise<void> {
    try {
      await entry.manager.ready();
      entry.failure = undefined;
    } catch (error) {
      // The time was over, or others were in the way: it may well open.
      if (error instanceof LoadStopped) throw error;
      throw this.#remember(entry, ServingError.from(error));
    }
  }

  /** @returns the error, once for all who waited for the same opening */
  #remember(entry: Entry<R>, error: ServingError): ServingError {
    const { failure } = entry;
    if (failure?.error === error) return error;
    const pauseMs = failure ? Math.min(LONGEST_PAUSE_MS, 2 * failure.pauseMs) : FIRST_PAUSE_MS;
    entry.failure = { error, pauseMs, untilMs: this.#options.now() + pauseMs };
    return error;
  }

  #isOver({ untilMs, pauseMs }: Failure): boolean {
    const leftMs = untilMs - this.#options.now();
    // A clock that was set back ends the pause.
    return leftMs <= 0 || leftMs > pauseMs;
  }

  #entryOf(name: string): Entry<R> {
    const known = this.#entries.get(name);
    if (known) return known;
    const makeRoom: MakeRoom = (...room) => this.#makeRoom(entry, ...room);
    const entry: Entry<R> = {
      name,
      manager: this.#options.manager(name, makeRoom),
      users: 0,
      usedAt: 0,
      bytes: 0,
      closing: undefined,
      failure: undefined,
    };
    this.#entries.set(name, entry);
    return entry;
  }

  #makeRoom(entry: Entry<R>, ...room: Parameters<MakeRoom>): Promise<() => void> {
    const { budgetBytes } = this.#options;
    const [bytes] = room;
    if (bytes > budgetBytes) throw modelUnavailable(tooLarge(entry.name, bytes, budgetBytes));
    const turn = this.#turn.then(() => this.#take(entry, ...room));
    this.#turn = turn.catch(() => undefined);
    return turn;
  }

  async #take(entry: Entry<R>, ...[bytes, signal, replaces]: Parameters<MakeRoom>): Promise<() => void> {
    const { budgetBytes } = this.#options;
    const late = AbortSignal.timeout(ROOM_MS);
    while (this.bytes + bytes > budgetBytes) {
      signal?.throwIfAborted();
      // Its own version would be closed only after this one.
      const missing = entry.closing ? bytes : this.#closeUntil(entry, bytes);
      if (missing > 0 || late.aborted) throw this.#noRoom(entry, replaces ? missing : Infinity);
      await waitWithin(signal ? AbortSignal.any([signal, late]) : late, this.#change.promise).catch(
        () => undefined,
      );
    }
    entry.bytes += bytes;
    return () => {
      entry.bytes -= bytes;
      bytes = 0;
      this.#changed();
    };
  }

  /** Where the version before is all that is in the way, it ends with its last user, and the next one opens what replaces it. */
  #noRoom(entry: Entry<R>, missing: number): LoadStopped {
    const progressed = entry.closing === undefined && missing > 0 && missing <= entry.bytes;
    if (progressed) leave(this.#close(entry));
    const why = progressed
      ? 'its new version opens after the one before has closed'
      : 'the open models need all of models.memoryMB';
    return new LoadStopped(`model ${entry.name}: ${why}`, { progressed });
  }

  /**
   * Closes as many as are needed, the least recently used first.
   * @returns the bytes that will be missing, however long one waits
   */
  #closeUntil(entry: Entry<R>, bytes: number): number {
    const { budgetBytes, pinned } = this.#options;
    let over = this.#sum(({ closing }) => !closing) + bytes - budgetBytes;
    const others = [...this.#entries.values()]
      .filter((one) => one !== entry && one.bytes > 0 && !one.closing && !pinned.includes(one.name))
      .sort((a, b) => a.usedAt - b.usedAt);
    const idle = others.filter(({ users }) => users === 0);
    for (const one of idle) {
      if (over <= 0) break;
      over -= one.bytes;
      leave(this.#close(one));
    }
    return others.length > idle.length ? 0 : Math.max(0, over);
  }

  async #forget(entry: Entry<R>): Promise<void> {
    await this.#close(entry);
    if (entry.users === 0) this.#entries.delete(entry.name);
  }

  #close(entry: Entry<R>): Promise<void> {
    entry.closing ??= this.#closed(entry).finally(() => {
      entry.closing = undefined;
      this.#changed();
    });
    return entry.closing;
  }

  async #closed(entry: Entry<R>): Promise<void> {
    await entry.manager.close();
    while (entry.bytes > 0) await this.#change.promise;
  }

  #sum(isMeant: (entry: Entry<R>) => boolean): number {
    let bytes = 0;
    for (const entry of this.#entries.values()) if (isMeant(entry)) bytes += entry.bytes;
    return bytes;
  }

  #changed(): void {
    const { resolve } = this.#change;
    this.#change = Promise.withResolvers();
    resolve();
  }
}
