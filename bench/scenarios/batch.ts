/**
 * Rows a second of the batch function as a share of raw runs of the same batch, the processor time that it adds to a
 * record, and the Redis round trips of an event. Every event has new uris, made outside the clock, because the first result
 * of a uri stays and is cheaper to write again.
 */

import type { SQSBatchResponse, SQSEvent } from 'aws-lambda';
import { type ChainableCommander, Redis } from 'ioredis';
import { encodeMessage } from '../../lib/codecs/message.ts';
import { indexKey } from '../../lib/contract/names.ts';
import { elementAt } from '../../lib/contract/present.ts';
import type { Bench, Scenario } from '../bench.ts';
import { type Contender, interleave, type Measured, pairwise, rateOf, spreadOf } from '../measure.ts';
import { arrowMessage, inputsOf, URI } from '../messages.ts';
import { type BenchModel, type ModelName, randomRows } from '../models.ts';
import { answersOf, assertSame, floatsOf, openRaw, type RawModel } from '../raw.ts';
import type { Line, Row } from '../report.ts';
import { startCountingProxy } from '../round-trips.ts';
import { JOB, queueEvent, type Served, serve } from '../served.ts';

const COUNTED_EVENTS = 20;
/** Some 4 events of the convnet: their own garbage, 50 MB, is collected while they are timed. */
const BLOCK_MS = 200;

interface BatchCase {
  readonly model: ModelName;
  readonly rows: number;
  readonly repeatMs: number;
}

const CASES: readonly BatchCase[] = [
  { model: 'convnet', rows: 32, repeatMs: 800 },
  { model: 'mlp', rows: 256, repeatMs: 400 },
];

export const batch: Scenario = {
  name: 'batch',
  about: 'rows a second of the batch function against raw at the same batch; Redis round trips',
  async run(bench) {
    const lines: Line[] = [];
    for (const each of CASES.filter(({ model }) => bench.wants(model)))
      lines.push(...(await measureCase(bench, each)));
    return lines;
  },
};

async function measureCase(bench: Bench, each: BatchCase): Promise<Row[]> {
  const model = await bench.model(each.model);
  const redis = await bench.redis();
  const rows = randomRows(21, model.rowShape, each.rows);
  const [raw, again] = [await openRaw(model), await openRaw(model)];
  const served = serve(model, redis.url, { batchSize: each.rows });
  const reader = new Redis(redis.url);
  try {
    // Refuses rows whose answers are too alike for a mix-up to be seen.
    await answersOf(raw, rows);
    const feed = raw.feed(rows);
    const answers = Float32Array.from(await raw.run(feed));
    const rawRun = (name: string, of: RawModel): Contender<Float32Array> => ({
      name,
      call: () => of.run(feed),
      verify: (given) => {
        for (const values of given) assertSame(values, answers, name);
      },
    });
    const safetensors = rows.map((row) => encodeMessage(URI, inputsOf(model, row)));
    const arrow = rows.map((row) => arrowMessage(URI, inputsOf(model, row)));
    const check = (uris: readonly (readonly string[])[]) => checkStored(uris, answers, served, reader);
    const contenders = [
      rawRun('raw', raw),
      eventContender(`safetensors, ${redis.kind}`, safetensors, served, check),
      eventContender(`Arrow, ${redis.kind}`, arrow, served, check),
      rawRun('raw against itself', again),
      hsetContender(answers, each.rows, reader),
    ];
    const measured = await interleave(contenders as Contender[], {
      repeats: bench.repeats,
      repeatMs: bench.ms(each.repeatMs),
      blockMs: BLOCK_MS,
      collect: true,
      between: async () => void (await reader.flushall()),
    });
    return [...rowsOf(each, measured), await countRoundTrips(each, model, redis.url, safetensors)];
  } finally {
    reader.disconnect();
    await raw.close();
    await again.close();
    await served.close();
  }
}

/** Bodies hold URI where a uri will stand. */
const eventOf = (bodies: readonly string[], uris: readonly string[]) =>
  queueEvent(bodies.map((body, row) => body.replace(URI, elementAt(uris, row, 'uris'))));

let made = 0;

const HSET = 'one pipelined HSET';

function eventContender(
  name: string,
  bodies: readonly string[],
  served: Served,
  check: (uris: readonly (readonly string[])[]) => Promise<void>,
): Contender<SQSBatchResponse> {
  let uris: string[][] = [];
  let events: SQSEvent[] = [];
  return {
    name,
    prepare: (calls) => {
      const newUris = (event: number) => bodies.map((_, row) => `event-${event}-row-${row}`);
      uris = Array.from({ length: calls }, () => newUris(made++));
      events = uris.map((names) => eventOf(bodies, names));
    },
    call: (index) => served.batch(elementAt(events, index, 'events')),
    verify: async (responses) => {
      for (const { batchItemFailures } of responses)
        if (batchItemFailures.length > 0) throw new Error(`${name}: ${batchItemFailures.length} came back`);
      await check(uris);
    },
  };
}

