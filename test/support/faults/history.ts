/**
 * Finds every contradiction between what was enqueued and what the service reported. A store with one value per key
 * can hide a doubled outcome, so outcomes are counted twice: as announced (one message on a uri's channel per write)
 * and as taken by a reader.
 */
import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import { Redis } from 'ioredis';
import { doneChannel } from '../../../lib/contract/names.ts';
import type { Result } from '../../../lib/contract/result.ts';
import { RedisConnection } from '../../../lib/redis/connection.ts';
import { ResultStore } from '../../../lib/redis/results.ts';

/** The outcome of a record: the number from its model, or the code of its failure. */
export type Stored = number | string;

export interface Findings {
  /** Enqueued and without an outcome. */
  readonly lost: readonly string[];
  /** Told more than once. */
  readonly doubled: readonly string[];
  /** An outcome of a uri that was not enqueued. */
  readonly unasked: readonly string[];
  /** `uri: got, expected`. */
  readonly wrong: readonly string[];
}

export const CLEAN: Findings = { lost: [], doubled: [], unasked: [], wrong: [] };

/** The pure half: what was allowed for each uri against what came. */
export function findings(
  allowed: ReadonlyMap<string, readonly Stored[]>,
  told: readonly (readonly [uri: string, Stored])[],
): Findings {
  const seen = new Set<string>();
  const doubled: string[] = [];
  const unasked: string[] = [];
  const wrong: string[] = [];
  for (const [uri, outcome] of told) {
    if (seen.has(uri)) doubled.push(uri);
    seen.add(uri);
    const fitting = allowed.get(uri);
    if (!fitting) unasked.push(uri);
    else if (!fitting.includes(outcome)) wrong.push(`${uri}: ${outcome}, expected ${fitting.join(' or ')}`);
  }
  return { lost: [...allowed.keys()].filter((uri) => !seen.has(uri)), doubled, unasked, wrong };
}

export class History {
  readonly #allowed = new Map<string, readonly Stored[]>();
  readonly #announced = new Map<string, number>();

  /** Enqueue accepted this uri; these are the outcomes it may have. */
  enqueued(uri: string, ...allowed: readonly Stored[]): void {
    this.#allowed.set(uri, allowed);
  }

  get size(): number {
    return this.#allowed.size;
  }

  /** The outcomes that a uri may have; undefined for one that was not enqueued. */
  allowed(uri: string): readonly Stored[] | undefined {
    return this.#allowed.get(uri);
  }

  uris(): string[] {
    return [...this.#allowed.keys()];
  }

  /** Counts announcements from now on, by the Redis itself and not through a proxy. */
  async listen(t: TestContext, url: string, job: string): Promise<void> {
    const redis = new Redis(url, { lazyConnect: true, retryStrategy: (times) => Math.min(times * 50, 500) });
    redis.on('error', () => undefined);
    t.after(() => redis.disconnect());
    const prefix = doneChannel(job, '');
    redis.on('pmessage', (_pattern: string, channel: string) => {
      const uri = channel.slice(prefix.length);
      this.#announced.set(uri, (this.#announced.get(uri) ?? 0) + 1);
    });
    await redis.connect();
    await redis.psubscribe(`${prefix}*`);
  }

  /** Uris with an announced outcome. */
  get announced(): number {
    return this.#announced.size;
  }

  announcements(uri: string): number {
    return this.#announced.get(uri) ?? 0;
  }

  /** Takes every outcome out of the store and holds it against what was enqueued. */
  async check(url: string, job: string): Promise<Findings> {
    return this.judge(await takeAll(url, job));
  }

  /** Holds outcomes against what was enqueued. */
  judge(told: readonly (readonly [uri: string, Stored])[]): Findings {
    const found = findings(this.#allowed, told);
    const twice = [...this.#announced].filter(([, times]) => times > 1).map(([uri]) => uri);
    return { ...found, doubled: [...new Set([...found.doubled, ...twice])] };
  }

  async assertClean(url: string, job: string, what = ''): Promise<void> {
    assertNothingFound(await this.check(url, job), what);
  }
}

export function assertNothingFound(found: Findings, what = ''): void {
  assert.deepEqual(shortened(found), CLEAN, what);
}

/** The outcomes that a reader gets who dequeues until nothing is left. */
export async function takeAll(url: string, job: string): Promise<[uri: string, Stored][]> {
  const store = new ResultStore(new RedisConnection(url, { commandTimeoutMs: 10_000 }), {
    job,
    ttlSeconds: 60,
    now: Date.now,
  });
  try {
    const told: [string, Stored][] = [];
    for await (const item of store.drain()) {
      told.push([item.uri, 'error' in item ? item.error.code : numberOf(item.result)]);
    }
    return told;
  } finally {
    await store.close();
  }
}

/** The number the test model made (support/model.ts): its first output. */
export function numberOf(result: Result): number {
  return Number(result.outputs[0]?.data[0]);
}

/** A message with a hundred thousand uris is unreadable. */
function shortened(found: Findings): Findings {
  const first = (uris: readonly string[]) =>
    uris.length <= 5 ? uris : [...uris.slice(0, 5), `and ${uris.length - 5} more`];
  return {
    lost: first(found.lost),
    doubled: first(found.doubled),
    unasked: first(found.unasked),
    wrong: first(found.wrong),
  };
}
