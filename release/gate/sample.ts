/**
 * Makes a request that a person can paste, and asks the model with it: a picture where the model takes one, values by the
 * names of columns, short values as they are, and long ones as a line of Node that prints them. Only what was answered by
 * every endpoint that takes it is returned.
 */

import type { OnnxRunner } from '../../lib/compose/onnx.ts';
import { ServingError } from '../../lib/contract/errors.ts';
import { elementAt } from '../../lib/contract/present.ts';
import type { Tensor, TypedArray } from '../../lib/contract/tensor.ts';
import { valuesOf } from '../../lib/contract/tensor-values.ts';
import type { TensorSpec } from '../../lib/contract/values.ts';
import { batchAxisOf, rowShape, withoutAxis } from '../../lib/pipeline/batch/batch-axes.ts';
import { isColumn } from '../../lib/pipeline/bind/columns.ts';
import { imageSettings } from '../../lib/pipeline/bind/image-choice.ts';
import type { SampleRequest } from '../../onnx-import/index.ts';
import { type Endpoints, endpointsOf, greyPicture, recordValue } from './endpoints.ts';
import type { GateOptions } from './gate.ts';

export interface AnsweredSample {
  readonly sample: SampleRequest;
  /** The prediction, cut to some characters. */
  readonly answer: string;
}

export interface SampleOptions extends Pick<GateOptions, 'filter' | 'image' | 'inputAlreadyBatched'> {
  /** The inputs that take pictures. */
  readonly pictures: readonly string[];
}

/** A value of a record, and JavaScript that makes it. */
interface Shown {
  readonly value: unknown;
  readonly code: string;
}

/** A request to try, and what is shown of it. */
interface Draft {
  readonly body: string;
  readonly sample: SampleRequest;
}

/** Characters that can be pasted. */
const MOST_SHOWN = 1_000;
/** A table may have many columns, whose names are worth seeing. */
const MOST_COLUMNS_SHOWN = 4_000;
/** A value with more elements is shown as code, where the whole is too long. */
const FEW_ELEMENTS = 16;
const MOST_ANSWER = 160;
/** Pixels of a picture that is scaled to the size of the input anyway. */
const SIDE = 8;
/** The elements of long values; 0 is a place in every table. */
const [FLOAT, WHOLE] = [0.5, 0];
const FILL = 'const f=(v,n,...s)=>n===undefined?v:Array(n).fill(f(v,...s));';

/**
 * @param feeds one row that every endpoint answered
 * @returns undefined when nothing that can be pasted was answered
 */
export async function sampleRequest(
  runner: OnnxRunner,
  feeds: readonly Tensor[],
  options: SampleOptions,
): Promise<AnsweredSample | undefined> {
  const endpoints = endpointsOf({ use: (work) => work(runner) }, options.filter);
  for await (const { body, sample } of drafts(runner, feeds, options)) {
    const answer = await answered(endpoints, body);
    if (answer === undefined) continue;
    const { csv, ...rest } = sample;
    const ofTable = csv && (await endpoints.predict(csv, 'text/csv').catch(() => undefined));
    const shown = answer.length > MOST_ANSWER ? `${answer.slice(0, MOST_ANSWER)}…` : answer;
    return { sample: ofTable === answer ? sample : rest, answer: shown };
  }
  return undefined;
}

/** Undefined when an endpoint does not take it. */
async function answered(endpoints: Endpoints, body: string): Promise<string | undefined> {
  try {
    const answer = await endpoints.predict(body);
    await endpoints.queue(body);
    return answer;
  } catch (error) {
    if (ServingError.from(error).code === 'internal') throw error;
    return undefined;
  }
}

/** The best to paste first. */
async function* drafts(
  { inputs, names }: OnnxRunner,
  feeds: readonly Tensor[],
  options: SampleOptions,
): AsyncGenerator<Draft> {
  const shownOf = (tensor: Tensor, i: number) => {
    const value = recordValue(elementAt(inputs, i, 'inputs'), tensor, options.inputAlreadyBatched);
    return { value, code: JSON.stringify(value) };
  };
  const simple = feeds.map((tensor, i) => shownOf(simpler(tensor), i));
  const columns = options.inputAlreadyBatched ? undefined : columnsOf(inputs, names.columns);
  if (columns)
    yield* ofColumns(
      columns,
      simple.flatMap(({ value }) => value),
    );
  const filled = feeds.map((tensor, i) => {
    const isLong = tensor.data.length > FEW_ELEMENTS;
    return isLong ? fill(elementAt(inputs, i, 'inputs'), tensor, options) : elementAt(simple, i, 'simple');
  });
  const pictures = await picturesOf(inputs, feeds, options);
  const pictured = filled.map((value, i) => pictures.get(i) ?? value);
  if (pictures.size > 0) yield* draft(inputs, pictured, inputs.length === 1);
  for (const values of [simple, filled, feeds.map(shownOf)]) yield* draft(inputs, values);
}

