/**
 * SingleStream: one request after the other. In: events of POST /predict, and of /v2 with binary tensors. Out: what the
 * handler adds to a raw run, p50 and p90.
 * Trap: two sessions of one model are not equally fast to the last microsecond; a second raw session runs along and
 * shows how much of a difference is nothing but that and noise.
 */
import type { APIGatewayProxyEventV2, APIGatewayProxyStructuredResultV2 } from 'aws-lambda';
import { DEFAULT_JOB_NAME } from '../../lib/contract/names.ts';
import type { Bench, Scenario } from '../bench.ts';
import { bgrPlanes, makeImage } from '../images.ts';
import {
  type Contender,
  interleave,
  type Measured,
  pairwise,
  perRepeat,
  quantile,
  spreadOf,
} from '../measure.ts';
import { type BenchModel, randomRows } from '../models.ts';
import { answersOf, assertSame, openRaw, type RawModel } from '../raw.ts';
import { bytesText, type Line, type Row, signed, type Target } from '../report.ts';
import { CONTEXT, nestedNumbers, predictEvent, predictionOf, type Served, serve } from '../served.ts';

const REPEAT_MS = 400;
/** Different inputs that take turns; no cache may see the same one twice in a row. */
const INPUTS = 16;
const IMAGES = 8;

/** Requests and what the model is to see of each. */
export interface PredictCase {
  readonly name: string;
  readonly model: BenchModel;
  readonly rows: readonly Float32Array[];
  /** JSON of each request. */
  readonly bodies: readonly string[];
  readonly target?: Target;
  readonly note: string;
}

/** The same as what the handler is called with, and how its answer is read. */
interface HandlerCase extends Omit<PredictCase, 'bodies'> {
  readonly events: readonly APIGatewayProxyEventV2[];
  readonly valuesOf: (response: APIGatewayProxyStructuredResultV2) => ArrayLike<number>;
}

export const single: Scenario = {
  name: 'single',
  about: 'latency that the predict handler adds to a raw run, p50 and p90',
  async run(bench) {
    const lines: Line[] = [];
    const cases = [...(await predictCases(bench)).map(ofPredict), ...(await binaryCases(bench))];
    for (const each of cases) lines.push(...(await measureCase(bench, each)));
    return lines;
  },
};

export async function predictCases(bench: Bench): Promise<PredictCase[]> {
  const mlp = await bench.model('mlp');
  const convnet = await bench.model('convnet');
  const body = (value: unknown, model: BenchModel) =>
    JSON.stringify({ instances: [{ [model.input]: value }] });
  const tensors = (model: BenchModel, seed: number, count: number) => {
    const rows = randomRows(seed, model.rowShape, count);
    const bodies = rows.map((row) => body(nestedNumbers(row, model.rowShape), model));
    return { model, rows, bodies, note: sizeNote(bodies) };
  };
  const images = await Promise.all(Array.from({ length: IMAGES }, (_, i) => makeImage(100 + i, 96, 96)));
  const ofImages = (encoded: 'png' | 'jpeg') => {
    const bodies = images.map((image) => body(image[encoded].toString('base64'), convnet));
    const rows = images.map((image) => bgrPlanes(image[`${encoded}Pixels`]));
    return { model: convnet, rows, bodies, note: sizeNote(bodies) };
  };
  const cases = [
    { name: 'MLP, 64 floats as JSON', ...tensors(mlp, 11, INPUTS), target: { atMost: 0.1 } },
    { name: 'convnet, tensor as JSON', ...tensors(convnet, 12, IMAGES) },
    { name: 'convnet, PNG 96x96 in base64', ...ofImages('png') },
    { name: 'convnet, JPEG 96x96 in base64', ...ofImages('jpeg') },
  ];
  return cases.filter(({ name }) => bench.wants(name));
}

function ofPredict({ bodies, ...each }: PredictCase): HandlerCase {
  return { ...each, events: bodies.map(predictEvent), valuesOf: ({ body }) => predictionOf(body) };
}

/** The Open Inference Protocol, binary in and out. */
async function binaryCases(bench: Bench): Promise<HandlerCase[]> {
  const of = (name: string, model: BenchModel, seed: number, count: number) => {
    const rows = randomRows(seed, model.rowShape, count);
    const events = rows.map((row) => binaryEvent(row, model));
    const note = sizeNote(events.map(({ body = '' }) => body));
    return { name, model, rows, events, valuesOf: binaryValuesOf, note };
  };
  const cases = [
    of('MLP, 64 floats as binary', await bench.model('mlp'), 13, INPUTS),
    {
      ...of('convnet, tensor as binary', await bench.model('convnet'), 14, IMAGES),
      target: { atMost: 0.25 },
    },
  ];
  return cases.filter(({ name }) => bench.wants(name));
}

