/** All curves: those of the other files, and of results in Redis, of waiting for results, and of models. */

import { mkdtemp, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import { type OnnxRunner, openOnnx } from '../../lib/compose/onnx.ts';
import { connect, openResults } from '../../lib/compose/store.ts';
import { doneChannel, indexKey, resultKey } from '../../lib/contract/names.ts';
import { present } from '../../lib/contract/present.ts';
import { downloadModel, readPointer } from '../../lib/registry/download.ts';
import { findModelFile } from '../../lib/registry/onnx-file.ts';
import { publishModel } from '../../lib/registry/publish.ts';
import { serializeResult } from '../../lib/results/fields.ts';
import { openS3 } from '../../lib/s3/client.ts';
import { check } from '../../onnx-import/index.ts';
import { samplePoint, type Work } from '../sample.ts';
import { JOB } from '../served.ts';
import { CAPABILITY_CURVES } from './capabilities.ts';
import { type Curve, METRICS, sampled, TIME } from './curve.ts';
import { EVENT_CURVES } from './events.ts';
import { MACHINE_CURVES } from './machine.ts';
import { growingModel } from './models.ts';

const NOTHING = { input: '', warm: '' };
const uriOf = (i: number) => `result-${i}`;
const numberOf = (uri: string) => Number(uri.slice('result-'.length));

/** Ten numbers, as a small classifier answers; the first is that of the uri. */
function finished(uri: string) {
  const data = Float32Array.from({ length: 10 }, (_, i) => numberOf(uri) + i / 8);
  const outputs = [{ name: 'scores', dtype: 'float32' as const, shape: [10], data }];
  return { uri, fields: serializeResult({ ok: true, outputs }, undefined) };
}

function openStores(url: string) {
  const connection = connect({ redisUrl: url }, { commandTimeoutMs: 30_000 });
  const store = openResults(connection, { job: JOB, ttlSeconds: 3_600, now: Date.now });
  const redis = new Redis(url);
  const close = async () => {
    redis.disconnect();
    await store.close();
  };
  return { store, redis, close };
}

type Stores = ReturnType<typeof openStores>;

async function fill({ store, redis }: Stores, count: number): Promise<void> {
  await redis.flushdb();
  for (let first = 0; first < count; first += 5_000) {
    const length = Math.min(5_000, count - first);
    const some = Array.from({ length }, (_, i) => finished(uriOf(first + i)));
    await store.save(some, 'version');
  }
  assertEqual(await redis.zcard(indexKey(JOB)), count);
}

function assertEqual(actual: unknown, expected: unknown): void {
  if (actual !== expected) throw new Error(`expected ${String(expected)}, got ${String(actual)}`);
}

const ADDED = Array.from({ length: 256 }, (_, i) => finished(uriOf(1e9 + i)));

/** Calls on a Redis that holds results. The input restores, not timed, what the call before added or took. */
const CALLS: Readonly<Record<string, (stores: Stores, nextUri: () => string) => Omit<Work, 'close'>>> = {
  'save 256': ({ store, redis }) => ({
    input: async () => {
      await redis.del(...ADDED.map(({ uri }) => resultKey(JOB, uri)));
      await redis.zrem(indexKey(JOB), ...ADDED.map(({ uri }) => uri));
    },
    call: () => store.save(ADDED, 'version'),
    check: (saved) => assertEqual(saved, ADDED.length),
  }),
  query: ({ store }, nextUri) => ({
    input: async () => nextUri(),
    call: async (uri) => (await store.get(uri as string))?.outputs[0]?.data[0],
    check: (first, uri) => assertEqual(first, numberOf(uri as string)),
  }),
  'take 100 (dequeue)': ({ store }) => {
    let taken: string[] = [];
    return {
      input: () => store.save(taken.splice(0).map(finished), 'version'),
      call: async () => {
        taken = ((await store.takePage(100)) ?? []).map(({ uri }) => uri);
      },
      check: () => assertEqual(taken.length, 100),
    };
  },
};

const results: Curve = {
  name: 'results',
  xLabel: 'results in Redis',
  series: { redis: [1e3, 1e4, 1e5, 3e5, 1e6] },
  // Nothing may depend on the number of results; a logarithm is about 0.1 there.
  metrics: Object.keys(CALLS).map((name) => ({ ...TIME, key: name, label: name, atMost: 0.25 })),
  prepare: async () => NOTHING,
  async measure({ x, redisUrl, timedMs }) {
    const stores = openStores(redisUrl);
    await fill(stores, x);
    let calls = 0;
    const nextUri = () => uriOf((calls++ * 7_919) % x);
    const sample: Record<string, number> = {};
    for (const [name, open] of Object.entries(CALLS)) {
      const work = open(stores, nextUri);
      sample[name] = (await samplePoint(work, timedMs))['ms'] ?? Number.NaN;
      await work.input(false);
    }
    await stores.close();
    return sample;
  },
};

const waiters: Curve = {
  name: 'waiters',
  xLabel: 'uris waited for',
  series: { wait: [1, 10, 100, 500, 1_000, 2_000] },
  prepare: async () => NOTHING,
  measure: sampled(async ({ x, redisUrl }) => {
    const [reader, writer] = [openStores(redisUrl), openStores(redisUrl)];
    return {
      async input(warm) {
        await writer.redis.flushdb();
        return Array.from({ length: warm ? 1 : x }, (_, i) => uriOf(i));
      },
      async call(uris) {
        const waiting = uris.map((uri) => reader.store.wait(uri, { timeoutMs: 60_000 }));
        // One connection subscribes to all, in this order; results are saved when it has subscribed to all.
        const last = doneChannel(JOB, uris.at(-1) ?? '');
        while (((await writer.redis.pubsub('NUMSUB', last)) as [string, number])[1] === 0);
        await writer.store.save(uris.map(finished), 'version');
        const read = await Promise.all(waiting);
        return read.map(({ outputs }) => outputs[0]?.data[0]);
      },
      check: (firsts, uris) => assertEqual(String(firsts), String(uris.map(numberOf))),
      close: () => Promise.all([reader.close(), writer.close()]),
    } satisfies Work<string[], unknown[]>;
  }),
};

const model: Curve = {
  name: 'model',
  xLabel: 'bytes of the model',
  series: { model: [5e6, 50e6, 500e6] },
  metrics: METRICS.slice(0, 3),
  prepare: async (x, _, bench) => ({ ...NOTHING, model: await growingModel('layers', x, bench.folder) }),
  measure: sampled(async ({ x, endpoint, ...point }) => {
    const { folder } = present(point.model, 'model');
    const s3 = openS3({ endpoint, region: 'local' });
    const location = { bucket: JOB, prefix: `models/${x}/` };
    const directory = await mkdtemp(join(folder, '..', 'downloads-'));
    const settings = { threads: 1, batchSize: 8, inputAlreadyBatched: false, image: {} };
    return {
      once: true,
      // Loads the SDK and opens its connection.
      input: () => readPointer(s3, location).catch(() => undefined),
      async call() {
        await check(await findModelFile(folder));
        await publishModel(s3, location, folder);
        const pointer = await readPointer(s3, location);
        const file = await findModelFile(await downloadModel(s3, location, pointer, directory));
        return openOnnx(file, pointer.version, settings);
      },
      // Digests were compared on the way.
      check: (runner) => runner.close(),
      async close() {
        s3.destroy();
        await rm(directory, { recursive: true });
      },
    } satisfies Work<unknown, OnnxRunner>;
  }),
};

export const CURVES: readonly Curve[] = [
  ...EVENT_CURVES,
  ...MACHINE_CURVES,
  ...CAPABILITY_CURVES,
  results,
  waiters,
  model,
];
