/**
 * In: a model's inputs, sizes from the command line, perhaps files. Out: records as a client would send them.
 * Trap: a size that the file leaves free decides the time, so it is asked for and never guessed; the batch in front is
 * the one that is measured, and nobody says it.
 */
import { readFile } from 'node:fs/promises';
import { basename, extname } from 'node:path';
import { type Filling, FREE_SIZES, madeUpInputs } from '../../convert/check/inputs.ts';
import { readNpy } from '../../convert/npy.ts';
import { decodeInstances } from '../../lib/codecs/instances.ts';
import { ServingError } from '../../lib/contract/errors.ts';
import { elementCount, formatShape, type Tensor, type TypedArray } from '../../lib/contract/tensor.ts';
import type { Inputs, TensorSpec, Value } from '../../lib/contract/values.ts';
import { type ImageChoice, imageSettings } from '../../lib/pipeline/image-choice.ts';

export interface Sizes {
  /** Free sizes by name. */
  readonly dims: Readonly<Record<string, number>>;
  /** Whole shapes by input, the batch in front. */
  readonly shapes: Readonly<Record<string, readonly number[]>>;
}

export interface DataFile {
  /** Undefined: of the only input, or of all of them (JSON). */
  readonly input: string | undefined;
  /** Absolute. */
  readonly path: string;
}

/** Of made-up records, and of those of a file: more only take memory that a function would not. */
const MOST_RECORDS = 16;
const IMAGE_ENDINGS = ['.jpg', '.jpeg', '.png'];
export const DATA_ENDINGS: readonly string[] = ['.json', '.npy', ...IMAGE_ENDINGS];

/**
 * The inputs with all sizes but the batch in front.
 * @param shapeless inputs of which the file does not even say the rank
 * @throws bad_config naming each size that is missing, and options for nothing
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
      // A second dimension that counts the rows is 1 in a record.
      return sizes.dims[dim] ?? (dim !== '' && dim === batch ? 1 : (picture.get(axis) ?? dim));
    });
    if (shape.slice(1).some((dim) => typeof dim === 'string')) open.push({ ...spec, shape });
    return { ...spec, shape };
  });
  if (open.length === 0) return sized;
  throw new ServingError('bad_config', missingSizes(open));
}

/** What is free, and the options that say it. */
function missingSizes(open: readonly TensorSpec[]): string {
  const shown = open.map(({ name, shape }) => `"${name}" ${formatShape(shape.map((dim) => dim || '?'))}`);
  const free = (spec: TensorSpec) => spec.shape.slice(1).filter((dim) => typeof dim === 'string');
  // A rank that nobody knows has `?` in front.
  const isNamed = (spec: TensorSpec) => spec.shape[0] !== '?' && !free(spec).includes('');
  const dims = new Set(open.filter(isNamed).flatMap(free));
  const shapes = open.filter((spec) => !isNamed(spec)).map(exampleShape);
  const how = [...[...dims].map((dim) => `--dim ${dim}=8`), ...shapes].join(' ');
  return `the time depends on sizes that the model leaves free: ${shown.join(', ')}; say them, e.g. ${how}`;
}

function exampleShape({ name, shape }: TensorSpec): string {
  if (shape[0] === '?') return `--shape ${name}=1,3,224,224`;
  const sizes = shape.map((dim, axis) => (typeof dim === 'number' ? dim : axis === 0 ? 1 : 8));
  return `--shape ${name}=${sizes.join(',')}`;
}

function assertMeant(specs: readonly TensorSpec[], { dims, shapes }: Sizes): void {
  const inputs = specs.map(({ name }) => name);
  const strayShape = Object.keys(shapes).find((name) => !inputs.includes(name));
  if (strayShape !== undefined) {
    throw new ServingError(
      'bad_config',
      `--shape: the model has no input "${strayShape}"; it has ${inputs.map((name) => `"${name}"`).join(', ')}`,
    );
  }
  const free = new Set(
    specs.flatMap(({ shape }) => shape.slice(1).filter((dim) => typeof dim === 'string' && dim !== '')),
  );
  const strayDim = Object.keys(dims).find((name) => !free.has(name));
  if (strayDim === undefined) return;
  const there = free.size === 0 ? 'none beside the batch' : [...free].join(', ');
  throw new ServingError('bad_config', `--dim: the model has no free size "${strayDim}"; it has ${there}`);
}

/** @throws bad_config where the shape is not one of this input, with 1 for a free batch */
function withShape({ name, shape }: TensorSpec, given: readonly number[]): (number | string)[] {
  const fits =
    given.length === shape.length &&
    shape.every((dim, axis) =>
      typeof dim === 'number' ? dim === given[axis] : axis > 0 || given[axis] === 1,
    );
  if (fits) return shape.map((dim, axis) => (axis === 0 ? dim : (given[axis] as number)));
  const expected = shape.map((dim, axis) => (typeof dim === 'number' ? dim : axis === 0 ? '1' : dim || '?'));
  throw new ServingError(
    'bad_config',
    `--shape ${name}: expected ${formatShape(expected)}, got ${formatShape(given)}; batches are measured by themselves`,
  );
}

