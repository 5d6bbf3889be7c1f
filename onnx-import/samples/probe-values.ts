/**
 * Made-up values for a probe, the same ones on every machine. Rows differ in scale, because a scale that all rows share
 * shows only between rows that differ; some are never negative, because NaN hides everything.
 */
import { allocate, elementCount, type Tensor } from '../../lib/contract/tensor.ts';
import type { TensorSpec } from '../../lib/contract/values.ts';
import { float16Bits } from '../../lib/pipeline/bind/cast.ts';
import type { Hints, InputHints, Range } from './hints.ts';
import { FREE_SIZES, type FreeSizes, possibleSpecs, randomNumbers } from './inputs.ts';
import { messageOf } from './reference.ts';
import { NotFinished } from './work.ts';

/** Of a made-up row. */
const MAX_ELEMENTS = 2 ** 26;
/** Whole numbers may be places in a table, and tables are of all sizes. */
export const INTEGER_RANGES: readonly number[] = [100, 10, 2, 1];

const TEXTS = ['a', 'b', 'the quick brown fox', '', '42', 'über', 'a', 'x y'];
const NUMBER_TEXTS = ['1.0', '1', '0', '2024', '-3.5', '101325', '0.25', '1e3'];

/** The least and the largest; of 64 bits as of 32. */
const INTEGERS: Readonly<Record<string, readonly [number, number]>> = {
  int8: [-128, 127],
  uint8: [0, 255],
  int16: [-32_768, 32_767],
  uint16: [0, 65_535],
  uint32: [0, 2 ** 31 - 1],
  uint64: [0, 2 ** 31 - 1],
};

type Recipe = (random: number, at: number) => number;

/** Two rows after one another are made alike, so that each meets one of its own kind and one of another. */
const COMMON: readonly Recipe[] = [(random) => 2 * random - 1, (random) => random];
const OTHERS: readonly Recipe[] = [
  (random) => 1_000 + 9_000 * random,
  (random) => -5 * random,
  (random) => 200 * random - 100,
  (random) => Math.floor(256 * random),
  (random, at) => (at % 3 === 0 ? 4 * random - 2 : 0),
  // Years, pressures in pascal, amounts.
  (random) => 1_950 + Math.floor(100 * random),
  (random) => 101_325 - 5_000 * Math.floor(2 * random),
  (random) => 2e6 * random - 1e6,
];

/** Values in a range that the graph names, at its ends and a little beyond them. */
function recipesIn({ low, high, isTable }: Range): Recipe[] {
  const [least, most] = [low, high].map((side) => (at: number) => side[at % side.length] as number) as [
    (at: number) => number,
    (at: number) => number,
  ];
  const within = (share: number, at: number) => least(at) + share * (most(at) - least(at));
  return [
    (_, at) => most(at),
    within,
    (random, at) => (random < 0.5 ? least(at) : most(at)),
    (random, at) => within(isTable ? random : 1.5 * random - 0.25, at),
  ];
}

function recipesFor(hints: InputHints | undefined): readonly Recipe[] {
  return [...COMMON, ...(hints?.ranges ?? []).flatMap(recipesIn), ...OTHERS];
}

/** Rows until every kind of value was made twice for each input. */
export function rowsOfAllKinds(hints: Hints): number {
  return 2 * Math.max(...[undefined, ...Object.values(hints)].map((one) => recipesFor(one).length));
}

/** How rows are made up. */
export interface Way {
  readonly sizes: FreeSizes;
  /** Whole numbers are below it. */
  readonly integers: number;
  /** Only texts that the graph knows, and whole numbers where it reads texts as numbers. */
  readonly isCareful: boolean;
}

interface RowChoice extends Way {
  readonly hints: Hints;
  /** Has the size 1. */
  readonly axis: number | 'none';
  /** Of the row, and of the input. */
  readonly row: number;
  readonly input: number;
}

/** Shapes, whole numbers, texts and free sizes to make up rows with, the likeliest first. @param fit changes the inputs */
export function* waysToMakeUp(
  inputs: readonly TensorSpec[],
  shapeless: readonly string[],
  fit: (specs: readonly TensorSpec[]) => readonly TensorSpec[] = (specs) => specs,
): Generator<Way & { readonly specs: readonly TensorSpec[] }> {
  for (const specs of possibleSpecs(inputs, shapeless).map(fit)) {
    const isFree = specs.some(({ shape }) => shape.some((dim) => typeof dim === 'string'));
    for (const way of valuesToMakeUp(inputs)) {
      for (const sizes of isFree ? FREE_SIZES : FREE_SIZES.slice(0, 1)) yield { ...way, specs, sizes };
    }
  }
}

/** The ways but for the sizes. */
export function* valuesToMakeUp(inputs: readonly TensorSpec[]): Generator<Omit<Way, 'sizes'>> {
  const hasIntegers = inputs.some(({ dtype }) => dtype.includes('int'));
  const hasTexts = inputs.some(({ dtype }) => dtype === 'string');
  for (const integers of hasIntegers ? INTEGER_RANGES : INTEGER_RANGES.slice(0, 1)) {
    for (const isCareful of hasTexts ? [false, true] : [false]) yield { integers, isCareful };
  }
}

/** Sizes besides those that a model took, in which a rewrite or a rule may be wrong. */
const OTHER_SIZES: readonly FreeSizes[] = [
  { spatial: 40, other: 5, isVaried: true },
  { spatial: 40, other: 5 },
  { spatial: 96, other: 3 },
  { spatial: 64, other: 16 },
  { spatial: 32, other: 1 },
  { spatial: 16, other: 2 },
  { spatial: 224, other: 12 },
];
const MOST_LENGTHS = 2;

