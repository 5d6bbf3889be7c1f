/**
 * Holds keys and values until they expire, and lists the commands that recreate the data. An expired key must be
 * logged as DEL; otherwise a replay would revive it.
 */
import { type Bytes, doubleText, ERRORS, ReplyError } from './replies.ts';
import { type ScoredMember, SortedSet } from './sorted-set.ts';
import { Stream } from './stream.ts';

type Value = Bytes | Map<Bytes, Bytes> | SortedSet | Set<Bytes> | Bytes[] | Stream;

interface Entry {
  value: Value;
  /** Grows with every new key; a SCAN continues from it. */
  readonly serial: number;
}

/** Set when a watched key changes. */
export interface Watch {
  readonly keys: Set<Bytes>;
  broken: boolean;
}

/** How many keys one step of the sweep checks. */
const SWEEP_KEYS = 5_000;
const DUMP_ELEMENTS = 500;
/** A SCAN that continues one of the last cursors resumes directly; older cursors walk from the start. */
const OPEN_SCANS = 16;

export function typeName(value: Value): string {
  if (typeof value === 'string') return 'string';
  if (value instanceof Map) return 'hash';
  if (value instanceof SortedSet) return 'zset';
  if (value instanceof Stream) return 'stream';
  return value instanceof Set ? 'set' : 'list';
}

function isEmpty(value: Value): boolean {
  if (typeof value === 'string' || value instanceof Stream) return false;
  return (Array.isArray(value) ? value.length : value.size) === 0;
}

export class Store {
  /** The time of the current command. One script or transaction sees one time. */
  nowMs = 0;
  /** True while the log is replayed, during which nothing expires. */
  loading = false;
  /** Counts changes: a command without changes is not logged. */
  changes = 0;
  /** The commands to log instead of the command itself (an absolute expiry, a computed value). */
  effects: Bytes[][] | undefined;
  onExpired: (key: Bytes) => void = () => {};

  readonly #entries = new Map<Bytes, Entry>();
  readonly #expiries = new Map<Bytes, number>();
  readonly #watches = new Map<Bytes, Set<Watch>>();
  #serial = 0;
  #scans = new Map<number, Iterator<[Bytes, Entry]>>();
  #sweep: Iterator<[Bytes, number]> = this.#expiries.entries();

  get size(): number {
    return this.#entries.size;
  }

  get expiring(): number {
    return this.#expiries.size;
  }

  get(key: Bytes): Value | undefined {
    this.#expire(key);
    return this.#entries.get(key)?.value;
  }

  readonly string = this.#typed((value): value is Bytes => typeof value === 'string');
  readonly hash = this.#typed((value): value is Map<Bytes, Bytes> => value instanceof Map);
  readonly sortedSet = this.#typed((value): value is SortedSet => value instanceof SortedSet);
  readonly set = this.#typed((value): value is Set<Bytes> => value instanceof Set);
  readonly stream = this.#typed((value): value is Stream => value instanceof Stream);
  readonly list = this.#typed((value): value is Bytes[] => Array.isArray(value));

  /** Stores a new or changed value and keeps the expiry. An empty value deletes its key. */
  put(key: Bytes, value: Value): void {
    if (isEmpty(value)) {
      this.delete(key);
      return;
    }
    const entry = this.#entries.get(key);
    if (entry === undefined) this.#entries.set(key, { value, serial: ++this.#serial });
    else entry.value = value;
    this.#changed(key);
  }

