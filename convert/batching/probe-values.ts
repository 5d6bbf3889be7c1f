/**
 * Made-up values for a probe, the same ones on every machine. Rows differ in scale, because a scale that all rows share
 * shows only between rows that differ; some are never negative, because NaN hides everything.
 */
import { allocate, elementCount, type Tensor } from '../../lib/contract/tensor.ts';
import type { TensorSpec } from '../../lib/contract/values.ts';
import { FREE_SIZES, type FreeSizes, possibleSpecs, randomNumbers } from '../check/inputs.ts';
import { messageOf } from '../check/reference.ts';

/** Of a made-up row. */
const MAX_ELEMENTS = 2 ** 26;
/** Whole numbers may be places in a table, and tables are of all sizes. */
export const INTEGER_RANGES: readonly number[] = [100, 10, 2, 1];

const TEXTS = ['a', 'b', 'the quick brown fox', '', '42', 'über', 'a', 'x y'];

type Recipe = (random: number, at: number) => number;

/** Two rows after one another are made alike, so that each meets one of its own kind and one of another. */
const RECIPES: readonly Recipe[] = [
  (random) => 2 * random - 1,
  (random) => random,
  (random) => 1_000 + 9_000 * random,
  (random) => -5 * random,
  (random) => 200 * random - 100,
  (random) => Math.floor(256 * random),
  (random, at) => (at % 3 === 0 ? 4 * random - 2 : 0),
];

interface RowChoice {
  /** Has the size 1. */
  readonly axis: number | 'none';
  readonly sizes: FreeSizes;
  /** Whole numbers are below it. */
  readonly integers: number;
  /** Of the row, and of the input. */
  readonly row: number;
  readonly input: number;
}

/** Shapes, whole numbers and free sizes to make up rows with, the likeliest first. @param fit changes the inputs */
export function* waysToMakeUp(
  inputs: readonly TensorSpec[],
  shapeless: readonly string[],
  fit: (specs: readonly TensorSpec[]) => readonly TensorSpec[] = (specs) => specs,
) {
  const hasIntegers = inputs.some(({ dtype }) => dtype.includes('int'));
  for (const specs of possibleSpecs(inputs, shapeless).map(fit)) {
    const isFree = specs.some(({ shape }) => shape.some((dim) => typeof dim === 'string'));
    for (const integers of hasIntegers ? INTEGER_RANGES : INTEGER_RANGES.slice(0, 1)) {
      for (const sizes of isFree ? FREE_SIZES : FREE_SIZES.slice(0, 1)) yield { specs, integers, sizes };
    }
  }
}

/** What the first way gives that does not fail; else the first reason, which is about the likeliest. */
export async function firstTaken<Way, Made extends object>(
  ways: Iterable<Way>,
  attempt: (way: Way) => Promise<Made>,
): Promise<Made | string> {
  let reason: string | undefined;
  for (const way of ways) {
    try {
      return await attempt(way);
    } catch (error) {
      reason ??= messageOf(error);
    }
  }
  return reason ?? 'no size fits';
}

/** One row of an input. @throws too_large */
export function madeUpRow(
  { dtype, shape }: Pick<TensorSpec, 'dtype' | 'shape'>,
  { axis, sizes, integers, row, input }: RowChoice,
): Tensor {
  const dims = shape.map((dim, at) => {
    if (at === axis) return 1;
    if (typeof dim === 'number') return dim;
    return shape.length === 4 && at >= 2 ? sizes.spatial : sizes.other;
  });
  const count = elementCount(dims, MAX_ELEMENTS);
  const random = randomNumbers(input * 65_537 + row + 1);
  if (dtype === 'string') {
    const data = Array.from({ length: count }, () => TEXTS[Math.floor(random() * TEXTS.length)] as string);
    return { dtype, shape: dims, data };
  }
  const recipe = RECIPES[(row >> 1) % RECIPES.length] as Recipe;
  const isImage = dtype === 'uint8' && dims.length === 4;
  const limit = dtype === 'bool' ? 2 : isImage ? 256 : integers;
  // A row of small numbers beside rows of large ones.
  const most = row % 3 === 1 ? Math.ceil(limit / 8) : limit;
  const data = allocate(dtype, count);
  const elements: { [index: number]: number | bigint } =
    dtype === 'float16' ? new Float16Array(data.buffer as ArrayBuffer) : data;
  for (let i = 0; i < count; i++) {
    if (dtype.startsWith('float')) elements[i] = recipe(random(), i);
    else {
      const whole = Math.floor(random() * most);
      elements[i] = dtype === 'int64' || dtype === 'uint64' ? BigInt(whole) : whole;
    }
  }
  return { dtype, shape: dims, data };
}
