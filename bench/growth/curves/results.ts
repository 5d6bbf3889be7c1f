/**
 * Results in Redis. In: a Redis that holds so many. Out: what each question costs then, and what a result takes there.
 * Trap: taking and saving change the number; what a call takes away or adds is put back or taken away outside the clock.
 */
import { Redis } from 'ioredis';
import { status } from '../../../functions/status.ts';
import { indexKey, resultKey } from '../../../lib/contract/names.ts';
import type { Outcome } from '../../../lib/contract/values.ts';
import { Reporter } from '../../../lib/metrics/reporter.ts';
import { type TimerName, Timers } from '../../../lib/metrics/timers.ts';
import { RedisConnection } from '../../../lib/redis/connection.ts';
import { RecordStates } from '../../../lib/redis/record-states.ts';
import { serializeResult } from '../../../lib/redis/result/fields.ts';
import type { Finished } from '../../../lib/redis/result/writer.ts';
import { ResultStore } from '../../../lib/redis/results.ts';
import { JOB, predictEvent } from '../../served.ts';
import { CPU, type Curve, type OpenWork, type Work } from '../curve.ts';
import type { Growth } from '../growth.ts';
import type { PointQuestion } from '../point.ts';

const TIMERS: readonly TimerName[] = [
  'zoo.serving.request.predict',
  'zoo.serving.redis.put',
  'zoo.serving.redis.wait',
];
const BATCH = 256;
const PAGE = 100;
const FILL_AT_ONCE = 5_000;
const TTL_SECONDS = 3_600;
const QUESTIONS = ['save 256', 'query', 'status', 'take 100 (dequeue)', '/metrics'] as const;
type Question = (typeof QUESTIONS)[number];

const XS = [0, 1e3, 1e4, 1e5, 3e5, 1e6];
/** A logarithm would be 0.1 here; more is a walk over all of them. */
const FLAT = 0.25;

export const curve: Curve = {
  name: 'results',
  about: 'what Redis is asked, by the results it holds',
  xLabel: 'results in Redis',
  series: QUESTIONS.map((name) => ({ name, xs: XS, quickXs: [0, 1e3, 1e4, 1e5] })),
  metrics: [
    { key: 'ms', label: 'time of a call', unit: 'ms', atMost: FLAT, picture: 'time' },
    { ...CPU, atMost: FLAT },
    { key: 'bytesPerResult', label: 'Redis memory, a result', unit: 'bytes', atMost: FLAT },
  ],
  async prepare(growth, points) {
    const filled = new Map<number, string>();
    for (const { x } of points) {
      if (!filled.has(x)) filled.set(x, await fillRedis(growth, x));
    }
    return async (_, x) => ({ redisUrl: filled.get(x) ?? '' });
  },
};

/** Ten numbers, as a small classifier has them. */
function finished(uri: string, i: number): Finished {
  const data = Float32Array.from({ length: 10 }, (_, at) => (i % 97) + at / 10);
  const outputs = [{ name: 'scores', dtype: 'float32', shape: [10], data }] as const;
  const outcome: Outcome = { ok: true, outputs };
  return { uri, fields: serializeResult(outcome, undefined) };
}

/** What /metrics tells of: every number of it takes a field in Redis. */
function someTimers(): Timers {
  const timers = new Timers();
  for (const name of TIMERS) for (let ms = 1; ms < 1_000; ms *= 2) timers.record(name, ms);
  return timers;
}

const uriOf = (i: number) => `result-${i}`;

function openStore(redisUrl: string): { connection: RedisConnection; store: ResultStore } {
  const connection = new RedisConnection(redisUrl, { commandTimeoutMs: 30_000 });
  return {
    connection,
    store: new ResultStore(connection, { job: JOB, ttlSeconds: TTL_SECONDS, now: Date.now }),
  };
}

async function fillRedis(growth: Growth, count: number): Promise<string> {
  const { url } = await growth.redis();
  const { store } = openStore(url);
  await store.save([], '', someTimers());
  for (let first = 0; first < count; first += FILL_AT_ONCE) {
    const some = Array.from({ length: Math.min(FILL_AT_ONCE, count - first) }, (_, i) =>
      finished(uriOf(first + i), first + i),
    );
    const saved = await store.save(some, 'version');
    if (saved !== some.length) throw new Error(`${saved} of ${some.length} were saved`);
  }
  await store.close();
  return url;
}

