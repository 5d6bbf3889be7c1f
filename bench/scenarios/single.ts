/**
 * SingleStream: one request after the other. In: predict events. Out: what the handler adds to a raw run, p50 and p90.
 * Trap: two sessions of one model are not equally fast to the last microsecond; a second raw session runs along and
 * shows how much of a difference is nothing but that and noise.
 */
import type { APIGatewayProxyEventV2, APIGatewayProxyStructuredResultV2 } from 'aws-lambda';
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
import type { Line, Row, Target } from '../report.ts';
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

export const single: Scenario = {
  name: 'single',
  about: 'latency that the predict handler adds to a raw run, p50 and p90',
  async run(bench) {
    const lines: Line[] = [];
    for (const each of await predictCases(bench)) lines.push(...(await measureCase(bench, each)));
    lines.push({
      scenario: 'single',
      name: 'convnet as binary (target <= 0.25 ms)',
      skipped: 'POST /predict takes no binary tensor yet',
    });
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

function sizeNote(bodies: readonly string[]): string {
  const bytes = bodies.reduce((sum, text) => sum + text.length, 0) / bodies.length;
  return bytes < 10_000 ? `${Math.round(bytes)} bytes` : `${Math.round(bytes / 1000)} kB`;
}

async function measureCase(bench: Bench, each: PredictCase): Promise<Row[]> {
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
  each: PredictCase,
  answers: readonly Float32Array[],
): Contender<APIGatewayProxyStructuredResultV2> {
  const events = each.bodies.map(predictEvent);
  return {
    name: 'handler',
    call: (index) => served.predict(events[index % events.length] as APIGatewayProxyEventV2, CONTEXT),
    verify: (responses) => {
      for (const [i, { statusCode, body }] of responses.entries()) {
        if (statusCode !== 200) throw new Error(`${each.name}: ${statusCode} ${body}`);
        assertSame(predictionOf(body), answers[i % answers.length] as Float32Array, each.name);
      }
    },
  };
}

function rowOf(each: PredictCase, share: number, raw: Measured, ours: Measured, control: Measured): Row {
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
        ? `${each.note}; processor time +${cpu.median.toFixed(3)}; raw against itself ${noise.median.toFixed(3)}`
        : `raw against itself ${noise.median.toFixed(3)}`,
  };
}
