/** Curves of one event of the batch function or of predict. The models do next to nothing: the path to them is measured. */

import { readFile } from 'node:fs/promises';
import type { APIGatewayProxyEventV2, SQSEvent } from 'aws-lambda';
import { Redis } from 'ioredis';
import { encodeMessage } from '../../lib/codecs/message.ts';
import { encodePointer } from '../../lib/codecs/pointer.ts';
import { indexKey, payloadPrefix } from '../../lib/contract/names.ts';
import { elementAt, present } from '../../lib/contract/present.ts';
import { putText } from '../../lib/s3/objects.ts';
import { arrowMessage, inputsOf } from '../messages.ts';
import { type BenchModel, randomRows } from '../models.ts';
import { answersFor, assertSame } from '../raw.ts';
import type { Work } from '../sample.ts';
import { CONTEXT, JOB, predictEvent, predictionOf, queueEvent, serve } from '../served.ts';
import { type Curve, type Point, sampled } from './curve.ts';
import { growingModel } from './models.ts';

type Event = SQSEvent | APIGatewayProxyEventV2;

/** Redis is emptied before each call, because the first result of a uri stays and is cheaper to write again. */
async function eventWork({
  input,
  warm,
  redisUrl,
  endpoint,
  expected = {},
  ...point
}: Point): Promise<Work<Event, string>> {
  const served = serve(present(point.model, 'model'), redisUrl, { batchSize: 256, endpoint });
  const redis = new Redis(redisUrl);
  return {
    async input(isWarm) {
      await redis.flushdb();
      return JSON.parse(await readFile(isWarm ? warm : input, 'utf8')) as Event;
    },
    async call(event) {
      if (!('Records' in event)) return (await served.predict(event, CONTEXT)).body ?? '';
      const { batchItemFailures } = await served.batch(event);
      if (batchItemFailures.length > 0) throw new Error(`${batchItemFailures.length} records came back`);
      return '';
    },
    async check(answer, event) {
      const records = 'Records' in event ? event.Records.length : 0;
      const found = await redis.zcard(indexKey(JOB));
      if (found !== records) throw new Error(`${found} results of ${records} records`);
      for (const [uri, values] of Object.entries(expected)) {
        const result =
          answer === '' ? (await served.results.get(uri))?.outputs[0]?.data : predictionOf(answer);
        assertSame(result as ArrayLike<number>, values, uri);
      }
    },
    async close() {
      redis.disconnect();
      await served.close();
    },
  } satisfies Work<Event, string>;
}

const eventOf = (...bodies: readonly string[]) => JSON.stringify(queueEvent(bodies));
const bodyOf = (model: BenchModel, data: Float32Array) =>
  encodeMessage('record-0', inputsOf({ ...model, rowShape: [data.length] }, data));
const meanOf = (values: ArrayLike<number>) => Array.from(values).reduce((a, b) => a + b, 0) / values.length;

const ROWS = 16;
const RECORD_XS = [1, 10, 100, 1_000, 10_000];
const WIRES: Readonly<Record<string, (uri: string, model: BenchModel, row: Float32Array) => string>> = {
  safetensors: (uri, model, row) => encodeMessage(uri, inputsOf(model, row)),
  Arrow: (uri, model, row) => arrowMessage(uri, inputsOf(model, row)),
  JSON: (uri, model, row) => encodeMessage(uri, new Map([[model.input, { kind: 'json', value: [...row] }]])),
};

const records: Curve = {
  name: 'records',
  xLabel: 'records of an event',
  series: { safetensors: RECORD_XS, Arrow: RECORD_XS, JSON: RECORD_XS },
  measure: sampled(eventWork),
  async prepare(x, series, bench) {
    const model = await bench.model('mlp');
    const rows = randomRows(61, model.rowShape, ROWS);
    const answers = await answersFor(model, rows);
    const wire = present(WIRES[series], `wire ${series}`);
    const bodies = Array.from({ length: x }, (_, i) =>
      wire(`record-${i}`, model, elementAt(rows, i % ROWS, 'rows')),
    );
    const answerOf = (i: number) => [`record-${i}`, elementAt(answers, i % ROWS, 'answers')];
    const expected = Object.fromEntries([answerOf(0), answerOf(x - 1)]);
    return { model, input: eventOf(...bodies), warm: eventOf(elementAt(bodies, 0, 'bodies')), expected };
  },
};

const IN_S3 = 'in S3 (claim check)';
/** Eighths: a float32 holds their sum exactly, in any order of addition. */
const eighths = (bytes: number) => Float32Array.from({ length: bytes / 4 }, (_, i) => (i % 8) / 8);

const size: Curve = {
  name: 'size',
  xLabel: 'bytes of the record’s tensor',
  series: { 'in the message': [1e3, 16e3, 64e3, 256e3, 768e3], [IN_S3]: [256e3, 1e6, 4e6, 8e6, 16e6] },
  measure: sampled(eventWork),
  async prepare(x, series, bench) {
    const model = await growingModel('mean', 1, bench.folder);
    let body = bodyOf(model, eighths(x));
    if (series === IN_S3) {
      const key = `${payloadPrefix(JOB)}${x}`;
      await putText((await bench.aws()).s3, { bucket: JOB, key }, body);
      body = encodePointer('record-0', key, body.length);
    }
    const warm = eventOf(bodyOf(model, eighths(1e3)));
    return { model, input: eventOf(body), warm, expected: { 'record-0': [meanOf(eighths(x))] } };
  },
};

const body: Curve = {
  name: 'body',
  xLabel: 'bytes of the body',
  series: { JSON: [1e3, 1e4, 1e5, 1e6, 3e6, 6e6] },
  measure: sampled(eventWork),
  async prepare(x, _, bench) {
    const model = await growingModel('mean', 1, bench.folder);
    // Numbers of 9 digits, as a float32 needs them, take 13 characters at most.
    const row = elementAt(randomRows(62, [Math.floor((x - 40) / 13)], 1), 0, 'rows');
    const numbers = Array.from(row, (value) => Number(value.toPrecision(9)));
    const eventOfSome = (some: readonly number[]) =>
      JSON.stringify(predictEvent(JSON.stringify({ instances: [{ [model.input]: some }] })));
    const input = eventOfSome(numbers);
    return { model, input, warm: eventOfSome(numbers.slice(0, 70)), expected: { '': [meanOf(numbers)] } };
  },
};

const outputs: Curve = {
  name: 'outputs',
  xLabel: 'numbers of the result',
  series: { 'one record': [10, 100, 1e3, 1e4, 1e5, 1e6] },
  measure: sampled(eventWork),
  async prepare(x, _, bench) {
    const model = await growingModel('output', x, bench.folder);
    const expected = { 'record-0': Float32Array.from({ length: x }, (__, i) => (i + 1) / 2) };
    // An event without records opens the model.
    return { model, input: eventOf(bodyOf(model, Float32Array.of(0.5))), warm: eventOf(), expected };
  },
};

export const EVENT_CURVES: readonly Curve[] = [records, size, body, outputs];
