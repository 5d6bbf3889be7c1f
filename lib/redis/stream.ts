/**
 * Reads a Redis stream as one consumer of a consumer group: the queue of the original Cluster Serving, into which its
 * clients still write. An entry that was read stays pending until it is removed, so that another consumer can claim it
 * when this one dies.
 */

import { asError } from '../contract/errors.ts';
import { elementAt } from '../contract/present.ts';
import type { RedisConnection } from './connection.ts';
import { HOLD_STREAM, RELEASE_STREAM } from './scripts/generated.ts';
import { script } from './scripts.ts';

/** Fields as they were written: a client may have written anything. */
export interface StreamEntry {
  /** `<ms>-<number>`, unique in its stream. */
  readonly id: string;
  readonly fields: ReadonlyMap<string, Buffer>;
}

/** An entry that cannot be used, and why. */
export interface DeadEntry {
  readonly entry: StreamEntry;
  readonly reason: string;
}

interface StreamOptions {
  readonly stream: string;
  readonly group: string;
  /** Unique among the running consumers of the group. */
  readonly consumer: string;
}

interface GroupFacts {
  readonly name: string;
  readonly consumers: number;
  readonly pending: number;
  readonly lastId: string;
}

/** The list keeps its newest entries. */
const DEAD_ENTRIES = 1_000;
/** The listed part of an entry, whose fields may have any size, so the list takes at most 64 MiB. */
const DEAD_BYTES = 64 * 1024;
/** The cursor of the first and after the last claim. */
export const FIRST = '0-0';

const holdStream = script<string>('holdStream', HOLD_STREAM);
const releaseStream = script<unknown>('releaseStream', RELEASE_STREAM);

export class StreamConsumer {
  readonly #connection: RedisConnection;
  readonly #options: StreamOptions;
  /** Redis's id of the connection whose `read` waits. */
  #waiting: Promise<number | undefined> | undefined;

  /** @param connection of its own when `read` blocks, with a command timeout above the time that it blocks */
  constructor(connection: RedisConnection, options: StreamOptions) {
    this.#connection = connection;
    this.#options = options;
  }

