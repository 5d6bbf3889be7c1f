/**
 * Records per event. In: an event's text as Lambda's runtime gets it. Out: what the batch function takes for it, with
 * a Redis of its own. Trap: the first event of a connection takes more round trips than any other; it is not the one that is counted.
 */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Redis } from 'ioredis';
import { encodeMessage } from '../../../lib/codecs/message.ts';
import { indexKey } from '../../../lib/contract/names.ts';
import { arrowMessage, inputsOf } from '../../messages.ts';
import { type BenchModel, randomRows } from '../../models.ts';
import { answersFor, assertSame } from '../../raw.ts';
import { startCountingProxy } from '../../round-trips.ts';
import { JOB, queueEvent, type Served, serve } from '../../served.ts';
import { openBatch, readEvent, runEvent } from '../batch-work.ts';
import { CPU, type Curve, type OpenWork, PEAK, RETAINED, TIME } from '../curve.ts';
import type { Growth } from '../growth.ts';
import { modelGiven, modelOf } from '../models.ts';
import type { PointQuestion } from '../point.ts';

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

function bodyOf(wire: Wire, uri: string, model: BenchModel, row: Float32Array): string {
  if (wire === 'JSON (stream)') {
    const value = Array.from(row, (number) => Number(number.toPrecision(9)));
    return encodeMessage(uri, new Map([[model.input, { kind: 'json', value }]]));
  }
  const inputs = inputsOf(model, row);
  return wire === 'safetensors' ? encodeMessage(uri, inputs) : arrowMessage(uri, inputs);
}

export const open: OpenWork = async ({ x, given }) => {
  const model = modelOf(given);
  const { served, redis, work } = openBatch(given, RUN_ROWS);
  return {
    ...work,
    verify: () => verify(model, served, redis, x),
    facts: async () => ({ roundTrips: await countRoundTrips(model, redis, given) }),
  };
};

/** Every record has its result; the first and the last have the right one. */
async function verify(model: BenchModel, served: Served, redis: Redis, records: number): Promise<void> {
  const found = await redis.zcard(indexKey(JOB));
  if (found !== records) throw new Error(`${found} results of ${records} records`);
  const answers = await answersFor(model, randomRows(SEED, model.rowShape, ROWS));
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
  redis: Redis,
  { event = '', redisUrl = '' }: PointQuestion['given'],
): Promise<number> {
  const { hostname, port } = new URL(redisUrl);
  const proxy = await startCountingProxy({ host: hostname, port: Number(port) });
  const served = serve(model, `redis://127.0.0.1:${proxy.port}`, RUN_ROWS);
  try {
    await served.results.ping();
    // What the first event of an environment does more is not the size's doing.
    await runEvent(served, await readEvent(event));
    await redis.flushdb();
    const before = proxy.roundTrips();
    await runEvent(served, await readEvent(event));
    return proxy.roundTrips() - before;
  } finally {
    await served.close();
    await proxy.close();
  }
}
