/**
 * Rows a second of the function of jobs over files, beside those of the batch function for the same rows and model: a message of a job is
 * a range of NDJSON whose answers become an object, an event of the queue is 256 records whose answers are saved in Redis. S3 is memory, or
 * that of a single machine, whose server runs in this process too; on AWS it costs the wait and not this time.
 */
import assert from 'node:assert/strict';
import type { SQSBatchResponse, SQSEvent } from 'aws-lambda';
import { encodeMessage } from '../../lib/codecs/message.ts';
import { elementAt } from '../../lib/contract/present.ts';
import type { Inputs } from '../../lib/contract/values.ts';
import { plainAnswer } from '../../lib/http/plain.ts';
import { type JobDeps, serveJobs } from '../../lib/jobs/serve.ts';
import type { JobStore } from '../../lib/jobs/store.ts';
import { JobObjects } from '../../lib/s3/job-store.ts';
import type { Bench, Scenario } from '../bench.ts';
import { type Contender, interleave, type Measured, pairwise, rateOf, spreadOf } from '../measure.ts';
import { inputsOf, URI } from '../messages.ts';
import { type ModelName, randomRows } from '../models.ts';
import { answersOf, assertSame, openRaw } from '../raw.ts';
import type { Line, Row } from '../report.ts';
import { CONTEXT, JOB, nestedNumbers, queueEvent, type Served, serve } from '../served.ts';

interface JobCase {
  readonly model: ModelName;
  /** An event of the queue has as many. */
  readonly rows: number;
  /** How often they are in a message of a job. */
  readonly times: number;
}

const CASES: readonly JobCase[] = [
  { model: 'convnet', rows: 32, times: 2 },
  { model: 'mlp', rows: 256, times: 16 },
];
const REPEAT_MS = 1_500;
const BLOCK_MS = 400;

export const jobs: Scenario = {
  name: 'jobs',
  about: 'rows a second of jobs over files against those of the batch function',
  async run(bench) {
    const lines: Line[] = [];
    for (const each of CASES.filter(({ model }) => bench.wants(model)))
      lines.push(...(await measureCase(bench, each)));
    return lines;
  },
};

async function measureCase(bench: Bench, { model: name, rows: count, times }: JobCase): Promise<Row[]> {
  const model = await bench.model(name);
  const [redis, aws] = [await bench.redis(), await bench.aws()];
  const rows = randomRows(21, model.rowShape, count);
  const raw = await openRaw(model);
  const served = serve(model, redis.url, { batchSize: count });
  const answers = await answersOf(raw, rows);
  const lines = rows.map((row) => JSON.stringify({ [model.input]: nestedNumbers(row, model.rowShape) }));
  const file = Buffer.from(`${Array.from({ length: times }, () => lines.join('\n')).join('\n')}\n`);
  const memory = memoryStore(file);
  const local = new JobObjects(aws.s3, JOB);
  await local.putObject({ bucket: JOB, key: 'rows.ndjson' }, file);
  const check = checkOf(answers, count * times, model.output);
  const contenders = [
    queueContender(
      'the batch function, JSON',
      rows.map((row, i) => encodeMessage(`${URI}-${i}`, jsonInputs(model.input, row, model.rowShape))),
      served,
    ),
    queueContender(
      'the batch function, safetensors',
      rows.map((row, i) => encodeMessage(`${URI}-${i}`, inputsOf(model, row))),
      served,
    ),
    jobContender('jobs, S3 in memory', {
      served,
      store: memory,
      bytes: file.length,
      rows: count * times,
      check,
    }),
    jobContender('jobs, S3 of one machine', {
      served,
      store: local,
      bytes: file.length,
      rows: count * times,
      check,
    }),
  ];
  try {
    const plan = { repeats: bench.repeats, repeatMs: bench.ms(REPEAT_MS), blockMs: BLOCK_MS, collect: true };
    const measured = await interleave(contenders, plan);
    return rowsOf(name, measured, [count, count, count * times, count * times]);
  } finally {
    await raw.close();
    await served.close();
  }
}

/** Compares the part of a message with the raw answers. */
function checkOf(answers: readonly Float32Array[], rows: number, output: string): JobWork['check'] {
  return async (store, unit) => {
    for await (const [part] of store.pages({
      bucket: JOB,
      key: `jobs/${JOB}/run/bench/parts/${unitOf(unit)}`,
    })) {
      if (!part) break;
      const text = Buffer.from(await store.read({ bucket: JOB, ...part }, 0, part.bytes)).toString();
      const values = text
        .split('\n')
        .slice(0, -1)
        .flatMap((line) => valuesOf(line, output));
      if (values.length !== rows) throw new Error(`${values.length} answers`);
      for (const [i, value] of values.entries())
        assertSame(value, elementAt(answers, i % answers.length, 'answers'), `row ${i}`);
      return;
    }
    throw new Error(`no part of ${unit}`);
  };
}

