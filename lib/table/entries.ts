/** The entries of a job's uris: reads them, and takes them from one step to the next. */
import { createHash } from 'node:crypto';
import type { TableConnection } from './connection.ts';
import { changeOf, type Entry, type Fields, readEntry, SHORT, type StoredResult } from './entry.ts';
import { type Change, changeItem, type Item, readItem, readItems } from './items.ts';
import { SHARDS } from './shards.ts';

/** The outcome of a decision about an entry: an answer, and the next entry where something is to be written. */
export interface Step<T> {
  readonly answer: T;
  readonly entry?: Entry | undefined;
}

/** An item as it was read. Undefined: there is none. */
export interface ReadItem {
  readonly item: Item | undefined;
}

export class Entries {
  readonly #connection: TableConnection;
  readonly #job: string;

  constructor(connection: TableConnection, job: string) {
    this.#connection = connection;
    this.#job = job;
  }

  now(): number {
    return this.#connection.now();
  }

  /** With the values of its result. */
  async readWhole(uri: string): Promise<Entry> {
    return readEntry(await readItem(this.#connection, this.#id(uri)), this.now());
  }

  /** Without them. */
  async read(uri: string): Promise<Entry> {
    return readEntry(await readItem(this.#connection, this.#id(uri), { only: SHORT }), this.now());
  }

  /** Without the values of their results. */
  async readAll(uris: readonly string[]): Promise<ReadonlyMap<string, ReadItem>> {
    const ids = uris.map((uri) => this.#id(uri));
    const items = await readItems(this.#connection, ids, { only: SHORT });
    return new Map(uris.map((uri) => [uri, { item: items.get(this.#id(uri)) }]));
  }

  /**
   * Takes a step in one conditional write. `step` is called again when somebody else was faster.
   * @param before the item that was read just now; default: it is read
   * @returns its last answer, and the entry that was written, with the values of its result
   * @throws results_unavailable
   */
  async take<T>(
    uri: string,
    step: (entry: Entry) => Step<T>,
    before?: ReadItem,
  ): Promise<{ readonly answer: T; readonly written: Entry | undefined }> {
    const decide = (item: Item | undefined) => {
      const entry = readEntry(item, this.now());
      const { answer, entry: next } = step(entry);
      return { answer, change: next && changeOf(entry, next, this.#listOf(uri)) };
    };
    const options = {
      only: SHORT,
      ...(before ? { before } : {}),
      beforeWrite: (item: Item | undefined, change: Change) => this.#keepLeased(uri, item, change),
    };
    const { answer, written } = await changeItem(this.#connection, this.#id(uri), decide, options);
    return { answer, written: written && readEntry(written, this.now()) };
  }

  /** A result that was leased, and has made room for a later one since. */
  async readKept(uri: string, leaseId: string): Promise<StoredResult | undefined> {
    const item = await readItem(this.#connection, this.#keptId(uri, leaseId));
    return readEntry(item, this.now()).result;
  }

  async dropKept(uri: string, leaseId: string): Promise<void> {
    await changeItem(this.#connection, this.#keptId(uri, leaseId), (item) => {
      const kept = readEntry(item, this.now());
      const change = kept.result && changeOf(kept, { ...kept, result: undefined }, this.#listOf(uri));
      return { answer: 0, change };
    });
  }

  /** The lists of the index, among which the uris are divided. Each page of `dequeue` reads all of them. */
  get lists(): string[] {
    return Array.from({ length: SHARDS }, (_, i) => `${this.#job}/${i}`);
  }

  uriOf(id: string): string {
    return id.slice(this.#id('').length);
  }

  /**
   * Copies a result whose lease goes on before another takes its place, so that a client whose answer got lost finds it.
   * @returns false when the item is another one by now
   */
  async #keepLeased(uri: string, item: Item | undefined, { set, remove }: Change): Promise<boolean> {
    const { result } = readEntry(item, this.now());
    if (!result?.lease || !('status' in set || remove.includes('status'))) return true;
    const whole = await readItem(this.#connection, this.#id(uri));
    const held = readEntry(whole, this.now()).result;
    if (held?.lease?.id !== result.lease.id) return false;
    const kept = { result: held, state: undefined, newest: undefined };
    const change = changeOf({ ...kept, result: undefined }, kept, this.#listOf(uri));
    const id = this.#keptId(uri, result.lease.id);
    await changeItem(this.#connection, id, (there) => ({ answer: 0, change: there ? undefined : change }));
    return true;
  }

  #id(uri: string): string {
    return `${this.#job}/u/${uri}`;
  }

  #keptId(uri: string, leaseId: string): string {
    return `${this.#job}/h/${leaseId}/${uri}`;
  }

  #listOf(uri: string): string {
    const [byte = 0] = createHash('sha256').update(uri).digest();
    return `${this.#job}/${byte % SHARDS}`;
  }
}

/** Fields of a result for lib/results/fields.ts; empty where there is none. */
export function fieldsOf(result: StoredResult | undefined): Fields {
  return result?.fields ?? {};
}