function* ofColumns(columns: readonly string[], cells: readonly unknown[]): Generator<Draft> {
  const body = bodyOf(columns.map((name, i) => [name, cells[i]]));
  const csv = [columns, cells.map(String)].map(csvLine).join('\n');
  if (body.length <= MOST_COLUMNS_SHOWN) yield { body, sample: { body, csv, picture: false } };
}

function* draft(inputs: readonly TensorSpec[], values: readonly Shown[], picture = false): Generator<Draft> {
  const body = bodyOf(values.map(({ value }, i) => [elementAt(inputs, i, 'inputs').name, value]));
  if (body.length <= MOST_SHOWN) return yield { body, sample: { body, picture } };
  const fields = values.map(({ code }, i) => `${JSON.stringify(inputs[i]?.name)}:${code}`);
  const script = `${FILL}JSON.stringify({instances:[{${fields.join()}}]})`;
  // In a literal of JavaScript this name is not a key.
  const isKey = inputs.every(({ name }) => name !== '__proto__');
  if (isKey && script.length <= MOST_SHOWN) yield { body, sample: { script, picture } };
}

function bodyOf(fields: readonly (readonly [string, unknown])[]): string {
  return JSON.stringify({ instances: [Object.fromEntries(fields)] });
}

/** The names of the columns, where each has one; undefined for a model that takes no table. */
function columnsOf(
  inputs: readonly TensorSpec[],
  names: Readonly<Record<string, readonly string[]>>,
): readonly string[] | undefined {
  const [only] = inputs;
  if (only && inputs.length === 1 && Object.hasOwn(names, only.name)) return names[only.name];
  return inputs.length > 1 && inputs.every(isColumn) ? inputs.map(({ name }) => name) : undefined;
}

function csvLine(cells: readonly string[]): string {
  return cells
    .map((cell) => (/[",\n\r]|^\s|\s$/.test(cell) ? `"${cell.replaceAll('"', '""')}"` : cell))
    .join();
}

/** The same with few digits, which every float type holds, and no empty texts. */
function simpler(tensor: Tensor): Tensor {
  if (tensor.dtype === 'string') return { ...tensor, data: tensor.data.map((text) => text || 'text') };
  if (!tensor.dtype.startsWith('float')) return tensor;
  const round = (value: number) => Math.round(value * 8) / 8;
  if (tensor.dtype !== 'float16') {
    return { ...tensor, data: (tensor.data as Float32Array | Float64Array).map(round) as TypedArray };
  }
  const halves = Float16Array.from(valuesOf(tensor) as Float16Array, round);
  return { ...tensor, data: new Uint16Array(halves.buffer) };
}

/** The same element everywhere. */
function fill(spec: TensorSpec, { dtype, shape }: Tensor, { inputAlreadyBatched }: SampleOptions): Shown {
  const axis = inputAlreadyBatched ? 'none' : batchAxisOf(spec);
  const sizes = axis === 'none' ? shape : withoutAxis(shape, axis);
  const value = dtype === 'string' ? 'text' : dtype.startsWith('float') ? FLOAT : WHOLE;
  const nested = sizes.reduceRight<unknown>((inner, size) => Array(size).fill(inner), value);
  return { value: nested, code: `f(${[JSON.stringify(value), ...sizes].join()})` };
}

/** A small grey picture for each input that takes one, by its place. */
async function picturesOf(
  inputs: readonly TensorSpec[],
  feeds: readonly Tensor[],
  { pictures, image, inputAlreadyBatched }: SampleOptions,
): Promise<ReadonlyMap<number, Shown>> {
  const made = new Map<number, Shown>();
  for (const [i, spec] of inputs.entries()) {
    if (inputAlreadyBatched || !pictures.includes(spec.name) || rowShape(spec).length !== 3) continue;
    const { layout, height, width } = imageSettings(spec, image);
    const row = withoutAxis(elementAt(feeds, i, 'feeds').shape, Number(batchAxisOf(spec)));
    const [rows, columns] = layout === 'chw' ? row.slice(1) : row;
    const size = height === undefined || width === undefined ? { height: rows, width: columns } : undefined;
    const picture = await greyPicture(size?.width ?? SIDE, size?.height ?? SIDE);
    const b64 = Buffer.from(picture).toString('base64');
    made.set(i, { value: { b64 }, code: JSON.stringify({ b64 }) });
  }
  return made;
}
