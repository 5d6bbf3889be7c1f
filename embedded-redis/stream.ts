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

export class Stream {
  /** In the order of their ids, because ids only grow. */
  readonly entries = new Map<Bytes, readonly Bytes[]>();
  readonly groups = new Map<Bytes, Group>();
  lastId: Bytes = '0-0';

  /** @param wanted `*`, or an id above the last one. @returns the id of the new entry */
  add(wanted: Bytes, fields: readonly Bytes[], nowMs: number): Bytes {
    const [lastMs, last] = idOf(this.lastId);
    const ms = Math.max(nowMs, lastMs);
    const id = wanted === '*' ? `${ms}-${ms === lastMs ? last + 1 : 0}` : idOf(wanted).join('-');
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
    const firstId = from === '$' ? this.lastId : idOf(from).join('-');
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

  /** Gives a consumer the pending entries that were delivered at least `idleMs` ago. */
  claim(group: Group, consumer: Bytes, idleMs: number, most: number, nowMs: number): StreamEntry[] {
    group.consumers.set(consumer, nowMs);
    const claimed: StreamEntry[] = [];
    for (const [id, delivered] of group.pending) {
      if (claimed.length >= most) break;
      if (nowMs - delivered.atMs < idleMs) continue;
      const fields = this.entries.get(id);
      if (fields === undefined) {
        group.pending.delete(id);
        continue;
      }
      delivered.consumer = consumer;
      delivered.atMs = nowMs;
      claimed.push([id, fields]);
    }
    return claimed;
  }
}

/** A text with the milliseconds only has the number 0. @throws ReplyError */
function idOf(text: Bytes): Id {
  const [, ms, number = '0'] = /^(\d{1,15})(?:-(\d{1,15}))?$/.exec(text) ?? [];
  if (ms === undefined) throw new ReplyError('ERR Invalid stream ID specified as stream command argument');
  return [Number(ms), Number(number)];
}

export function isAfter(one: Bytes, other: Bytes): boolean {
  const [[ms, number], [otherMs, otherNumber]] = [idOf(one), idOf(other)];
  return ms === otherMs ? number > otherNumber : ms > otherMs;
}
