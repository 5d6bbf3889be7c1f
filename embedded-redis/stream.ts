/**
 * The value of a stream: its entries, and for each group what was read and not acknowledged. What a group has read is not
 * kept over a restart: all entries that are still there are then read again.
 */
import { type Bytes, ReplyError } from './replies.ts';

/** The parts of `<ms>-<number>`. */
type Id = readonly [ms: number, number: number];

export type StreamEntry = readonly [id: Bytes, fields: readonly Bytes[]];

interface Delivered {
  consumer: Bytes;
  atMs: number;
}

export interface Group {
  /** Entries after this one were not read when the group was created. */
  readonly firstId: Bytes;
  lastId: Bytes;
  /** By the ids of entries. */
  readonly pending: Map<Bytes, Delivered>;
  /** When each was last heard of, in ms. */
  readonly consumers: Map<Bytes, number>;
}

/** A claim looks at up to this many pending entries for each that it may claim. */
const CLAIM_LOOKS = 10;

export class Stream {
  /** In the order of their ids, because ids only grow. */
  readonly entries = new Map<Bytes, readonly Bytes[]>();
  readonly groups = new Map<Bytes, Group>();
  lastId: Bytes = '0-0';

  /** @param wanted `*`, or an id above the last one. @returns the id of the new entry */
  add(wanted: Bytes, fields: readonly Bytes[], nowMs: number): Bytes {
    const [lastMs, last] = idOf(this.lastId);
    const ms = Math.max(nowMs, lastMs);
    const id = wanted === '*' ? `${ms}-${ms === lastMs ? last + 1 : 0}` : fullId(wanted);
    if (!isAfter(id, this.lastId)) {
      throw new ReplyError(
        'ERR The ID specified in XADD is equal or smaller than the target stream top item',
      );
    }
    this.entries.set(id, fields);
    this.lastId = id;
    return id;
  }

  /** Drops the oldest entries. @returns how many */
  trim(most: number): number {
    const surplus = [...this.entries.keys()].slice(0, Math.max(0, this.entries.size - most));
    for (const id of surplus) this.entries.delete(id);
    return surplus.length;
  }

  createGroup(name: Bytes, from: Bytes): void {
    if (this.groups.has(name)) throw new ReplyError('BUSYGROUP Consumer Group name already exists');
    const firstId = from === '$' ? this.lastId : fullId(from);
    this.groups.set(name, { firstId, lastId: firstId, pending: new Map(), consumers: new Map() });
  }

  /** Reads entries that no consumer of the group has had. */
  read(group: Group, consumer: Bytes, most: number, nowMs: number): StreamEntry[] {
    group.consumers.set(consumer, nowMs);
    const read: StreamEntry[] = [];
    for (const [id, fields] of this.entries) {
      if (read.length >= most) break;
      if (!isAfter(id, group.lastId)) continue;
      group.lastId = id;
      group.pending.set(id, { consumer, atMs: nowMs });
      read.push([id, fields]);
    }
    return read;
  }

  /**
   * Gives a consumer the pending entries from `from` on that were delivered at least `idleMs` ago. Entries that were deleted
   * from the stream are no longer pending then.
   */
  claim(group: Group, wanted: { consumer: Bytes; idleMs: number; from: Bytes; most: number }, nowMs: number) {
    const { consumer, idleMs, from, most } = wanted;
    group.consumers.set(consumer, nowMs);
    const claimed: StreamEntry[] = [];
    const deleted: Bytes[] = [];
    let looked = 0;
    for (const [id, delivered] of group.pending) {
      if (isAfter(from, id)) continue;
      if (looked >= most * CLAIM_LOOKS || claimed.length + deleted.length >= most)
        return { next: id, claimed, deleted };
      looked += 1;
      const fields = this.entries.get(id);
      if (fields === undefined) {
        group.pending.delete(id);
        deleted.push(id);
      } else if (nowMs - delivered.atMs >= idleMs) {
        delivered.consumer = consumer;
        delivered.atMs = nowMs;
        claimed.push([id, fields]);
      }
    }
    return { next: '0-0', claimed, deleted };
  }
}

/** A text with the milliseconds only has the number 0. @throws ReplyError */
function idOf(text: Bytes): Id {
  const [, ms, number = '0'] = /^(\d{1,15})(?:-(\d{1,15}))?$/.exec(text) ?? [];
  if (ms === undefined) throw new ReplyError('ERR Invalid stream ID specified as stream command argument');
  return [Number(ms), Number(number)];
}

/** The id with its number. @throws ReplyError */
export function fullId(text: Bytes): Bytes {
  return idOf(text).join('-');
}

/** @throws ReplyError for an invalid id, or one that cannot be that of an entry */
export function assertNewId(text: Bytes): void {
  if (idOf(text).every((part) => part === 0))
    throw new ReplyError('ERR The ID specified in XADD must be greater than 0-0');
}

/** The first id of a range: `-`, an id, or `(` and the id before it. @throws ReplyError */
export function startOf(text: Bytes = '-'): Bytes {
  if (text === '-') return '0-0';
  const [ms, number] = idOf(text.replace(/^\(/, ''));
  return `${ms}-${text.startsWith('(') ? number + 1 : number}`;
}

export function isAfter(one: Bytes, other: Bytes): boolean {
  const [[ms, number], [otherMs, otherNumber]] = [idOf(one), idOf(other)];
  return ms === otherMs ? number > otherNumber : ms > otherMs;
}