/** As API Gateway hands a body of bytes to Lambda. */
function binaryEvent(row: Float32Array, model: BenchModel): APIGatewayProxyEventV2 {
  const parameters = { binary_data_size: row.byteLength };
  const input = { name: model.input, datatype: 'FP32', shape: [1, ...model.rowShape], parameters };
  const json = Buffer.from(JSON.stringify({ inputs: [input], parameters: { binary_data_output: true } }));
  const bytes = Buffer.concat([json, new Uint8Array(row.buffer, row.byteOffset, row.byteLength)]);
  const event = predictEvent(bytes.toString('base64'));
  const path = `/v2/models/${DEFAULT_JOB_NAME}/infer`;
  const binary: APIGatewayProxyEventV2 = {
    ...event,
    routeKey: 'POST /v2/{path+}',
    rawPath: path,
    headers: {
      ...event.headers,
      'content-length': String(bytes.length),
      'content-type': 'application/octet-stream',
      'inference-header-content-length': String(json.length),
    },
    requestContext: { ...event.requestContext, http: { ...event.requestContext.http, path } },
    isBase64Encoded: true,
  };
  return JSON.parse(JSON.stringify(binary)) as APIGatewayProxyEventV2;
}

function binaryValuesOf({ body = '', headers }: APIGatewayProxyStructuredResultV2): ArrayLike<number> {
  const bytes = Buffer.from(body, 'base64');
  const start = Number(headers?.['inference-header-content-length']);
  return new Float32Array(new Uint8Array(bytes.subarray(start)).buffer);
}

function sizeNote(bodies: readonly string[]): string {
  return bytesText(bodies.reduce((sum, text) => sum + text.length, 0) / bodies.length);
}

async function measureCase(bench: Bench, each: HandlerCase): Promise<Row[]> {
  const raw = await openRaw(each.model);
  const again = await openRaw(each.model);
  const served = serve(each.model, (await bench.redis()).url, 1);
  try {
    const answers = await answersOf(raw, each.rows);
    const contenders = [
      rawContender('raw', raw, each.rows, answers),
      handlerContender(served, each, answers),
      rawContender('raw again', again, each.rows, answers),
    ];
    const [rawTimes, ours, control] = await interleave(contenders as Contender[], { repeatMs: REPEAT_MS });
    return [0.5, 0.9].map((share) =>
      rowOf(each, share, rawTimes as Measured, ours as Measured, control as Measured),
    );
  } finally {
    await raw.close();
    await again.close();
    await served.close();
  }
}

export function rawContender(
  name: string,
  raw: RawModel,
  rows: readonly Float32Array[],
  answers: readonly Float32Array[],
): Contender<Float32Array> {
  const feeds = rows.map((row) => raw.feed([row]));
  return {
    name,
    call: (index) => raw.run(feeds[index % feeds.length] as (typeof feeds)[number]),
    verify: (given) => {
      for (const [i, values] of given.entries()) {
        assertSame(values, answers[i % answers.length] as Float32Array, `${name}, call ${i}`);
      }
    },
  };
}

function handlerContender(
  served: Served,
  { name, events, valuesOf }: HandlerCase,
  answers: readonly Float32Array[],
): Contender<APIGatewayProxyStructuredResultV2> {
  return {
    name: 'handler',
    call: (index) => served.predict(events[index % events.length] as APIGatewayProxyEventV2, CONTEXT),
    verify: (responses) => {
      for (const [i, response] of responses.entries()) {
        if (response.statusCode !== 200) throw new Error(`${name}: ${response.statusCode} ${response.body}`);
        assertSame(valuesOf(response), answers[i % answers.length] as Float32Array, name);
      }
    },
  };
}

function rowOf(each: HandlerCase, share: number, raw: Measured, ours: Measured, control: Measured): Row {
  const at = (measured: Measured) => perRepeat(measured, (sorted) => quantile(sorted, share));
  const minus = (a: number, b: number) => a - b;
  const noise = pairwise(at(control), at(raw), minus);
  const cpu = pairwise(ours.cpuMs, raw.cpuMs, minus);
  return {
    scenario: 'single',
    name: each.name,
    metric: `added p${share * 100}`,
    unit: 'ms',
    raw: spreadOf(at(raw)).median,
    ours: spreadOf(at(ours)).median,
    baseUnit: 'ms',
    value: pairwise(at(ours), at(raw), minus),
    // The targets are for the median.
    ...(each.target && share === 0.5 ? { target: each.target } : {}),
    note:
      share === 0.5
        ? `${each.note}; processor time ${signed(cpu.median, 3)}; raw against itself ${noise.median.toFixed(3)}`
        : `raw against itself ${noise.median.toFixed(3)}`,
  };
}
