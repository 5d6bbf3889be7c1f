/**
 * The index of a job's results, a sorted set of uris by expiry that `dequeue` walks. In cluster mode a script reaches one
 * slot only, so each slot with results has an index of its own, which changes with them in one step, and a list in some
 * other slot names those slots. A slot is listed before a result is written into it. So nothing is ever missing in the list;
 * what is there too much is removed by a client that has found nothing there, after a minute.
 */

import { indexKey, resultKey } from '../contract/names.ts';
import { elementAt } from '../contract/present.ts';
import { allEnded } from '../contract/under-way.ts';
import { type RedisConnection, slicesOf } from './connection.ts';
import { FORGET_HOMES, LIST_HOMES, READ_HOMES, READ_INDEX } from './scripts/generated.ts';
import { script } from './scripts.ts';

/** How long after it was listed a result may still be written into a slot. Every attempt together takes less. */
const WRITTEN_WITHIN_MS = 60_000;

const listHomes = script<unknown>('listHomes', LIST_HOMES);
const readHomes = script<string[]>('readHomes', READ_HOMES);
const forgetHomes = script<unknown>('forgetHomes', FORGET_HOMES);
type Entry = readonly [uri: string, expiry: string, bytes: number];
const readIndex = script<Entry[]>('readIndex', READ_INDEX);

export class ResultIndex {
  readonly #connection: RedisConnection;
  readonly #job: string;

  constructor(connection: RedisConnection, job: string) {
    this.#connection = connection;
    this.#job = job;
  }

  /**
   * Announces that results are about to be written. Outside of cluster mode there is nothing to do.
   * @param homes of their uris (connection.ts)
   * @param ttlMs the longest time to live of these results
   * @throws results_unavailable; then nothing may be written
   */
  async announce(homes: Iterable<string>, ttlMs: number): Promise<void> {
    if (!this.#connection.isCluster) return;
    const list = indexKey(this.#job);
    const options = { ttlMs: String(ttlMs), homes: [...homes] };
    await this.#connection.use((redis) => listHomes(redis)([list], options), true, list);
  }

  /**
   * Walks the uris, page by page, the first to expire first; in cluster mode those of some hundred slots, then of others.
   * Walk on when the uris of the page before are taken.
   * @param count the most uris of a page
   * @param maxBytes in cluster mode, the most bytes of their results together; a larger one comes alone
   * @throws results_unavailable
   */
  async *pages(count: number, maxBytes: number): AsyncGenerator<string[]> {
    for (;;) {
      let isEmpty = true;
      for await (const entries of this.#parts(count)) {
        entries.sort(([, a], [, b]) => Number(a) - Number(b));
        while (entries.length > 0) {
          isEmpty = false;
          yield entries.splice(0, fitting(entries, count, maxBytes)).map(([uri]) => uri);
        }
      }
      if (isEmpty) return;
    }
  }

  /** Some entries, then others. */
  async *#parts(count: number): AsyncGenerator<Entry[]> {
    const list = indexKey(this.#job);
    if (!this.#connection.isCluster) {
      const uris = await this.#connection.use((redis) => redis.zrange(list, '0', String(count - 1)), true);
      return yield uris.map((uri) => [uri, '', 0]);
    }
    const [today, ...listed] = await this.#connection.use(
      (redis) => readHomes(redis)([list], {}),
      true,
      list,
    );
    for (const homes of slicesOf(pairsOf(listed))) {
      const found = await allEnded(homes.map(([home]) => this.#entries(home, count)));
      const gone = homes.filter(
        ([, score], i) => found[i]?.length === 0 && Number(score) < Number(today) - WRITTEN_WITHIN_MS,
      );
      if (gone.length > 0)
        await this.#connection.use((redis) => forgetHomes(redis)([list], { homes: gone }), true, list);
      yield found.flat();
    }
  }

  #entries(home: string, count: number) {
    const options = { count: String(count), results: resultKey(this.#job, '') };
    return this.#connection.use((redis) => readIndex(redis)([indexKey(home)], options), true, home);
  }
}

/** How many of the first entries are a page. */
function fitting(entries: readonly Entry[], count: number, maxBytes: number): number {
  let left = maxBytes;
  const end = entries.findIndex(([, , bytes], i) => i === count || ((left -= bytes) < 0 && i > 0));
  return end < 0 ? entries.length : end;
}

function pairsOf(flat: readonly string[]): (readonly [home: string, score: string])[] {
  return flat.flatMap((home, i) => (i % 2 === 0 ? [[home, elementAt(flat, i + 1, 'flat')] as const] : []));
}