export const open: OpenWork = async (question) => {
  const { redisUrl = '' } = question.given;
  const { connection, store } = openStore(redisUrl);
  const redis = new Redis(redisUrl);
  const work = workOf(question, store, new RecordStates(connection, { job: JOB, now: Date.now }), redis);
  return {
    ...work,
    // Nothing happens here that is small at first: the call itself is the smallest.
    warmUp: async () => {
      await work.prepare?.();
      await work.call();
    },
    facts: async () => {
      // With as many results as the size says, not with what the last call added or took.
      await work.close();
      return { bytesPerResult: await bytesPerResult(redis, question.x) };
    },
    close: async () => {
      await work.close();
      redis.disconnect();
      await store.close();
    },
  };
};

/** What an empty Redis takes, 1 MB, is not counted; the first thousand carry the index's and the tables' growth. */
async function bytesPerResult(redis: Redis, count: number): Promise<number> {
  if (count === 0) return Number.NaN;
  const told = await redis.info('memory');
  const bytes = (field: string) => Number(new RegExp(`^${field}:(\\d+)`, 'm').exec(told)?.[1]);
  return (bytes('used_memory') - bytes('used_memory_startup')) / count;
}

function workOf(
  { series, x, repeat }: PointQuestion,
  store: ResultStore,
  states: RecordStates,
  redis: Redis,
): Work {
  const close = async () => undefined;
  let calls = 0;
  /** Somewhere in the middle, another one each time. */
  const nextUri = () => uriOf((calls++ * 7_919) % Math.max(1, x));
  switch (series as Question) {
    case 'save 256':
      return saving(store, redis, `${process.pid}-${repeat}`);
    case 'query':
      return { call: async () => assertThere((await store.get(nextUri())) !== undefined, x), close };
    case 'status':
      return { call: async () => assertThere((await states.status(nextUri())) === 'succeeded', x), close };
    case 'take 100 (dequeue)':
      return taking(store);
    case '/metrics':
      return { call: metricsCall(store), close };
  }
}

function assertThere(isThere: boolean, x: number): void {
  if (isThere !== x > 0) throw new Error(`of ${x} results one was ${isThere ? '' : 'not '}there`);
}

function saving(store: ResultStore, redis: Redis, prefix: string): Work {
  let batch: Finished[] = [];
  const remove = async () => {
    if (batch.length === 0) return;
    const uris = batch.map(({ uri }) => uri);
    await redis.del(...uris.map((uri) => resultKey(JOB, uri)));
    await redis.zrem(indexKey(JOB), ...uris);
    batch = [];
  };
  return {
    close: remove,
    prepare: async () => {
      await remove();
      batch = Array.from({ length: BATCH }, (_, i) => finished(`more-${prefix}-${i}`, i));
    },
    call: async () => {
      const saved = await store.save(batch, 'version');
      if (saved !== BATCH) throw new Error(`${saved} of ${BATCH} were saved`);
    },
  };
}

function taking(store: ResultStore): Work {
  let taken: string[] = [];
  const restore = async () => {
    if (taken.length > 0) await store.save(taken.map(finished), 'version');
    taken = [];
  };
  return {
    close: restore,
    prepare: restore,
    call: async () => {
      for (const found of (await store.takePage(PAGE)) ?? []) {
        if ('error' in found) throw found.error;
        taken.push(found.uri);
      }
    },
  };
}

/** The handler of functions/status.ts. */
function metricsCall(store: ResultStore): () => Promise<void> {
  const reporter = new Reporter({ deliver: async () => undefined, now: () => 0, onError: console.error });
  const handler = status({ results: store, modelVersion: async () => 'version', reporter });
  const event = { ...predictEvent(''), rawPath: '/metrics', routeKey: 'GET /metrics' };
  event.requestContext = {
    ...event.requestContext,
    http: { ...event.requestContext.http, method: 'GET', path: '/metrics' },
  };
  return async () => {
    const { statusCode, body } = await handler(event);
    if (statusCode !== 200) throw new Error(body);
  };
}
