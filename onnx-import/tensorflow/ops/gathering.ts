/**
 * Converts Gather, one-hot and partitions. TensorFlow returns zeros for indices out of range or drops them; ONNX
 * counts negative ones from the end or fails.
 */

import { unsqueeze } from '../../emit/gather.ts';
import type { GraphBuilder } from '../../graph/builder.ts';
import { constantNumber, constantNumbers } from '../../graph/numbers.ts';
import { axisOf, rank } from '../../graph/shapes.ts';
import type { Value } from '../../graph/value.ts';
import { intAttribute, type TfNode } from '../graph.ts';
import { transpose } from './dims.ts';
import { cast, emit, int64 } from './kernels.ts';
import { refuse } from './refuse.ts';
import { type OpTable, type Rule, takes } from './rule.ts';

/** Gathers elements of `x` at `indices`; their first `batch` axes are the same. */
function gather(
  node: TfNode,
  g: GraphBuilder,
  x: Value,
  indices: Value,
  at: { axis: number; batch: number },
): Value {
  const { batch, axis } = at;
  const places = indices.dtype === 'int32' || indices.dtype === 'int64' ? indices : cast(g, indices, 'int64');
  if (batch === 0) return g.one('Gather', [x, places], { axis }, node.name);
  const size = rank(x);
  const own = axisOf(axis, size);
  const depth = batch < 0 ? batch + rank(indices) : batch;
  if (own < depth) refuse(`needs axis ${own} behind its ${depth} batch dimensions`);
  const middle = Array.from({ length: own - depth }, (_, i) => depth + i);
  const front = Array.from({ length: depth }, (_, i) => i);
  const tail = Array.from({ length: size - own - 1 }, (_, i) => own + 1 + i);
  // Moves the axis right after the batch, followed by the axes that were between them.
  const moved = transpose(g, x, [...front, own, ...middle, ...tail]);
  const wide = unsqueeze(g, int64(g, places), [-1]);
  const made = g.one('GatherND', [moved, wide], { batch_dims: depth }, node.name);
  if (middle.length === 0) return made;
  const inner = rank(indices) - depth;
  const between = middle.map((_, i) => depth + inner + i);
  const rest = tail.map((_, i) => depth + inner + middle.length + i);
  return transpose(
    g,
    made,
    [...front, ...between, ...Array.from({ length: inner }, (_, i) => depth + i), ...rest],
    node.name,
  );
}

const gatherNd: Rule = (node, [x, indices], g) =>
  g.one('GatherND', [x, int64(g, indices)], { batch_dims: intAttribute(node, 'batch_dims', 0) }, node.name);

/** One-hot by comparison: an index out of range gives a row without a hit. */
const oneHot: Rule = (node, [indices, depth, on, off], g) => {
  const size = rank(indices) + 1;
  const axis = axisOf(intAttribute(node, 'axis', -1), size);
  const count = depth.elements?.[0];
  const end = typeof count === 'number' ? g.scalar('int64', count) : int64(g, depth);
  const numbers = g.one('Range', [g.scalar('int64', 0), end, g.scalar('int64', 1)]);
  const column = unsqueeze(
    g,
    numbers,
    Array.from({ length: size - 1 }, (_, i) => (i < axis ? i : i + 1)),
  );
  const hit = g.one('Equal', [unsqueeze(g, int64(g, indices), [axis]), column]);
  return emit(g, 'Where', [hit, on, off], {}, node.name);
};

const invertPermutation: Rule = (node, [x], g) => {
  if (x.constant) {
    const order = constantNumbers(x, 'permutation');
    return cast(g, g.ints(order.map((_, i) => order.indexOf(i))), x.dtype);
  }
  const wide = int64(g, x);
  const count = g.one('Squeeze', [g.one('Shape', [x]), g.ints([0])]);
  const numbers = g.one('Range', [g.scalar('int64', 0), count, g.scalar('int64', 1)]);
  return cast(g, g.one('ScatterElements', [wide, wide, numbers], { axis: 0 }, node.name), x.dtype);
};

const dynamicPartition: Rule = (node, [data, parts], g) => {
  if (rank(parts) !== 1) refuse('needs a list of partitions');
  return Array.from({ length: intAttribute(node, 'num_partitions') }, (_, i) => {
    const own = g.one('Equal', [parts, g.scalar(parts.dtype, i)]);
    return g.one('Compress', [data, own], { axis: 0 }, node.name);
  });
};

export const GATHERING: OpTable = {
  ...takes(1, { InvertPermutation: invertPermutation }),
  ...takes(2, {
    DynamicPartition: dynamicPartition,
    Gather: (node, [x, indices], g) =>
      gather(node, g, x, indices, { axis: 0, batch: intAttribute(node, 'batch_dims', 0) }),
    GatherNd: gatherNd,
    ResourceGather: (node, [x, indices], g) => {
      const batch = intAttribute(node, 'batch_dims', 0);
      return gather(node, g, x, indices, { axis: batch, batch });
    },
    ResourceGatherNd: gatherNd,
  }),
  ...takes(3, {
    GatherV2: (node, [x, indices, axis], g) =>
      gather(node, g, x, indices, {
        axis: constantNumber(axis, 'axis'),
        batch: intAttribute(node, 'batch_dims', 0),
      }),
  }),
  ...takes(4, { OneHot: oneHot }),
};
