/**
 * Concurrent waiters. In: so many uris. Out: what it takes to wait for all of them at once: to listen, and, when their
 * results are saved, to hear and to read them. Trap: a result that is there before somebody listens is not heard of;
 * so they are saved when Redis knows of the last listener.
 */
import { Redis } from 'ioredis';
import { doneChannel } from '../../../lib/contract/names.ts';
import { RedisConnection } from '../../../lib/redis/connection.ts';
import { serializeResult } from '../../../lib/redis/result/fields.ts';
import { ResultStore } from '../../../lib/redis/results.ts';
import { JOB } from '../../served.ts';
import { CPU, type Curve, type OpenWork, PEAK, RETAINED, TIME } from '../curve.ts';
import { heldBytes } from '../memory.ts';

const WAIT_MS = 60_000;
const XS = [1, 10, 100, 500, 1_000, 2_000];

export const curve: Curve = {
  name: 'waiters',
  about: 'waiting for the results of so many uris at once',
  xLabel: 'uris waited for',
  series: [{ name: 'wait', xs: XS, quickXs: [1, 10, 100, 500] }],
  metrics: [
    TIME,
    { key: 'listenMs', label: 'of that, until all listen', unit: 'ms', atMost: 1.1 },
    CPU,
    PEAK,
    {
      key: 'waitingBytes',
      label: 'memory while all wait',
      unit: 'bytes',
      atMost: 1.1,
      floor: 1e6,
    },
    RETAINED,
  ],
  async prepare(growth) {
    const { url } = await growth.redis();
    return async () => ({ redisUrl: url });
  },
};

export const open: OpenWork = async ({ x, given }) => {
  const { redisUrl = '' } = given;
  const storeOf = () => {
    const options = { job: JOB, ttlSeconds: 600, now: Date.now };
    return new ResultStore(new RedisConnection(redisUrl, { commandTimeoutMs: 30_000 }), options);
  };
  const reader = storeOf();
  const writer = storeOf();
  const redis = new Redis(redisUrl);
  let listenMs = 0;
  const waitForAll = async (count: number, look?: () => void) => {
    const uris = Array.from({ length: count }, (_, i) => `waited-${i}`);
    const begin = performance.now();
    const results = uris.map((uri) => reader.wait(uri, { timeoutMs: WAIT_MS }));
    await heard(redis, uris);
    listenMs = performance.now() - begin;
    look?.();
    await writer.save(uris.map(finishedOf), 'version');
    for (const [i, { uri, outputs }] of (await Promise.all(results)).entries()) {
      if (uri !== uris[i] || outputs[0]?.data[0] !== i) throw new Error(`${uri} has another's result`);
    }
  };
  return {
    warmUp: async () => {
      await redis.flushdb();
      await waitForAll(1);
    },
    prepare: () => redis.flushdb(),
    call: () => waitForAll(x),
    facts: async () => {
      // Before the look, which collects garbage and takes its time.
      const listened = listenMs;
      await redis.flushdb();
      const before = heldBytes().liveBytes;
      let waitingBytes = 0;
      await waitForAll(x, () => {
        waitingBytes = Math.max(0, heldBytes().liveBytes - before);
      });
      return { listenMs: listened, waitingBytes };
    },
    close: async () => {
      redis.disconnect();
      await reader.close();
      await writer.close();
    },
  };
};

function finishedOf(uri: string, i: number) {
  const data = Float32Array.of(i, 1, 2);
  const output = { name: 'scores', dtype: 'float32', shape: [3], data } as const;
  return { uri, fields: serializeResult({ ok: true, outputs: [output] }, undefined) };
}

/** Until somebody listens for each. */
async function heard(redis: Redis, uris: readonly string[]): Promise<void> {
  const last = doneChannel(JOB, uris.at(-1) ?? '');
  const until = performance.now() + WAIT_MS;
  for (;;) {
    const [, listeners] = (await redis.pubsub('NUMSUB', last)) as [string, number];
    // They share one connection, on which subscriptions stand in the order they were asked for.
    if (listeners > 0) return;
    if (performance.now() > until) throw new Error('nobody listens');
  }
}
