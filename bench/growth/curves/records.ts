/**
 * Records per event. In: an event's text as Lambda's runtime gets it. Out: what the batch function takes for it, with
 * a Redis of its own. Trap: the first result of a uri stays and is cheaper to write again; so Redis is emptied before
 * each call. The text and the parsed event count as memory: they are there on Lambda too.
 */
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { SQSEvent } from 'aws-lambda';
import { Redis } from 'ioredis';
import { encodeArrowRecord } from '../../../lib/codecs/arrow-record-writer.ts';
import { encodeMessage } from '../../../lib/codecs/message.ts';
import { indexKey } from '../../../lib/contract/names.ts';
import type { Inputs } from '../../../lib/contract/values.ts';
import { type BenchModel, randomRows } from '../../models.ts';
import { answersOf, assertSame, openRaw } from '../../raw.ts';
import { startCountingProxy } from '../../round-trips.ts';
import { JOB, queueEvent, type Served, serve } from '../../served.ts';
import { CPU, type Curve, type OpenWork, PEAK, RETAINED, TIME } from '../curve.ts';
import type { Growth } from '../growth.ts';
import { modelGiven, modelOf } from '../models.ts';

const ROWS = 16;
const SEED = 61;
const WARM_RECORDS = 1;
/** Rows of one run of the model, as one sets it for throughput. */
const RUN_ROWS = 256;
const WIRES = ['safetensors', 'Arrow', 'JSON (stream)'] as const;
type Wire = (typeof WIRES)[number];

const XS = [1, 10, 100, 1_000, 10_000];

export const curve: Curve = {
  name: 'records',
  about: 'the batch function by records of one event',
  xLabel: 'records of an event',
  series: WIRES.map((name) => ({ name, xs: XS, quickXs: [1, 10, 100, 1_000] })),
  metrics: [
    TIME,
    CPU,
    { key: 'usPerRecord', label: 'of that, a record', unit: 'us' },
    PEAK,
    RETAINED,
    { key: 'roundTrips', label: 'Redis round trips', unit: '', atMost: 1.1 },
  ],
  async prepare(growth, points) {
    const model = await growth.bench.model('mlp');
    const redis = await growth.redis();
    const warm = WIRES.map((series) => ({ series, x: WARM_RECORDS }));
    for (const { series, x } of [...points, ...warm]) await writeEvent(growth, model, series as Wire, x);
    return async (series, x) => ({
      ...modelGiven(model),
      redisUrl: redis.url,
      event: eventPath(growth, series as Wire, x),
      warm: eventPath(growth, series as Wire, WARM_RECORDS),
    });
  },
  derive: ({ ms = Number.NaN }, x) => ({ usPerRecord: (ms * 1000) / x }),
};

function eventPath(growth: Growth, wire: Wire, records: number): string {
  return join(growth.folder, `event-${WIRES.indexOf(wire)}-${records}.json`);
}

async function writeEvent(growth: Growth, model: BenchModel, wire: Wire, records: number): Promise<void> {
  const rows = randomRows(SEED, model.rowShape, ROWS);
  const bodies = Array.from({ length: records }, (_, i) =>
    bodyOf(wire, `row-${i}`, model, rows[i % ROWS] as Float32Array),
  );
  await writeFile(eventPath(growth, wire, records), JSON.stringify(queueEvent(bodies)));
}

function bodyOf(wire: Wire, uri: string, { input, rowShape }: BenchModel, row: Float32Array): string {
  if (wire === 'JSON (stream)') {
    const value = Array.from(row, (number) => Number(number.toPrecision(9)));
    return encodeMessage(uri, new Map([[input, { kind: 'json', value }]]));
  }
  const tensor = { dtype: 'float32', shape: rowShape, data: row } as const;
  const inputs: Inputs = new Map([[input, { kind: 'tensor', tensor }]]);
  if (wire === 'safetensors') return encodeMessage(uri, inputs);
  // As the old Python client puts it into Redis, and a bridge into the queue.
  return JSON.stringify({ uri, data: Buffer.from(encodeArrowRecord(inputs)).toString('base64') });
}

export const open: OpenWork = async ({ x, given }) => {
  const { event: path = '', warm = '', redisUrl = '' } = given;
  const model = modelOf(given);
  const served = serve(model, redisUrl, RUN_ROWS);
  const redis = new Redis(redisUrl);
  const run = async (event: SQSEvent, by: Served = served) => {
    const { batchItemFailures } = await by.batch(event);
    if (batchItemFailures.length > 0) throw new Error(`${batchItemFailures.length} records came back`);
  };
  const read = async (file: string) => JSON.parse(await readFile(file, 'utf8')) as SQSEvent;
  let event: SQSEvent | undefined;
  return {
    warmUp: async () => {
      await redis.flushdb();
      await run(await read(warm));
    },
    prepare: async () => {
      await redis.flushdb();
      event = await read(path);
    },
    call: () => run(event as SQSEvent),
    verify: () => verify(model, served, redis, x),
    release: () => {
      event = undefined;
    },
    facts: async () => ({ roundTrips: await countRoundTrips(model, redisUrl, redis, () => read(path), run) }),
    close: async () => {
      redis.disconnect();
      await served.close();
    },
  };
};

/** Every record has its result; the first and the last have the right one. */
async function verify(model: BenchModel, served: Served, redis: Redis, records: number): Promise<void> {
  const found = await redis.zcard(indexKey(JOB));
  if (found !== records) throw new Error(`${found} results of ${records} records`);
  const raw = await openRaw(model);
  const answers = await answersOf(raw, randomRows(SEED, model.rowShape, ROWS));
  await raw.close();
  for (const record of [0, records - 1]) {
    const result = await served.results.get(`row-${record}`);
    assertSame(
      result?.outputs[0]?.data as Float32Array,
      answers[record % ROWS] as Float32Array,
      `row-${record}`,
    );
  }
}

/** Of an event on a connection that stands. */
async function countRoundTrips(
  model: BenchModel,
  redisUrl: string,
  redis: Redis,
  read: () => Promise<SQSEvent>,
  run: (event: SQSEvent, by: Served) => Promise<void>,
): Promise<number> {
  const { hostname, port } = new URL(redisUrl);
  const proxy = await startCountingProxy({ host: hostname, port: Number(port) });
  const served = serve(model, `redis://127.0.0.1:${proxy.port}`, RUN_ROWS);
  try {
    await served.results.ping();
    // What the first event of an environment does more is not the size's doing.
    await run(await read(), served);
    await redis.flushdb();
    const before = proxy.roundTrips();
    await run(await read(), served);
    return proxy.roundTrips() - before;
  } finally {
    await served.close();
    await proxy.close();
  }
}
