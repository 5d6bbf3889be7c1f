/**
 * The time that the predict handler adds to a raw run, one request after the other. Two sessions of one model differ
 * slightly in speed; a second raw session shows how much of a difference is that and noise.
 */

import type { APIGatewayProxyEventV2, APIGatewayProxyStructuredResultV2 } from 'aws-lambda';
import { DEFAULT_JOB_NAME } from '../../lib/contract/names.ts';
import { elementAt } from '../../lib/contract/present.ts';
import type { Bench, Scenario } from '../bench.ts';
import { bgrPlanes, makeImage } from '../images.ts';
import { type Contender, interleave, type Measured, pairwise, quantile, spreadOf } from '../measure.ts';
import { type BenchModel, randomRows } from '../models.ts';
import { answersOf, assertSame, openRaw, type RawModel } from '../raw.ts';
import { bytesText, type Line, type Row } from '../report.ts';
import {
  CONTEXT,
  nestedNumbers,
  plainValues,
  predictEvent,
  predictionOf,
  type Served,
  serve,
} from '../served.ts';

const REPEAT_MS = 400;
/** Inputs take turns; no cache may see the same one twice in a row. */
const INPUTS = { mlp: 16, convnet: 8 };

interface Case {
  readonly name: string;
  readonly model: BenchModel;
  /** The model's input for each request. */
  readonly rows: readonly Float32Array[];
  readonly events: readonly APIGatewayProxyEventV2[];
  readonly valuesOf: (response: APIGatewayProxyStructuredResultV2) => ArrayLike<number>;
}

export const single: Scenario = {
  name: 'single',
  about: 'latency that the predict handler adds to a raw run, p50 and p90',
  async run(bench) {
    const lines: Line[] = [];
    for (const each of await casesOf(bench))
      if (bench.wants(each.name)) lines.push(...(await measureCase(bench, each)));
    return lines;
  },
};

async function casesOf(bench: Bench): Promise<Case[]> {
  const [mlp, convnet] = [await bench.model('mlp'), await bench.model('convnet')];
  const json = (
    name: string,
    model: BenchModel,
    rows: readonly Float32Array[],
    values: readonly unknown[],
  ): Case => ({
    name,
    model,
    rows,
    events: values.map((value) => predictEvent(JSON.stringify({ instances: [{ [model.input]: value }] }))),
    valuesOf: ({ body }) => predictionOf(body),
  });
  const tensors = (name: string, model: BenchModel, rows: readonly Float32Array[]) => {
    const values = rows.map((row) => nestedNumbers(row, model.rowShape));
    return json(name, model, rows, values);
  };
  const drawn = Array.from({ length: INPUTS.convnet }, (_, i) => makeImage(100 + i, 96, 96));
  const drawnImages = await Promise.all(drawn);
  const images = (kind: 'png' | 'jpeg') => {
    const rows = drawnImages.map((image) => bgrPlanes(image[`${kind}Pixels`]));
    const values = drawnImages.map((image) => image[kind].toString('base64'));
    return json(`convnet, ${kind.toUpperCase()} 96x96 in base64`, convnet, rows, values);
  };
  /** The Open Inference Protocol, binary in and out. */
  const binary = (name: string, model: BenchModel, rows: readonly Float32Array[]): Case => {
    const events = rows.map((row) => binaryEvent(row, model));
    return { name, model, rows, events, valuesOf: binaryValuesOf };
  };
  return [
    tensors('MLP, 64 floats as JSON', mlp, randomRows(11, mlp.rowShape, INPUTS.mlp)),
    tensors('convnet, tensor as JSON', convnet, randomRows(12, convnet.rowShape, INPUTS.convnet)),
    images('png'),
    images('jpeg'),
    binary('MLP, 64 floats as binary', mlp, randomRows(13, mlp.rowShape, INPUTS.mlp)),
    binary('convnet, tensor as binary', convnet, randomRows(14, convnet.rowShape, INPUTS.convnet)),
  ];
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
  return JSON.parse(JSON.stringify(binary));
}

function binaryValuesOf({ body = '', headers }: APIGatewayProxyStructuredResultV2): ArrayLike<number> {
  const bytes = Buffer.from(body, 'base64');
  const start = Number(headers?.['inference-header-content-length']);
  return new Float32Array(new Uint8Array(bytes.subarray(start)).buffer);
}

