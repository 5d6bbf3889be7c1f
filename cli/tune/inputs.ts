/**
 * Creates records as a client would send them, from a model's inputs, the sizes on the command line, and optional
 * files. A free size affects the time, so it must be given; the batch dimension is what is measured.
 */

import { readFile } from 'node:fs/promises';
import { basename, extname } from 'node:path';
import { decodeInstances } from '../../lib/codecs/instances.ts';
import { ServingError } from '../../lib/contract/errors.ts';
import { elementAt } from '../../lib/contract/present.ts';
import { formatShape, sliceTensor, type Tensor } from '../../lib/contract/tensor.ts';
import type { Inputs, TensorSpec, Value } from '../../lib/contract/values.ts';
import { batchAxisOf } from '../../lib/pipeline/batch/batch-axes.ts';
import { rowsOf } from '../../lib/pipeline/batch/stack.ts';
import { type ImageChoice, imageSettings } from '../../lib/pipeline/bind/image-choice.ts';
import { type Filling, FREE_SIZES, madeUpInputs } from '../../onnx-import/check/inputs.ts';
import { readNpy } from '../../onnx-import/npy.ts';
import { wrongUse } from '../command.ts';

export interface Sizes {
  /** Free sizes by name. */
  readonly dims: Readonly<Record<string, number>>;
  /** Full shapes by input, including the batch dimension. */
  readonly shapes: Readonly<Record<string, readonly number[]>>;
}

export interface DataFile {
  /** Undefined: the only input, or all of them (JSON). */
  readonly input: string | undefined;
  /** Absolute. */
  readonly path: string;
}

/** Limits generated records and those of a file; more would take memory that a function does not need. */
const MOST_RECORDS = 16;
const IMAGE_ENDINGS = ['.jpg', '.jpeg', '.png', '.webp', '.bmp', '.gif', '.tif', '.tiff'];
export const DATA_ENDINGS: readonly string[] = ['.json', '.npy', ...IMAGE_ENDINGS];

/**
 * The inputs with all sizes except the batch dimension.
 * @param shapeless inputs of unknown rank
 * @throws bad_config naming each missing size, and options without effect
 */
export function sizedSpecs(
  specs: readonly TensorSpec[],
  shapeless: readonly string[],
  sizes: Sizes,
  image: ImageChoice,
): TensorSpec[] {
  assertMeant(specs, sizes);
  const open: TensorSpec[] = [];
  const sized = specs.map((spec) => {
    const given = sizes.shapes[spec.name];
    if (shapeless.includes(spec.name)) {
      if (!given) open.push({ ...spec, shape: ['?'] });
      return given ? { ...spec, shape: given } : spec;
    }
    if (given) return { ...spec, shape: withShape(spec, given) };
    const batch = spec.shape[0];
    const picture = pictureSizes(spec, image);
    const shape = spec.shape.map((dim, axis) => {
      if (typeof dim === 'number' || axis === 0) return dim;
      // Another dimension with the name of the batch is 1 in a record.
      return sizes.dims[dim] ?? (dim !== '' && dim === batch ? 1 : (picture.get(axis) ?? dim));
    });
    if (shape.slice(1).some((dim) => typeof dim === 'string')) open.push({ ...spec, shape });
    return { ...spec, shape };
  });
  if (open.length === 0) return sized;
  throw wrongUse(missingSizes(open));
}

/** Describes the free sizes and the options that set them. */
function missingSizes(open: readonly TensorSpec[]): string {
  const shown = open.map(({ name, shape }) => `"${name}" ${formatShape(shape.map((dim) => dim || '?'))}`);
  const free = ({ shape }: TensorSpec) => shape.slice(1).filter((dim) => typeof dim === 'string');
  // An unknown rank starts with `?`.
  const isNamed = (spec: TensorSpec) => spec.shape[0] !== '?' && !free(spec).includes('');
  const dims = new Set(open.filter(isNamed).flatMap(free));
  const shapes = open.flatMap((spec) => (isNamed(spec) ? [] : exampleShape(spec)));
  const how = [...[...dims].map((dim) => `--dim ${dim}=8`), ...shapes].join(' ');
  return `the time depends on sizes that the model leaves free: ${shown.join(', ')}; say them, e.g. ${how}`;
}

function exampleShape({ name, shape }: TensorSpec): string {
  const sizes = shape.map((dim, axis) => (typeof dim === 'number' ? dim : axis === 0 ? 1 : 8));
  return `--shape ${name}=${shape[0] === '?' ? '1,3,224,224' : sizes.join(',')}`;
}

function assertMeant(specs: readonly TensorSpec[], { dims, shapes }: Sizes): void {
  const inputs = specs.map(({ name }) => name);
  const strayShape = Object.keys(shapes).find((name) => !inputs.includes(name));
  if (strayShape !== undefined) {
    throw wrongUse(`--shape: the model has no input "${strayShape}"; it has ${namesOf(specs)}`);
  }
  const free = new Set(
    specs.flatMap(({ shape }) => shape.slice(1).filter((dim) => typeof dim === 'string' && dim !== '')),
  );
  const strayDim = Object.keys(dims).find((name) => !free.has(name));
  if (strayDim === undefined) return;
  const there = free.size === 0 ? 'none beside the batch' : [...free].join(', ');
  throw wrongUse(`--dim: the model has no free size "${strayDim}"; it has ${there}`);
}

function namesOf(specs: readonly TensorSpec[]): string {
  return specs.map(({ name }) => `"${name}"`).join(', ');
}

