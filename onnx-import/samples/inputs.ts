/**
 * Generates input tensors for a model, the same on every machine. The content of a row depends only on its number, so
 * that row 1 of a batch of two equals row 1 alone. Integers are small, because they may be indices into a table.
 */
import { allocate, elementCount, type Tensor } from '../../lib/contract/tensor.ts';
import type { TensorSpec } from '../../lib/contract/values.ts';
import { float16Bits } from '../../lib/pipeline/bind/cast.ts';

/** The ranks to try for inputs of unknown rank. */
const RANKS = [2, 4, 1, 3];

/** The possible input shapes, the likeliest first; several only if an input has no rank. */
export function possibleSpecs(specs: readonly TensorSpec[], shapeless: readonly string[]): TensorSpec[][] {
  if (!specs.some(({ name }) => shapeless.includes(name))) return [[...specs]];
  return RANKS.map((rank) => {
    const shape = Array.from({ length: rank }, (_, axis) => (axis === 0 ? 'N' : ''));
    return specs.map((spec) => (shapeless.includes(spec.name) ? { ...spec, shape } : spec));
  });
}

/** Sizes to try for free dimensions: those of images first, then smaller ones. */
export interface FreeSizes {
  /** Height and width of a rank-4 input. */
  readonly spatial: number;
  readonly other: number;
  /** Free sizes of different names differ. Default: those of one kind are equal. */
  readonly isVaried?: boolean;
}

export const FREE_SIZES: readonly FreeSizes[] = [
  { spatial: 224, other: 8 },
  { spatial: 64, other: 16 },
  { spatial: 32, other: 1 },
  { spatial: 299, other: 3 },
  { spatial: 16, other: 2 },
  { spatial: 128, other: 128 },
  { spatial: 8, other: 4 },
  // A window of sound.
  { spatial: 8, other: 512 },
];

/** Zeros and ones are for indices and boxes that random numbers are not; BigDL counts indices from 1. */
export type Filling = 'random' | 'zeros' | 'ones';
export const FILLINGS: readonly Filling[] = ['random', 'zeros', 'ones'];

const MAX_ELEMENTS = 2 ** 26;

/** Whether the batch is free: every input has a free first dimension. */
export function isBatchFree(specs: readonly TensorSpec[]): boolean {
  return specs.every(({ shape }) => typeof shape[0] === 'string');
}

/** Whether a size other than the batch is free, so that generated sizes may not fit. */
export function hasFreeSizes(specs: readonly TensorSpec[]): boolean {
  const batch = specs[0]?.shape[0];
  const isFree = (dim: number | string) => typeof dim === 'string' && (dim === '' || dim !== batch);
  return specs.some(({ shape }) => shape.slice(1).some(isFree));
}

/** One tensor per input, with these rows if its batch is free. @throws too_large */
export function madeUpInputs(
  specs: readonly TensorSpec[],
  rows: readonly number[],
  sizes: FreeSizes,
  filling: Filling,
): Tensor[] {
  const batch = specs.find(({ shape }) => typeof shape[0] === 'string')?.shape[0];
  return specs.map((spec, number) => {
    const shape = spec.shape.map((dim, axis) => {
      if (typeof dim === 'number') return dim;
      if (axis === 0 || (dim !== '' && dim === batch)) return rows.length;
      return isSpatial(spec, axis) ? sizes.spatial : sizes.other;
    });
    const isFree = typeof spec.shape[0] === 'string';
    const shown = isFree ? rows : Array.from({ length: shape[0] ?? 1 }, (_, row) => row);
    return fill(spec, shape, shown, filling === 'random' ? { seed: number } : filling === 'ones' ? 1 : 0);
  });
}

/** The two middle axes of NHWC, the last two of NCHW. */
function isSpatial({ shape }: TensorSpec, axis: number): boolean {
  if (shape.length !== 4) return false;
  const isChannels = (dim: number | string | undefined) => dim === 3 || dim === 1;
  return isChannels(shape[3]) && !isChannels(shape[1]) ? axis === 1 || axis === 2 : axis >= 2;
}

/** @param by one number, or a seed for random numbers */
function fill(
  { dtype }: TensorSpec,
  shape: number[],
  rows: readonly number[],
  by: number | { readonly seed: number },
): Tensor {
  const count = elementCount(shape, MAX_ELEMENTS);
  const width = rows.length === 0 ? 0 : count / rows.length;
  const random = (row: number) =>
    typeof by === 'number' ? () => by : randomNumbers(by.seed * 65_537 + row + 1);
  if (dtype === 'string') {
    const texts = rows.flatMap((row) => Array.from({ length: width }, (_, i) => `text ${row} ${i}`));
    return { dtype, shape, data: texts };
  }
  const data = allocate(dtype, count);
  // Image bytes are 0 to 255; other integers are 0 or 1, which every table has.
  const isImage = dtype === 'uint8' && shape.length === 4;
  const convert = (value: number) => {
    if (dtype === 'float16') return float16Bits(value);
    if (dtype.startsWith('float')) return value;
    const most = isImage ? 255 : 1;
    const whole = Math.min(most, Math.floor(value * (most + 1)));
    return dtype === 'int64' || dtype === 'uint64' ? BigInt(whole) : whole;
  };
  const elements: { [index: number]: number | bigint } = data;
  for (const [at, row] of rows.entries()) {
    const next = random(row);
    for (let i = 0; i < width; i++) elements[at * width + i] = convert(next());
  }
  return { dtype, shape, data };
}

/** Random numbers in [0, 1), by mulberry32. */
export function randomNumbers(seed: number): () => number {
  let state = Math.imul(seed, 0x9e_37_79_b1) >>> 0;
  return () => {
    state = (state + 0x6d_2b_79_f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