const jsonInputs = (name: string, row: Float32Array, shape: readonly number[]): Inputs =>
  new Map([[name, { kind: 'json', value: nestedNumbers(row, shape) }]]);

const unitOf = (unit: number) => String(unit).padStart(6, '0');

let made = 0;

function queueContender(name: string, bodies: readonly string[], served: Served): Contender {
  let events: SQSEvent[] = [];
  return {
    name,
    prepare: (calls) => {
      events = Array.from({ length: calls }, () => {
        const event = made++;
        return queueEvent(bodies.map((body) => body.replace(URI, `event-${event}`)));
      });
    },
    call: async (index) => assertTaken(name, await served.batch(elementAt(events, index, 'events'))),
    verify: () => undefined,
  };
}

interface JobWork {
  readonly served: Served;
  readonly store: JobStore;
  readonly bytes: number;
  readonly rows: number;
  readonly check: (store: JobStore, unit: number) => Promise<void>;
}

/** The function of jobs over files that hold rows. */
export function jobsOf(served: Served, store: JobStore, send: JobDeps['send']): ReturnType<typeof serveJobs> {
  return serveJobs({
    job: JOB,
    bucket: JOB,
    model: served.model,
    store,
    observers: served.observers,
    send,
    endpoint: () => assert.fail('only a batch names an endpoint'),
    answerText: (outcome, version) => plainAnswer([outcome], undefined, version),
    most: 5,
    memoryMB: 1769,
    arch: process.arch,
    now: Date.now,
  });
}

function jobContender(name: string, { served, store, bytes, rows, check }: JobWork): Contender {
  const handle = jobsOf(served, store, async () => undefined);
  const file = { bucket: JOB, key: 'rows.ndjson', etag: '', bytes };
  const source = { kind: 'table', format: 'ndjson', file, name: 'rows.ndjson', start: 0, end: bytes };
  let last = 0;
  let events: SQSEvent[] = [];
  return {
    name,
    prepare: (calls) => {
      events = Array.from({ length: calls }, () => {
        last = made++;
        return queueEvent([JSON.stringify({ do: 'run', id: 'bench', unit: last, row: 0, rows, source })]);
      });
    },
    call: async (index) => assertTaken(name, await handle(elementAt(events, index, 'events'), CONTEXT)),
    verify: () => check(store, last),
  };
}

export function assertTaken(name: string, { batchItemFailures }: SQSBatchResponse): void {
  if (batchItemFailures.length > 0) throw new Error(`${name}: ${batchItemFailures.length} came back`);
}

function valuesOf(line: string, output: string): Float32Array[] {
  const { outputs }: { outputs: Record<string, number[][]> } = JSON.parse(line);
  return (outputs[output] ?? []).map((values) => Float32Array.from(values.flat(Number.POSITIVE_INFINITY)));
}

/** Only what a message of rows asks for. */
function memoryStore(file: Buffer): JobStore {
  const objects = new Map<string, Uint8Array>([['rows.ndjson', file]]);
  const none = () => Promise.reject(new Error('a message of rows does not ask for this'));
  return {
    text: none,
    put: none,
    putNew: none,
    remove: none,
    size: none,
    begin: none,
    putPart: none,
    complete: none,
    async *pages({ key }) {
      const found = [...objects].filter(([name]) => name.startsWith(key));
      yield found.map(([name, body]) => ({ key: name, bytes: body.length, etag: '' }));
    },
    read: async ({ key }, start, end) => (objects.get(key) ?? file).subarray(start, end),
    async putObject({ key }, body) {
      if (objects.size > 8) objects.delete([...objects.keys()][1] ?? '');
      objects.set(key, body);
    },
  };
}

function rowsOf(model: string, measured: readonly Measured[], counts: readonly number[]): Row[] {
  const rates = (of: Measured, i: number) =>
    of.repeats.map((latencies) => elementAt(counts, i, 'counts') * rateOf(latencies));
  return measured.slice(0, 2).flatMap((queue, q) =>
    measured.slice(2).map((of, i): Row => {
      const [theirs, ours] = [rates(queue, q), rates(of, i + 2)];
      return {
        scenario: 'jobs',
        name: `${model}, ${of.name}, against ${queue.name}`,
        metric: 'rows a second',
        unit: 'x',
        raw: spreadOf(theirs).median,
        ours: spreadOf(ours).median,
        baseUnit: 'rows/s',
        value: pairwise(ours, theirs, (a, b) => a / b),
      };
    }),
  );
}
