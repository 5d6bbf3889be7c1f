/**
 * Converts SpaceToBatch and BatchToSpace to reshapes and transposes. Older graphs write a dilated convolution as
 * SpaceToBatchND, Conv2D, BatchToSpaceND; converted to one dilated Conv it is many times faster and keeps the batch
 * intact.
 */
import { cutAlong, TO_END } from '../../emit/gather.ts';
import type { GraphBuilder } from '../../graph/builder.ts';
import { constantNumbers } from '../../graph/numbers.ts';
import { rank } from '../../graph/shapes.ts';
import type { Value } from '../../graph/value.ts';
import { intAttribute, type TfNode } from '../graph.ts';
import { pad, padsOf, pairsOf } from './blocks.ts';
import { product, reshape, type Size, shapeList, sizeOf, sizesOf, transpose } from './dims.ts';
import { emit, int64 } from './kernels.ts';
import { refuse } from './refuse.ts';
import { type Context, type OpTable, type Spaced, takes } from './rule.ts';

function div(g: GraphBuilder, size: Size, by: number): Size {
  return typeof size === 'number' ? Math.floor(size / by) : g.one('Div', [size, g.ints([by])]);
}

type Pair = readonly [Size, Size];

/** The padding or crop before and after, for each axis with blocks. */
function edgesOf(g: GraphBuilder, list: Value, count: number): Pair[] {
  if (list.constant) {
    const pairs = pairsOf(list, 'padding');
    return pairs.length === count ? pairs : refuse(`has ${pairs.length} paddings for ${count} blocks`);
  }
  const flat = g.one('Reshape', [int64(g, list), g.ints([2 * count])]);
  return Array.from({ length: count }, (_, i) => [
    cutAlong(g, flat, 0, 2 * i, 2 * i + 1),
    cutAlong(g, flat, 0, 2 * i + 1, 2 * i + 2),
  ]);
}

/** Pads the axes 1, 2, and so on. */
function grow(node: TfNode, x: Value, edges: readonly Pair[], g: GraphBuilder, context: Context): Value {
  const all = Array.from({ length: rank(x) }, (_, i) => edges[i - 1] ?? ([0, 0] as const));
  const fixed = all.every((pair): pair is readonly [number, number] =>
    pair.every((size) => typeof size === 'number'),
  );
  if (!fixed)
    return emit(g, 'Pad', [
      x,
      shapeList(g, [...all.map(([before]) => before), ...all.map(([, after]) => after)]),
    ]);
  const numbers = all as readonly (readonly [number, number])[];
  const list = g.constant({ dtype: 'int32', shape: [all.length, 2], data: Int32Array.from(numbers.flat()) });
  return padsOf(numbers).every((size) => size === 0)
    ? x
    : pad(node, x, list, g, context, { mode: 'constant' });
}

function crop(x: Value, edges: readonly Pair[], g: GraphBuilder): Value {
  return edges.reduce<Value>((value, [before, after], i) => {
    if (before === 0 && after === 0) return value;
    if (typeof after === 'number') return cutAlong(g, value, i + 1, before, after === 0 ? TO_END : -after);
    const size = sizeOf(g, value, i + 1);
    const end = g.one('Sub', [typeof size === 'number' ? g.ints([size]) : size, after]);
    return cutAlong(g, value, i + 1, before, end);
  }, x);
}

interface Blocks {
  readonly x: Value;
  readonly blocks: readonly number[];
  /** Paddings or crops. */
  readonly edges: Value;
}

