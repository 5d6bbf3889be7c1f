/**
 * In: queue events. Out: rows a second of the batch function as a share of raw runs of the same batch; Redis round
 * trips of one event. Trap: the first result of a uri stays, and writing it again is cheaper; so every event has new
 * uris, made outside the clock.
 */
import type { SQSBatchResponse, SQSEvent } from 'aws-lambda';
import { Redis } from 'ioredis';
import { encodeMessage } from '../../lib/codecs/message.ts';
import { indexKey } from '../../lib/contract/names.ts';
import type { Bench, Scenario } from '../bench.ts';
import {
  type Contender,
  interleave,
  type Measured,
  pairwise,
  perRepeat,
  rateOf,
  spreadOf,
} from '../measure.ts';
import { arrowMessage, inputsOf, URI } from '../messages.ts';
import { type BenchModel, type ModelName, randomRows } from '../models.ts';
import type { RunningRedis } from '../processes/redis.ts';
import { answersOf, assertSame, openRaw, type RawModel } from '../raw.ts';
import { type Line, type Row, signed, type Target } from '../report.ts';
import { startCountingProxy } from '../round-trips.ts';
import { JOB, queueEvent, type Served, serve } from '../served.ts';

const COUNTED_EVENTS = 20;
/** Some 4 events of the convnet: their own garbage, 50 MB, is collected while they are timed. */
const BLOCK_MS = 200;

interface BatchCase {
  readonly model: ModelName;
  readonly rows: number;
  readonly target: Target;
  readonly repeatMs: number;
}