/** Height and width that the config scales pictures to. */
function pictureSizes(spec: TensorSpec, image: ImageChoice): Map<number, number> {
  const sizes = new Map<number, number>();
  if (spec.shape.length !== 4 || spec.dtype === 'string') return sizes;
  const { layout, height, width } = imageSettings(spec, image);
  const axis = layout === 'hwc' ? 1 : 2;
  if (height !== undefined) sizes.set(axis, height);
  if (width !== undefined) sizes.set(axis + 1, width);
  return sizes;
}

/** Whether each input is in the files, so that nothing has to be made up. */
export function coversAll(specs: readonly TensorSpec[], data: readonly DataFile[]): boolean {
  return data.some(({ path }) => extname(path).toLowerCase() === '.json') || data.length === specs.length;
}

/** Records with random numbers from seeds, or zeros; as clients send them, without the batch in front. */
export function madeUpRecords(
  specs: readonly TensorSpec[],
  alreadyBatched: boolean,
  filling: Filling,
): Inputs[] {
  const sizes = FREE_SIZES[0] as (typeof FREE_SIZES)[number];
  return Array.from({ length: MOST_RECORDS }, (_, row) => {
    const tensors = madeUpInputs(specs, [row], sizes, filling);
    return new Map(
      specs.map(({ name }, i): readonly [string, Value] => {
        const tensor = tensors[i] as Tensor;
        return [name, { kind: 'tensor', tensor: alreadyBatched ? tensor : firstRow(tensor) }];
      }),
    );
  });
}

/** Without the dimension in front; a scalar stays one. */
function firstRow({ dtype, shape, data }: Tensor): Tensor {
  if (shape.length === 0) return { dtype, shape, data };
  const rest = shape.slice(1);
  return { dtype, shape: rest, data: part(data, 0, elementCount(rest)) };
}

function part(data: Tensor['data'], start: number, end: number): Tensor['data'] {
  // slice and no view: a record has bytes of its own.
  return (data as TypedArray).slice(start, end);
}

/** @throws bad_config for a file that is none of these, or for no input of the model */
export async function recordsOfFiles(
  files: readonly DataFile[],
  specs: readonly TensorSpec[],
  alreadyBatched: boolean,
): Promise<Inputs[]> {
  const columns = new Map<string, readonly Value[]>();
  for (const { input, path } of files) {
    const bytes = await bytesOf(path);
    const ending = extname(path).toLowerCase();
    if (ending === '.json') {
      if (files.length > 1 || input !== undefined)
        throw wrong(path, 'a request in JSON has all inputs and goes alone');
      return instancesOf(bytes, path);
    }
    const spec = specOf(specs, input, path);
    const values =
      ending === '.npy' ? rowsOf(bytes, path, spec, alreadyBatched) : [{ kind: 'image', bytes } as const];
    columns.set(spec.name, values);
  }
  const missing = specs.filter(({ name }) => !columns.has(name)).map(({ name }) => `"${name}"`);
  if (missing.length > 0)
    throw new ServingError('bad_config', `--data: nothing for input ${missing.join(', ')}`);
  const count = Math.min(MOST_RECORDS, Math.max(...[...columns.values()].map((values) => values.length)));
  return Array.from(
    { length: count },
    (_, row) => new Map([...columns].map(([name, values]) => [name, values[row % values.length] as Value])),
  );
}

async function bytesOf(path: string): Promise<Buffer> {
  try {
    return await readFile(path);
  } catch (error) {
    throw wrong(path, `cannot be read: ${(error as Error).message}`);
  }
}

function instancesOf(bytes: Buffer, path: string): Inputs[] {
  try {
    return decodeInstances(bytes).slice(0, MOST_RECORDS);
  } catch (error) {
    throw wrong(path, ServingError.from(error).message);
  }
}

function specOf(specs: readonly TensorSpec[], input: string | undefined, path: string): TensorSpec {
  const names = specs.map(({ name }) => `"${name}"`).join(', ');
  const found =
    input === undefined
      ? specs.length === 1
        ? specs[0]
        : undefined
      : specs.find(({ name }) => name === input);
  if (found) return found;
  if (input !== undefined) throw wrong(path, `the model has no input "${input}"; it has ${names}`);
  throw wrong(path, `the model has the inputs ${names}; say --data <input>=${basename(path)} for each`);
}

/** An array with the batch in front is as many records. */
function rowsOf(
  bytes: Buffer,
  path: string,
  { shape }: TensorSpec,
  alreadyBatched: boolean,
): readonly Value[] {
  let tensor: Tensor;
  try {
    tensor = readNpy(bytes, basename(path));
  } catch (error) {
    throw wrong(path, ServingError.from(error).message.replace(/^reference [^:]*: /, ''));
  }
  if (shape.length === 0 || tensor.shape.length !== shape.length) return [{ kind: 'tensor', tensor }];
  const [rows = 1, ...rest] = tensor.shape;
  const width = elementCount(rest);
  return Array.from({ length: Math.min(rows, MOST_RECORDS) }, (_, row) => {
    const data = part(tensor.data, row * width, (row + 1) * width);
    return {
      kind: 'tensor',
      tensor: { dtype: tensor.dtype, shape: alreadyBatched ? [1, ...rest] : rest, data },
    };
  });
}

function wrong(path: string, what: string): ServingError {
  return new ServingError('bad_config', `--data ${path}: ${what}`);
}