function spaceToBatch(node: TfNode, { x, blocks, edges }: Blocks, g: GraphBuilder, context: Context): Value {
  const size = rank(x);
  const count = blocks.length;
  const pairs = edgesOf(g, edges, count);
  const padded = grow(node, x, pairs, g, context);
  const sizes = sizesOf(g, padded);
  const rows = blocks.map((block, i) => div(g, sizes[i + 1] as Size, block));
  const split = [sizes[0] as Size, ...blocks.flatMap((block, i) => [rows[i] as Size, block])];
  const parts = reshape(g, padded, [...split, ...sizes.slice(count + 1)]);
  const inner = Array.from({ length: size - count - 1 }, (_, i) => 1 + 2 * count + i);
  const perm = [...blocks.map((_, i) => 2 + 2 * i), 0, ...blocks.map((_, i) => 1 + 2 * i), ...inner];
  const batch = product(g, [...blocks, sizes[0] as Size]);
  const made = reshape(g, transpose(g, parts, perm), [batch, ...rows, ...sizes.slice(count + 1)], node.name);
  context.facts.spaced.set(made, { x, blocks, paddings: pairs });
  return made;
}

function batchToSpace(node: TfNode, { x, blocks, edges }: Blocks, g: GraphBuilder, context: Context): Value {
  const crops = edgesOf(g, edges, blocks.length);
  const spaced = context.facts.spaced.get(x);
  if (spaced?.convolve && spaced.blocks.every((block, i) => block === blocks[i]))
    return dilated(node, spaced, crops, g, context);
  const sizes = sizesOf(g, x);
  const count = blocks.length;
  const whole = blocks.reduce((a, b) => a * b, 1);
  const batch = div(g, sizes[0] as Size, whole);
  const parts = reshape(g, x, [...blocks, batch, ...sizes.slice(1)]);
  const inner = Array.from({ length: sizes.length - count - 1 }, (_, i) => 2 * count + 1 + i);
  const perm = [count, ...blocks.flatMap((_, i) => [count + 1 + i, i]), ...inner];
  const rows = blocks.map((block, i) => product(g, [sizes[i + 1] as Size, block]));
  const all = [batch, ...rows, ...sizes.slice(count + 1)];
  return crop(reshape(g, transpose(g, parts, perm), all, node.name), crops, g);
}

/** The padding includes the filling of the last block, which the crops remove again. */
function dilated(
  node: TfNode,
  { x, paddings, convolve }: Spaced,
  crops: readonly Pair[],
  g: GraphBuilder,
  context: Context,
): Value {
  const left = paddings.map((pair, i) =>
    pair.map((size, k) => {
      const away = crops[i]?.[k];
      return typeof size === 'number' && typeof away === 'number' ? size - away : undefined;
    }),
  );
  const both = left.every((pair) => pair.every((size) => size !== undefined && size >= 0));
  const padded = grow(node, x, both ? (left as unknown as readonly Pair[]) : paddings, g, context);
  const made = convolve?.(padded, g, context) ?? refuse('has no convolution');
  return both ? made : crop(made, crops, g);
}

function blocksOf(x: Value, value: Value): number[] {
  return checked(x, constantNumbers(value, 'block size'));
}

/** One attribute gives the block size of both spatial axes. */
function oldBlocks(node: TfNode, x: Value): number[] {
  const size = intAttribute(node, 'block_size');
  return checked(x, [size, size]);
}

function checked(x: Value, blocks: number[]): number[] {
  if (blocks.length >= rank(x)) refuse(`has ${blocks.length} block sizes for ${rank(x)} dimensions`);
  if (blocks.some((block) => block < 1)) refuse(`needs blocks of at least 1, got [${blocks.join(',')}]`);
  return blocks;
}

export const BATCH_SPACE: OpTable = {
  ...takes(2, {
    BatchToSpace: (node, [x, edges], g, context) =>
      batchToSpace(node, { x, blocks: oldBlocks(node, x), edges }, g, context),
    SpaceToBatch: (node, [x, edges], g, context) =>
      spaceToBatch(node, { x, blocks: oldBlocks(node, x), edges }, g, context),
  }),
  ...takes(3, {
    BatchToSpaceND: (node, [x, block, edges], g, context) =>
      batchToSpace(node, { x, blocks: blocksOf(x, block), edges }, g, context),
    SpaceToBatchND: (node, [x, block, edges], g, context) =>
      spaceToBatch(node, { x, blocks: blocksOf(x, block), edges }, g, context),
  }),
};