/** What `attempt` gives for other free sizes than those that the model took, where it does not fail. */
export async function ofOtherLengths<Made>(
  way: Way,
  hasFreeSizes: boolean,
  attempt: (way: Way) => Promise<Made>,
): Promise<Made[]> {
  const made: Made[] = [];
  for (const sizes of hasFreeSizes ? OTHER_SIZES : []) {
    const isKnown = sizes.other === way.sizes.other && sizes.spatial === way.sizes.spatial;
    if (isKnown || made.length === MOST_LENGTHS) continue;
    try {
      made.push(await attempt({ ...way, sizes }));
    } catch (error) {
      if (error instanceof NotFinished) throw error;
    }
  }
  return made;
}

/** What the first way gives that does not fail; else the first reason, which is about the likeliest. */
export async function firstTaken<Candidate, Made extends object>(
  ways: Iterable<Candidate>,
  attempt: (way: Candidate) => Promise<Made>,
): Promise<Made | string> {
  let reason: string | undefined;
  for (const way of ways) {
    try {
      return await attempt(way);
    } catch (error) {
      if (error instanceof NotFinished) throw error;
      reason ??= messageOf(error);
    }
  }
  return reason ?? 'no size fits';
}

/** One row of an input. @throws too_large */
export function madeUpRow(
  { name, dtype, shape }: Pick<TensorSpec, 'name' | 'dtype' | 'shape'>,
  choice: RowChoice,
): Tensor {
  const { axis, sizes, row, input } = choice;
  const dims = shape.map((dim, at) =>
    at === axis ? 1 : typeof dim === 'number' ? dim : sizeOf(dim, at, shape.length, sizes),
  );
  const count = elementCount(dims, MAX_ELEMENTS);
  const random = randomNumbers(input * 65_537 + row + 1);
  const hints = Object.hasOwn(choice.hints, name) ? choice.hints[name] : undefined;
  const own = hintsFor(dtype, dims, hints);
  const recipes = recipesFor(own);
  const place = (row >> 1) % recipes.length;
  const recipe = recipes[place] as Recipe;
  const isInRange = place >= COMMON.length && place < recipes.length - OTHERS.length;
  if (dtype === 'string') {
    const texts = textsFor(own, choice.isCareful);
    const text = (at: number) => {
      if (own?.isNumber && isInRange) return String(rounded(recipe(random(), at), choice.isCareful));
      return texts[Math.floor(random() * texts.length)] as string;
    };
    return { dtype, shape: dims, data: Array.from({ length: count }, (_, at) => text(at)) };
  }
  const data = allocate(dtype, count);
  const elements: { [index: number]: number | bigint } = data;
  const limit = dtype === 'bool' ? 2 : isImage(dtype, dims) ? 256 : choice.integers;
  const whole = isInRange && dtype !== 'bool' ? inRange(dtype, recipe) : smallNumbers(limit, row);
  for (let i = 0; i < count; i++) {
    if (dtype === 'float16') elements[i] = float16Bits(recipe(random(), i));
    else if (dtype.startsWith('float')) elements[i] = recipe(random(), i);
    else {
      const value = whole(random(), i);
      elements[i] = dtype === 'int64' || dtype === 'uint64' ? BigInt(value) : value;
    }
  }
  return { dtype, shape: dims, data };
}

/** Names that differ get sizes that differ, where that is asked for. */
function sizeOf(
  dim: string,
  at: number,
  rank: number,
  { spatial, other, isVaried = false }: FreeSizes,
): number {
  const names = Buffer.from(dim || `${at}`).reduce((sum, byte) => sum + byte, 0);
  const more = isVaried ? names % 3 : 0;
  return rank === 4 && at >= 2 ? spatial + 8 * more : other + more;
}

function isImage(dtype: string, dims: readonly number[]): boolean {
  return dtype === 'uint8' && dims.length === 4;
}

/** Bytes have all values, unless the graph says which. */
function hintsFor(
  dtype: string,
  dims: readonly number[],
  hints: InputHints = { ranges: [], texts: [], isNumber: false },
): InputHints {
  const isByte = dtype === 'int8' || dtype === 'uint8';
  if (!isByte || isImage(dtype, dims) || hints.ranges.length > 0) return hints;
  const [low, high] = dtype === 'int8' ? [-128, 127] : [0, 255];
  return { ...hints, ranges: [{ low: [low], high: [high] }] };
}

function textsFor({ texts, isNumber }: InputHints, isCareful: boolean): readonly string[] {
  if (isNumber) return isCareful ? NUMBER_TEXTS.filter((text) => /^\d+$/.test(text)) : NUMBER_TEXTS;
  if (texts.length === 0) return TEXTS;
  return isCareful ? texts : [...texts, ...TEXTS];
}

function rounded(value: number, isWhole: boolean): number {
  return isWhole ? Math.round(value) : Number(value.toPrecision(6));
}

function smallNumbers(limit: number, row: number): Recipe {
  // A row of small numbers beside rows of large ones.
  const most = row % 3 === 1 ? Math.ceil(limit / 8) : limit;
  return (random) => Math.floor(random * most);
}

function inRange(dtype: string, recipe: Recipe): Recipe {
  const [least, most] = INTEGERS[dtype] ?? [-(2 ** 31), 2 ** 31 - 1];
  return (random, at) => Math.max(least, Math.min(most, Math.round(recipe(random, at))));
}