const CASES: readonly BatchCase[] = [
  { model: 'convnet', rows: 32, target: { atLeast: 95 }, repeatMs: 800 },
  { model: 'mlp', rows: 256, target: { atLeast: 60 }, repeatMs: 400 },
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

/** Bodies of messages, each with a uri of its own put in where `uri` stands. */
type Wire = (uri: string, row: number) => string;

async function measureCase(bench: Bench, each: BatchCase): Promise<Row[]> {
  const model = await bench.model(each.model);
  const redis = await bench.redis();
  const rows = randomRows(21, model.rowShape, each.rows);
  const raw = await openRaw(model);
  const again = await openRaw(model);
  const served = serve(model, redis.url, each.rows);
  const reader = new Redis(redis.url);
  try {
    await answersOf(raw, rows);
    const feed = raw.feed(rows);
    const answers = Float32Array.from(await raw.run(feed));
    const run = new EventRun(model, rows, answers, served, reader);
    const rawRun = (name: string, of: RawModel): Contender<Float32Array> => ({
      name,
      call: () => of.run(feed),
      verify: (given) => {
        for (const values of given) assertSame(values, answers, name);
      },
    });
    const contenders = [
      rawRun('raw', raw),
      run.contender('safetensors', safetensorsWire(model, rows), served.batch, true),
      run.contender('Arrow', arrowWire(model, rows), served.batch, true),
      run.contender('no store', safetensorsWire(model, rows), served.batchWithoutStore, false),
      rawRun('raw again', again),
    ];
    const between = async () => void (await reader.flushall());
    const measured = await interleave(contenders as Contender[], {
      repeatMs: each.repeatMs,
      blockMs: BLOCK_MS,
      collect: true,
      between,
    });
    return [...rowsOf(each, redis, measured), await countRoundTrips(each, model, rows, redis)];
  } finally {
    reader.disconnect();
    await raw.close();
    await again.close();
    await served.close();
  }
}

/** Makes events with new uris, and checks what became of them. */
class EventRun {
  readonly #model: BenchModel;
  readonly #rows: readonly Float32Array[];
  readonly #answers: Float32Array;
  readonly #served: Served;
  readonly #reader: Redis;
  #made = 0;

  constructor(
    model: BenchModel,
    rows: readonly Float32Array[],
    answers: Float32Array,
    served: Served,
    reader: Redis,
  ) {
    this.#model = model;
    this.#rows = rows;
    this.#answers = answers;
    this.#served = served;
    this.#reader = reader;
  }

  contender(
    name: string,
    wire: Wire,
    handler: (event: SQSEvent) => Promise<SQSBatchResponse>,
    stored: boolean,
  ): Contender<SQSBatchResponse> {
    let events: SQSEvent[] = [];
    let uris: string[][] = [];
    return {
      name,
      prepare: (calls) => {
        uris = Array.from({ length: calls }, () => this.#newUris());
        events = uris.map((names) => queueEvent(names.map((uri, row) => wire(uri, row))));
      },
      call: (index) => handler(events[index] as SQSEvent),
      verify: async (responses) => {
        for (const { batchItemFailures } of responses) {
          if (batchItemFailures.length > 0) throw new Error(`${name}: ${batchItemFailures.length} came back`);
        }
        if (stored) await this.#checkStored(name, uris);
      },
    };
  }

  #newUris(): string[] {
    const event = this.#made++;
    return this.#rows.map((_, row) => `event-${event}-row-${row}`);
  }

  /** Every record has its result, and those of the last event hold the raw answers. */
  async #checkStored(name: string, uris: readonly (readonly string[])[]): Promise<void> {
    const index = indexKey(JOB);
    for (const names of uris) {
      const scores = await Promise.all(names.map((uri) => this.#reader.zscore(index, uri)));
      if (scores.includes(null)) throw new Error(`${name}: an event left a record without a result`);
    }
    const results = await Promise.all((uris.at(-1) ?? []).map((uri) => this.#served.results.get(uri)));
    const length = this.#answers.length / this.#rows.length;
    for (const [row, result] of results.entries()) {
      const output = result?.outputs[0];
      if (output?.name !== this.#model.output) throw new Error(`${name}: row ${row} has no output`);
      const expected = this.#answers.subarray(row * length, (row + 1) * length);
      assertSame(output.data as Float32Array, expected, `${name}, row ${row}`);
    }
  }
}

function safetensorsWire(model: BenchModel, rows: readonly Float32Array[]): Wire {
  const bodies = rows.map((row) => encodeMessage(URI, inputsOf(model, row)));
  return (uri, row) => (bodies[row] as string).replace(URI, uri);
}

function arrowWire(model: BenchModel, rows: readonly Float32Array[]): Wire {
  const bodies = rows.map((row) => arrowMessage(URI, inputsOf(model, row)));
  return (uri, row) => (bodies[row] as string).replace(URI, uri);
}

function rowsOf(each: BatchCase, redis: RunningRedis, measured: readonly Measured[]): Row[] {
  const raw = measured[0] as Measured;
  const rates = (of: Measured) => perRepeat(of, (latencies) => each.rows * rateOf(latencies));
  return measured.slice(1).map((of): Row => {
    const isControl = of.name === 'raw again';
    const store = of.name === 'no store' ? 'safetensors, no store' : `${of.name}, ${redis.kind}`;
    const cpu = pairwise(of.cpuMs, raw.cpuMs, (a, b) => (100 * b) / a);
    const addedUs = pairwise(of.cpuMs, raw.cpuMs, (a, b) => ((a - b) * 1000) / each.rows);
    return {
      scenario: 'batch',
      name: `${each.model}, ${each.rows} rows, ${isControl ? 'raw against itself' : store}`,
      metric: 'efficiency',
      unit: '%',
      raw: spreadOf(rates(raw)).median,
      ours: spreadOf(rates(of)).median,
      baseUnit: 'rows/s',
      value: pairwise(rates(of), rates(raw), (a, b) => (100 * a) / b),
      ...(of.name === 'safetensors' || of.name === 'Arrow' ? { target: each.target } : {}),
      note: `by processor time ${cpu.median.toFixed(1)} %, ${signed(addedUs.median, 1)} us a row`,
    };
  });
}

async function countRoundTrips(
  each: BatchCase,
  model: BenchModel,
  rows: readonly Float32Array[],
  redis: RunningRedis,
): Promise<Row> {
  const { hostname, port } = new URL(redis.url);
  const proxy = await startCountingProxy({ host: hostname, port: Number(port) });
  const served = serve(model, `redis://127.0.0.1:${proxy.port}`, each.rows);
  const wire = safetensorsWire(model, rows);
  const send = async (event: number) => {
    const before = proxy.roundTrips();
    const uris = rows.map((_, row) => `counted-${event}-${row}`);
    const { batchItemFailures } = await served.batch(queueEvent(uris.map((uri, row) => wire(uri, row))));
    if (batchItemFailures.length > 0) throw new Error('records came back');
    return proxy.roundTrips() - before;
  };
  try {
    const first = await send(0);
    const counts: number[] = [];
    for (let event = 1; event <= COUNTED_EVENTS; event++) counts.push(await send(event));
    return {
      scenario: 'batch',
      name: `${each.model}, ${each.rows} rows, Redis round trips of an event`,
      metric: 'round trips',
      unit: '',
      value: spreadOf(counts),
      target: { atMost: 1 },
      note: `first event of a connection ${first}`,
    };
  } finally {
    await served.close();
    await proxy.close();
  }
}