async function measureCase(bench: Bench, each: Case): Promise<Row[]> {
  const [raw, again] = [await openRaw(each.model), await openRaw(each.model)];
  const served = serve(each.model, (await bench.redis()).url, { batchSize: 1 });
  try {
    const answers = await answersOf(raw, each.rows);
    const bodies = each.events.map(({ body = '' }) => body);
    const meanBytes = bodies.reduce((sum, body) => sum + body.length, 0) / bodies.length;
    const contenders = [
      rawContender('raw', raw, each.rows, answers),
      handlerContender(served, each, answers),
      rawContender('raw again', again, each.rows, answers),
      ...(each.name.endsWith('as JSON')
        ? [parseContender(bodies), floorContender(each, raw, bodies, answers)]
        : []),
    ] as Contender[];
    const plan = { repeats: bench.repeats, repeatMs: bench.ms(REPEAT_MS) };
    return rowsOf(each.name, bytesText(meanBytes), await interleave(contenders, plan));
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
    call: (index) => raw.run(elementAt(feeds, index % feeds.length, 'feeds')),
    verify: (given) => {
      for (const [i, values] of given.entries())
        assertSame(values, elementAt(answers, i % answers.length, 'answers'), `${name}, call ${i}`);
    },
  };
}

function handlerContender(
  served: Served,
  { name, events, valuesOf }: Case,
  answers: readonly Float32Array[],
): Contender<APIGatewayProxyStructuredResultV2> {
  return {
    name: 'handler',
    call: (index) => served.predict(elementAt(events, index % events.length, 'events'), CONTEXT),
    verify: (responses) => {
      for (const [i, response] of responses.entries()) {
        if (response.statusCode !== 200) throw new Error(`${name}: ${response.statusCode} ${response.body}`);
        assertSame(valuesOf(response), elementAt(answers, i % answers.length, 'answers'), name);
      }
    },
  };
}

/** The time of JSON.parse alone for the same bodies. */
function parseContender(bodies: readonly string[]): Contender {
  return {
    name: 'JSON.parse',
    call: (index) => JSON.parse(elementAt(bodies, index % bodies.length, 'bodies')),
    verify: () => undefined,
  };
}

/** The least that answers the same bodies: JSON.parse, the run and JSON.stringify in one loop. */
function floorContender(
  each: Case,
  raw: RawModel,
  bodies: readonly string[],
  answers: readonly Float32Array[],
): Contender<string> {
  return {
    name: 'floor',
    call: async (index) => {
      const { instances } = JSON.parse(elementAt(bodies, index % bodies.length, 'bodies'));
      const row = Float32Array.from(instances[0][each.model.input].flat(Infinity));
      const values = await raw.run(raw.feed([row]));
      return JSON.stringify({ predictions: [Array.from(values)] });
    },
    verify: (texts) => {
      for (const [i, text] of texts.entries()) {
        const expected = elementAt(answers, i % answers.length, 'answers');
        assertSame(plainValues(text), expected, `${each.name}, floor`);
      }
    },
  };
}

function rowsOf(name: string, size: string, measured: readonly Measured[]): Row[] {
  const [raw, ours, control, parse, floor] = measured as [Measured, Measured, Measured, Measured?, Measured?];
  const minus = (a: number, b: number) => a - b;
  const cpu = pairwise(ours.cpuMs, raw.cpuMs, minus).median;
  const rows = [0.5, 0.9].map((share): Row => {
    const at = (of: Measured) => of.repeats.map((sorted) => quantile(sorted, share));
    const noise = pairwise(at(control), at(raw), minus).median;
    return {
      scenario: 'single',
      name,
      metric: `added p${share * 100}`,
      unit: 'ms',
      raw: spreadOf(at(raw)).median,
      ours: spreadOf(at(ours)).median,
      baseUnit: 'ms',
      value: pairwise(at(ours), at(raw), minus),
      note: `${size}; processor time ${cpu.toFixed(3)}; raw against itself ${noise.toFixed(3)}`,
    };
  });
  if (!parse || !floor) return rows;
  const p50 = (of: Measured) => of.repeats.map((sorted) => quantile(sorted, 0.5));
  const added = p50(ours).map((ms, repeat) => ms - elementAt(p50(raw), repeat, 'p50(raw)'));
  const times = (metric: string, own: readonly number[], of: Measured): Row => ({
    scenario: 'single',
    name,
    metric,
    unit: 'x',
    raw: spreadOf(p50(of)).median,
    ours: spreadOf(own).median,
    baseUnit: 'ms',
    value: pairwise(own, p50(of), (a, b) => a / b),
  });
  return [...rows, times('times JSON.parse', added, parse), times('times the floor', p50(ours), floor)];
}