  /**
   * Creates stream and group where they are missing.
   * @param firstId entries after this one are read
   */
  async createGroup(firstId: string): Promise<void> {
    const { stream, group } = this.#options;
    await this.#connection.use(async (redis) => {
      try {
        await redis.xgroup('CREATE', stream, group, firstId, 'MKSTREAM');
      } catch (error) {
        if (!asError(error).message.startsWith('BUSYGROUP')) throw error;
      }
    }, true);
  }

  /** The groups of the stream; empty if there is no stream. */
  async groups(): Promise<GroupFacts[]> {
    const reply = await this.#connection.use(async (redis) => {
      if ((await redis.exists(this.#options.stream)) === 0) return [];
      return (await redis.xinfo('GROUPS', this.#options.stream)) as unknown[][];
    }, true);
    return reply.map((facts) => {
      const of = new Map(pairs(facts));
      return {
        name: String(of.get('name')),
        consumers: Number(of.get('consumers')),
        pending: Number(of.get('pending')),
        lastId: String(of.get('last-delivered-id')),
      };
    });
  }

  /** Reads entries that no consumer has, waiting up to `blockMs` for the first. */
  async read(count: number, blockMs: number): Promise<StreamEntry[]> {
    const { stream, group, consumer } = this.#options;
    // Not repeated: what a lost reply held is pending, and claimed later.
    const reply = await this.#connection.use((redis) => {
      // Without permission to ask, `read` is not interrupted.
      this.#waiting = redis.client('ID').catch(() => undefined);
      const wanted = ['COUNT', count, 'BLOCK', blockMs, 'STREAMS', stream, '>'] as const;
      const reading = redis.xreadgroupBuffer('GROUP', group, consumer, ...wanted);
      // After a restart of Redis the same number may be another client's.
      return reading.finally(() => (this.#waiting = undefined));
    }, false);
    const streams = (reply ?? []) as [name: Buffer, entries: RawEntry[]][];
    return streams.flatMap(([, entries]) => entries.flatMap(entryOf));
  }

  /** Ends a `read` that waits, over another connection, if Redis permits it. Never throws. */
  async interrupt(other: RedisConnection): Promise<void> {
    const id = await this.#waiting;
    if (id !== undefined)
      await other.use((redis) => redis.client('UNBLOCK', id), false).catch(() => undefined);
  }

  /**
   * Claims entries that were read and not removed for `idleMs`, from `cursor` on, in their order. They are then pending for
   * this consumer.
   * @returns where to go on; FIRST when there are no more
   */
  async claim(cursor: string, count: number, idleMs: number) {
    const { stream, group, consumer } = this.#options;
    const reply = await this.#connection.use(
      (redis) => redis.callBuffer('XAUTOCLAIM', stream, group, consumer, idleMs, cursor, 'COUNT', count),
      true,
    );
    const [next, entries] = reply as [Buffer, RawEntry[]];
    return { next: next.toString(), entries: entries.flatMap(entryOf) };
  }

  /**
   * Removes entries from the stream by their ids. Twice is safe. In one transaction: if a consumer were killed between the
   * two commands, an entry that is acknowledged and not deleted would never leave the stream.
   */
  async remove(ids: readonly string[]): Promise<void> {
    if (ids.length === 0) return;
    const { stream, group } = this.#options;
    const replies = await this.#connection.use(
      (redis) =>
        redis
          .multi()
          .xack(stream, group, ...ids)
          .xdel(stream, ...ids)
          .exec(),
      true,
    );
    for (const [error] of replies ?? []) if (error) throw this.#connection.unavailable(error);
  }

  /** Moves entries to the list `<stream>:dead` as JSON, which keeps the newest DEAD_ENTRIES. */
  async reject(dead: readonly DeadEntry[]): Promise<void> {
    if (dead.length === 0) return;
    const list = `${this.#options.stream}:dead`;
    await this.#connection.use(async (redis) => {
      await redis.rpush(list, ...dead.map(deadText));
      // A list that is longer than it should be must not keep the entries in the stream.
      await redis.ltrim(list, -DEAD_ENTRIES, -1).catch(() => undefined);
    }, true);
    await this.remove(dead.map(({ entry }) => entry.id));
  }

  async length(): Promise<number> {
    return this.#connection.use((redis) => redis.xlen(this.#options.stream), true);
  }

  /**
   * Takes or keeps the lease of the stream, whose holder alone reads it: two readers would enqueue the entries of one uri in
   * any order.
   * @param beat another one for each call, by which others see that the holder lives
   * @param silent what a holder left that has been silent for too long, and may be replaced
   * @returns what another holder left; '' when the lease is ours
   */
  async hold(holder: string, beat: string, silent: string): Promise<string> {
    return this.#connection.use(
      (redis) => holdStream(redis)([this.#leaseKey], { holder, beat, silent }),
      true,
    );
  }

  /** Gives the lease back, if it is ours. */
  async release(holder: string): Promise<void> {
    await this.#connection.use((redis) => releaseStream(redis)([this.#leaseKey], { holder }), true);
  }

  get #leaseKey(): string {
    return `${this.#options.stream}:bridge`;
  }

  /**
   * Deletes consumers of the group that have nothing pending and have been silent for `idleMs`: each process has a name of
   * its own.
   */
  async forgetConsumers(idleMs: number): Promise<void> {
    const { stream, group, consumer } = this.#options;
    await this.#connection.use(async (redis) => {
      for (const facts of (await redis.xinfo('CONSUMERS', stream, group)) as unknown[][]) {
        const of = new Map(pairs(facts));
        const isIdle = Number(of.get('pending')) === 0 && Number(of.get('idle')) >= idleMs;
        const name = String(of.get('name'));
        if (isIdle && name !== consumer) await redis.xgroup('DELCONSUMER', stream, group, name);
      }
    }, true);
  }
}

type RawEntry = readonly [id: Buffer, fields: readonly Buffer[] | null];

/** An entry that was deleted while it was pending has no fields. */
function entryOf([id, fields]: RawEntry): StreamEntry[] {
  if (fields === null) return [];
  return [{ id: id.toString(), fields: new Map(pairs(fields)) }];
}

function pairs<T>(list: readonly T[]): [string, T][] {
  return Array.from({ length: list.length / 2 }, (_, i) => [
    String(list[2 * i]),
    elementAt(list, 2 * i + 1, 'list'),
  ]);
}

/** Fields that do not fit are cut off, and the text then says so. */
function deadText({ entry: { id, fields }, reason }: DeadEntry): string {
  let left = DEAD_BYTES;
  const kept: [string, string][] = [];
  for (const [name, bytes] of fields) {
    if (left <= 0) break;
    kept.push([name.slice(0, left), bytes.subarray(0, Math.max(0, left - name.length)).toString()]);
    left -= name.length + bytes.length;
  }
  const isCut = left < 0 || kept.length < fields.size;
  return JSON.stringify({ id, reason, ...(isCut && { cut: true }), fields: Object.fromEntries(kept) });
}

/** How many streams are named to a person. */
const MOST_STREAMS = 100;

/** The streams of a Redis, each with its number of entries. */
export async function listStreams(connection: RedisConnection): Promise<Map<string, number>> {
  const found = new Map<string, number>();
  let cursor = '0';
  do {
    const at = cursor;
    const [next, keys] = await connection.use(
      (redis) => redis.scan(at, 'COUNT', 1_000, 'TYPE', 'stream'),
      true,
    );
    for (const key of keys) found.set(key, await connection.use((redis) => redis.xlen(key), true));
    cursor = next;
  } while (cursor !== '0' && found.size < MOST_STREAMS);
  return found;
}