  delete(key: Bytes): boolean {
    this.#expiries.delete(key);
    if (!this.#entries.delete(key)) return false;
    this.#changed(key);
    return true;
  }

  clear(): void {
    for (const key of this.#entries.keys()) this.delete(key);
    this.changes += 1;
  }

  /** Undefined: the key does not expire. */
  expiryMs(key: Bytes): number | undefined {
    return this.#expiries.get(key);
  }

  setExpiry(key: Bytes, atMs: number | undefined): void {
    if (atMs === undefined) this.#expiries.delete(key);
    else this.#expiries.set(key, atMs);
    this.#changed(key);
  }

  /** All keys except expired ones. */
  *keys(): Generator<Bytes> {
    for (const key of this.#entries.keys()) if (this.get(key) !== undefined) yield key;
  }

  /** One step of a SCAN. Keys are in the order of their serials, so a key that exists throughout is found. */
  scan(cursor: number, count: number): { keys: Bytes[]; next: number } {
    let iterator = this.#scans.get(cursor);
    this.#scans.delete(cursor);
    const skipped = iterator === undefined;
    iterator ??= this.#entries.entries();
    const keys: Bytes[] = [];
    for (let step = iterator.next(); step.done !== true; step = iterator.next()) {
      const [key, entry] = step.value;
      if (skipped && entry.serial <= cursor) continue;
      if (this.get(key) !== undefined) keys.push(key);
      if (keys.length < count) continue;
      this.#scans.set(entry.serial, iterator);
      if (this.#scans.size > OPEN_SCANS) this.#scans.delete(this.#scans.keys().next().value ?? 0);
      return { keys, next: entry.serial };
    }
    return { keys, next: 0 };
  }

  /** Deletes some of the expired keys; repeated calls reach all of them. */
  sweep(): void {
    for (let looked = 0; looked < SWEEP_KEYS; looked += 1) {
      const step = this.#sweep.next();
      if (step.done === true) {
        this.#sweep = this.#expiries.entries();
        return;
      }
      this.#expire(step.value[0]);
    }
  }

  watch(key: Bytes, watch: Watch): void {
    watch.keys.add(key);
    const watches = this.#watches.get(key) ?? new Set();
    this.#watches.set(key, watches.add(watch));
  }

  unwatch(watch: Watch): void {
    for (const key of watch.keys) {
      const watches = this.#watches.get(key);
      watches?.delete(watch);
      if (watches?.size === 0) this.#watches.delete(key);
    }
  }

  /** The commands that recreate the data, in pieces of bounded size. */
  *dump(): Generator<Bytes[]> {
    for (const [key, { value }] of this.#entries) {
      if (typeof value === 'string') yield ['SET', key, value];
      else if (value instanceof Map) yield* pieces('HSET', key, [...value].flat(), 2 * DUMP_ELEMENTS);
      else if (value instanceof SortedSet) {
        const flat = value
          .slice(0, value.size)
          .flatMap(([member, score]: ScoredMember) => [doubleText(score), member]);
        yield* pieces('ZADD', key, flat, 2 * DUMP_ELEMENTS);
      } else if (value instanceof Set) yield* pieces('SADD', key, [...value], DUMP_ELEMENTS);
      else if (value instanceof Stream) {
        for (const [id, fields] of value.entries) yield ['XADD', key, id, ...fields];
        for (const [name, { firstId }] of value.groups)
          yield ['XGROUP', 'CREATE', key, name, firstId, 'MKSTREAM'];
      } else yield* pieces('RPUSH', key, value, DUMP_ELEMENTS);
      const atMs = this.#expiries.get(key);
      if (atMs !== undefined) yield ['PEXPIREAT', key, String(atMs)];
    }
  }

  /** Reads a key that must be missing or hold this type. */
  #typed<T extends Value>(is: (value: Value) => value is T): (key: Bytes) => T | undefined {
    return (key) => {
      const value = this.get(key);
      if (value === undefined || is(value)) return value;
      throw new ReplyError(ERRORS.type);
    };
  }

  #expire(key: Bytes): void {
    const atMs = this.#expiries.get(key);
    if (atMs === undefined || this.nowMs <= atMs || this.loading) return;
    this.delete(key);
    this.onExpired(key);
  }

  #changed(key: Bytes): void {
    this.changes += 1;
    for (const watch of this.#watches.get(key) ?? []) watch.broken = true;
  }
}

function* pieces(command: string, key: Bytes, items: readonly Bytes[], count: number): Generator<Bytes[]> {
  for (let at = 0; at < items.length; at += count) yield [command, key, ...items.slice(at, at + count)];
}