/** The least that keeps a result for a client: a pipeline with one HSET for each record. */
function hsetContender(
  answers: Float32Array,
  rows: number,
  redis: Redis,
): Contender<Awaited<ReturnType<ChainableCommander['exec']>>> {
  const width = answers.length / rows;
  const values = Array.from({ length: rows }, (_, row) =>
    JSON.stringify(Array.from(answers.subarray(row * width, (row + 1) * width))),
  );
  return {
    name: HSET,
    call: async () => {
      const event = made++;
      const pipeline = redis.pipeline();
      for (const [row, value] of values.entries()) pipeline.hset(`hset-${event}-row-${row}`, 'value', value);
      return pipeline.exec();
    },
    verify: (replies) => {
      for (const [error, added] of replies.flatMap((of) => of ?? []))
        if (error || added !== 1) throw error ?? new Error(`${HSET}: a key was there before`);
    },
  };
}

/** Every record has its result, and those of the last event hold the raw answers. */
async function checkStored(
  uris: readonly (readonly string[])[],
  answers: Float32Array,
  served: Served,
  reader: Redis,
): Promise<void> {
  for (const names of uris) {
    const scores = await Promise.all(names.map((uri) => reader.zscore(indexKey(JOB), uri)));
    if (scores.includes(null)) throw new Error('an event left a record without a result');
  }
  const last = uris.at(-1) ?? [];
  const results = await Promise.all(last.map((uri) => served.results.get(uri)));
  const width = answers.length / last.length;
  for (const [row, result] of results.entries()) {
    const expected = answers.subarray(row * width, (row + 1) * width);
    assertSame(floatsOf(result?.outputs[0]), expected, `row ${row}`);
  }
}

function rowsOf({ model, rows }: BatchCase, measured: readonly Measured[]): Row[] {
  const raw = elementAt(measured, 0, 'measured');
  const rates = (of: Measured) => of.repeats.map((latencies) => rows * rateOf(latencies));
  const hset = elementAt(measured, measured.length - 1, 'measured');
  return measured.slice(1, -1).flatMap((of): Row[] => {
    const row = { scenario: 'batch', name: `${model}, ${rows} rows, ${of.name}` };
    const added = of.cpuMs.map((ms, repeat) => ms - elementAt(raw.cpuMs, repeat, 'raw.cpuMs'));
    const cpu = pairwise(of.cpuMs, raw.cpuMs, (a, b) => (100 * b) / a);
    return [
      {
        ...row,
        metric: 'efficiency',
        unit: '%',
        raw: spreadOf(rates(raw)).median,
        ours: spreadOf(rates(of)).median,
        baseUnit: 'rows/s',
        value: pairwise(rates(of), rates(raw), (a, b) => (100 * a) / b),
        note: `by processor time ${cpu.median.toFixed(1)} %`,
      },
      {
        ...row,
        metric: 'added processor time a record',
        unit: 'us',
        raw: (spreadOf(raw.cpuMs).median * 1000) / rows,
        ours: (spreadOf(of.cpuMs).median * 1000) / rows,
        baseUnit: 'us',
        value: spreadOf(added.map((ms) => (ms * 1000) / rows)),
      },
      {
        ...row,
        metric: `the same against ${HSET}`,
        unit: 'x',
        raw: (spreadOf(hset.cpuMs).median * 1000) / rows,
        ours: (spreadOf(added).median * 1000) / rows,
        baseUnit: 'us',
        value: pairwise(added, hset.cpuMs, (a, b) => a / b),
      },
    ];
  });
}

async function countRoundTrips(
  each: BatchCase,
  model: BenchModel,
  redisUrl: string,
  bodies: readonly string[],
): Promise<Row> {
  const { hostname, port } = new URL(redisUrl);
  const proxy = await startCountingProxy({ host: hostname, port: Number(port) });
  const served = serve(model, `redis://127.0.0.1:${proxy.port}`, { batchSize: each.rows });
  const counts: number[] = [];
  try {
    for (let event = 0; event <= COUNTED_EVENTS; event++) {
      const before = proxy.roundTrips();
      const uris = bodies.map((_, row) => `counted-${event}-${row}`);
      const { batchItemFailures } = await served.batch(eventOf(bodies, uris));
      if (batchItemFailures.length > 0) throw new Error(`${batchItemFailures.length} records came back`);
      counts.push(proxy.roundTrips() - before);
    }
  } finally {
    await served.close();
    await proxy.close();
  }
  return {
    scenario: 'batch',
    name: `${each.model}, ${each.rows} rows, Redis round trips of an event`,
    metric: 'round trips',
    unit: '',
    value: spreadOf(counts.slice(1)),
    note: `first event of a connection ${counts[0]}`,
  };
}