/** @throws bad_config when the shape does not match the input; a free batch must be 1 */
function withShape({ name, shape }: TensorSpec, given: readonly number[]): (number | string)[] {
  const expected = shape.map((dim, axis) => (axis === 0 && typeof dim === 'string' ? 1 : dim));
  const isRight = expected.every((dim, axis) => typeof dim === 'string' || dim === given[axis]);
  if (isRight && given.length === shape.length) return [...shape.slice(0, 1), ...given.slice(1)];
  const wanted = formatShape(expected.map((dim) => dim || '?'));
  throw wrongUse(
    `--shape ${name}: expected ${wanted}, got ${formatShape(given)}; batches are measured by themselves`,
  );
}

/** The height and width to which the config scales images. */
function pictureSizes(spec: TensorSpec, image: ImageChoice): Map<number, number> {
  const sizes = new Map<number, number>();
  if (spec.shape.length !== 4 || spec.dtype === 'string') return sizes;
  const { layout, height, width } = imageSettings(spec, image);
  const axis = layout === 'hwc' ? 1 : 2;
  if (height !== undefined) sizes.set(axis, height);
  if (width !== undefined) sizes.set(axis + 1, width);
  return sizes;
}

/** True if the files cover each input, so that nothing is generated. */
export function coversAll(specs: readonly TensorSpec[], data: readonly DataFile[]): boolean {
  return data.some(({ path }) => extname(path).toLowerCase() === '.json') || data.length === specs.length;
}

/** Records of seeded random numbers, or of zeros, as clients send them, without the batch dimension. */
export function madeUpRecords(specs: readonly TensorSpec[], alreadyBatched: boolean, filling: Filling) {
  const sizes = elementAt(FREE_SIZES, 0, 'FREE_SIZES');
  return Array.from({ length: MOST_RECORDS }, (_, row): Inputs => {
    const tensors = madeUpInputs(specs, [row], sizes, filling);
    const values = tensors.map((tensor, i): Value => {
      const axis = batchAxisOf(elementAt(specs, i, 'specs'));
      const isWhole = alreadyBatched || axis === 'none' || tensor.shape.length === 0;
      return { kind: 'tensor', tensor: isWhole ? tensor : rowOf(tensor, axis, 0, false) };
    });
    return new Map(specs.map(({ name }, i) => [name, elementAt(values, i, 'values')]));
  });
}

/** @param keepsBatch returns a batch of one */
function rowOf(tensor: Tensor, axis: number, row: number, keepsBatch: boolean): Tensor {
  // A copy, because a record has its own bytes.
  return sliceTensor(rowsOf({ name: '', ...tensor }, axis, row, { rows: 1, keepsBatchDim: keepsBatch }));
}

/** @throws bad_config for a file of another kind, or for no input of the model */
export async function recordsOfFiles(
  files: readonly DataFile[],
  specs: readonly TensorSpec[],
  alreadyBatched: boolean,
): Promise<Inputs[]> {
  const columns = new Map<string, readonly Value[]>();
  for (const { input, path } of files) {
    const ending = extname(path).toLowerCase();
    if (ending === '.json') {
      if (files.length > 1 || input !== undefined)
        throw wrong(path, 'a request in JSON has all inputs and goes alone');
      return parsed(path, (bytes) => decodeInstances(bytes).slice(0, MOST_RECORDS));
    }
    const spec = specOf(specs, input, path);
    const values = await parsed(path, (bytes): readonly Value[] => {
      if (ending !== '.npy') return [{ kind: 'image', bytes }];
      return recordsOf(readNpy(bytes, basename(path)), spec, alreadyBatched);
    });
    columns.set(spec.name, values);
  }
  const missing = specs.filter(({ name }) => !columns.has(name));
  if (missing.length > 0) throw wrongUse(`--data: nothing for input ${namesOf(missing)}`);
  const count = Math.min(MOST_RECORDS, Math.max(...[...columns.values()].map((values) => values.length)));
  return Array.from(
    { length: count },
    (_, row) =>
      new Map([...columns].map(([name, values]) => [name, elementAt(values, row % values.length, 'values')])),
  );
}

async function parsed<T>(path: string, parse: (bytes: Buffer) => T): Promise<T> {
  const bytes = await readFile(path).catch((error: Error) => {
    throw wrong(path, `cannot be read: ${error.message}`);
  });
  try {
    return parse(bytes);
  } catch (error) {
    throw wrong(path, ServingError.from(error).message.replace(/^reference [^:]*: /, ''));
  }
}

function specOf(specs: readonly TensorSpec[], input: string | undefined, path: string): TensorSpec {
  const found =
    input === undefined && specs.length === 1 ? specs[0] : specs.find(({ name }) => name === input);
  if (found) return found;
  const names = namesOf(specs);
  if (input !== undefined) throw wrong(path, `the model has no input "${input}"; it has ${names}`);
  throw wrong(path, `the model has the inputs ${names}; pass --data <input>=${basename(path)} for each`);
}

/** An array with a batch dimension is several records. */
function recordsOf(tensor: Tensor, spec: TensorSpec, alreadyBatched: boolean): Value[] {
  const axis = batchAxisOf(spec);
  if (axis === 'none' || spec.shape.length === 0 || tensor.shape.length !== spec.shape.length)
    return [{ kind: 'tensor', tensor }];
  return Array.from({ length: Math.min(tensor.shape[axis] ?? 1, MOST_RECORDS) }, (_, row) => ({
    kind: 'tensor',
    tensor: rowOf(tensor, axis, row, alreadyBatched),
  }));
}

function wrong(path: string, what: string): ServingError {
  return wrongUse(`--data ${path}: ${what}`);
}
