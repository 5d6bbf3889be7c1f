/**
 * Layers that move elements and compute nothing. Caffe's Reshape gives the whole shape, including the batch ([1,-1,2]
 * in a deploy net of batch 1): a first number equal to the file's batch stays free.
 */
import { badModel } from '../../../../lib/contract/errors.ts';
import { formatShape } from '../../../../lib/contract/tensor.ts';
import { BATCH } from '../../../graph/batch.ts';
import { axisIn, brief, canEqual, expectRank, fixedProduct, merged, reshape } from '../../../graph/layout.ts';
import { fixed, known, product, quotient } from '../../../graph/shapes.ts';
import type { Dim, Shape } from '../../../graph/value.ts';
import type { ConvertLayer, LayerNode } from '../node.ts';

const MAX_RANK = 32;

const dropout: ConvertLayer = (node) => {
  if (!node.parameters('dropout_param').flag('sample_weights_test')) return node.input();
  throw badModel('drops at inference too (sample_weights_test): its answers are random');
};

const split: ConvertLayer = (node) => node.layer.tops.map(() => node.input());

const concat: ConvertLayer = (node) => {
  const parameters = node.parameters('concat_param');
  const first = node.input();
  const wanted = parameters.has('concat_dim')
    ? parameters.number('concat_dim')
    : parameters.number('axis', 1);
  const axis = axisIn(first, wanted);
  if (axis === 0) node.bindBatch();
  for (const value of node.inputs) {
    const [own, other] = [known(value), known(first)];
    const isSame = own.every((dim, i) => i === axis || canEqual(dim, other[i]));
    if (own.length !== other.length || !isSame)
      throw badModel(`cannot join ${formatShape(other)} and ${formatShape(own)} along axis ${axis}`);
  }
  return node.inputs.length === 1 ? first : node.one('Concat', node.inputs, { axis });
};

const slice: ConvertLayer = (node) => {
  const parameters = node.parameters('slice_param');
  const input = node.input();
  const wanted = parameters.has('slice_dim') ? parameters.number('slice_dim') : parameters.number('axis', 1);
  const axis = axisIn(input, wanted);
  if (axis === 0) node.bindBatch();
  const size = fixed(input, axis);
  const count = node.layer.tops.length;
  if (count === 1) return input;
  const points = parameters.numbers('slice_point');
  const ends =
    points.length > 0 ? [...points, size] : Array.from({ length: count }, (_, i) => ((i + 1) * size) / count);
  const sizes = ends.map((end, i) => end - (ends[i - 1] ?? 0));
  if (sizes.length !== count || !sizes.every((each) => Number.isInteger(each) && each >= 1))
    throw badModel(
      `cannot cut ${size} at ${points.length > 0 ? brief(points) : 'equal parts'} into ${count} parts`,
    );
  return node.g.add('Split', [input, node.g.ints(sizes)], { axis }, { outputs: count, hint: node.hint });
};

const flatten: ConvertLayer = (node) => {
  const parameters = node.parameters('flatten_param');
  const input = node.input();
  const from = axisIn(input, parameters.number('axis', 1));
  const to = axisIn(input, parameters.number('end_axis', -1));
  if (to < from) throw badModel(`end_axis ${to} is before axis ${from}`);
  if (from === 0 && to > 0) node.bindBatch();
  return reshape(node, input, merged(node, input, from, to + 1));
};

const reshapeLayer: ConvertLayer = (node) => {
  const parameters = node.parameters('reshape_param');
  const input = node.input();
  const own = known(input);
  const dims = parameters.child('shape').numbers('dim');
  const axis = parameters.number('axis', 0);
  const from = axis >= 0 ? axis : own.length + axis + 1;
  const count = parameters.number('num_axes', -1);
  const to = count === -1 ? own.length : from + count;
  if (from < 0 || to < from || to > own.length || count < -1 || dims.length > MAX_RANK)
    throw badModel(`axis ${axis} and num_axes ${count} are outside of ${formatShape(own)}`);
  const wanted = dims.map((dim, i) => wantedDim(node, own, dim, from + i));
  const inferred = wanted.indexOf(-1);
  if (wanted.lastIndexOf(-1) !== inferred) throw badModel('has more than one -1');
  const shape: Dim[] = [...own.slice(0, from), ...wanted, ...own.slice(to)];
  if (inferred >= 0) shape[from + inferred] = rest(node, own, shape.toSpliced(from + inferred, 1));
  if (!holds(node, own, shape)) throw badModel(`cannot reshape ${formatShape(own)} to ${formatShape(shape)}`);
  // [N,4] reshaped to [4,-1] has N columns, but mixes the records.
  if (own.includes(BATCH) && (own[0] !== BATCH || shape[0] !== BATCH)) node.bindBatch();
  return reshape(node, input, shape);
};

function wantedDim(node: LayerNode, own: Shape, dim: number, at: number): Dim {
  if (dim < -1) throw badModel(`a dimension is ${dim}`);
  const copied = own[at];
  if (dim === 0) {
    if (copied !== undefined) return copied;
    throw badModel(`copies axis ${at}, the input is ${formatShape(own)}`);
  }
  const isBatch = at === 0 && copied === BATCH && dim === node.net.freedBatch;
  return isBatch ? BATCH : dim;
}

/** The size that a -1 stands for. */
function rest(node: LayerNode, own: Shape, others: Shape): Dim {
  const size = quotient(own, others);
  if (size !== undefined) return size;
  const whole = product(own);
  if (typeof whole === 'number')
    throw badModel(`cannot divide ${formatShape(own)} by ${formatShape(others)}`);
  if (own.includes(BATCH)) node.bindBatch();
  return node.g.fresh();
}

function holds(node: LayerNode, own: Shape, shape: Shape): boolean {
  const [before, after] = [product(own), product(shape)];
  if (typeof before === 'number' && typeof after === 'number') return before === after;
  if (quotient(own, shape) === 1) return true;
  // The sizes are not provably equal, so the file's batch decides.
  if (own.includes(BATCH)) node.bindBatch();
  return true;
}

const permute: ConvertLayer = (node) => {
  const input = node.input();
  const order = node.parameters('permute_param').numbers('order');
  const axes = known(input).map((_, axis) => axis);
  if (new Set(order).size !== order.length || !order.every((axis) => axis < axes.length))
    throw badModel(`order ${brief(order)} does not fit ${formatShape(known(input))}`);
  const named = new Set(order);
  const perm = [...order, ...axes.filter((axis) => !named.has(axis))];
  // Later layers assume the batch is the first axis.
  if (perm[0] !== 0) node.bindBatch();
  return perm.every((axis, i) => axis === i) ? input : node.one('Transpose', [input], { perm });
};

const crop: ConvertLayer = (node) => {
  const parameters = node.parameters('crop_param');
  const [input, like] = [node.input(), node.input(1)];
  const rank = known(input).length;
  const from = axisIn(input, parameters.number('axis', 2));
  const given = parameters.numbers('offset');
  if (known(like).length !== rank || (given.length > 1 && given.length !== rank - from))
    throw badModel(
      `${given.length} offsets from axis ${from} on, the inputs are ${formatShape(known(input))} and ${formatShape(known(like))}`,
    );
  const axes = Array.from({ length: rank - from }, (_, i) => from + i);
  const offsets = axes.map((_, i) => (given.length === 1 ? given[0] : given[i]) ?? 0);
  const cut = axes.flatMap((axis, i) => {
    const [whole, part, offset] = [known(input)[axis], known(like)[axis], offsets[i] as number];
    if (whole === part && offset === 0) return [];
    if (axis === 0) node.bindBatch();
    if (typeof whole === 'number' && typeof part === 'number' && offset + part > whole)
      throw badModel(`cannot cut ${part} at ${offset} out of ${whole} (axis ${axis})`);
    return [{ axis, offset }];
  });
  if (cut.length === 0) return input;
  const starts = node.g.ints(cut.map(({ offset }) => offset));
  const sizes = node.g.one('Gather', [node.g.one('Shape', [like]), node.g.ints(cut.map(({ axis }) => axis))]);
  const ends = node.g.one('Add', [sizes, starts]);
  const shape = known(input).map((dim, i) => (i >= from ? (known(like)[i] as Dim) : dim));
  const results = [{ dtype: input.dtype, shape }];
  const inputs = [input, starts, ends, node.g.ints(cut.map(({ axis }) => axis))];
  return node.g.add('Slice', inputs, {}, { hint: node.hint, results });
};

const tile: ConvertLayer = (node) => {
  const parameters = node.parameters('tile_param');
  const input = node.input();
  const axis = axisIn(input, parameters.number('axis', 1));
  const tiles = parameters.number('tiles');
  if (tiles < 1) throw badModel(`tiles must be at least 1, got ${tiles}`);
  if (axis === 0) node.bindBatch();
  if (tiles === 1) return input;
  return node.one('Tile', [input, node.g.ints(known(input).map((_, i) => (i === axis ? tiles : 1)))]);
};

/** Arranges channels as a table of `group` rows and reads it by columns. */
const shuffleChannels: ConvertLayer = (node) => {
  const input = node.input();
  const group = node.parameters('shuffle_channel_param').number('group', 1);
  const shape = known(input);
  const channels = fixed(input, 1);
  if (group < 1 || channels % group !== 0)
    throw badModel(`${group} groups do not divide ${channels} channels`);
  const plane = shape.slice(2);
  const table = reshape(node, input, [shape[0] as Dim, group, channels / group, ...plane]);
  const perm = [0, 2, 1, ...plane.map((_, i) => i + 3)];
  return reshape(node, node.one('Transpose', [table], { perm }), shape);
};

/** YOLO's Reorg: each block of stride x stride becomes channels. */
const reorganize: ConvertLayer = (node) => {
  const parameters = node.parameters('reorg_param');
  const input = node.input();
  expectRank(input, 4);
  const stride = parameters.number('stride', 2);
  if (parameters.flag('reverse')) throw badModel('reverse is not supported');
  const [batch, channels] = [known(input)[0] as Dim, fixed(input, 1)];
  const [height, width] = [fixed(input, 2), fixed(input, 3)];
  if (stride < 1 || channels % stride ** 2 !== 0 || height % stride !== 0 || width % stride !== 0)
    throw badModel(`stride ${stride} does not divide ${formatShape(known(input))}`);
  // Darknet views the elements as [C/s², H·s, W·s] before it cuts the blocks.
  const deep = channels / stride ** 2;
  const wide = reshape(node, input, [batch, deep, height, stride, width, stride]);
  const moved = node.one('Transpose', [wide], { perm: [0, 3, 5, 1, 2, 4] });
  return reshape(node, moved, [batch, channels * stride ** 2, height / stride, width / stride]);
};

const batchReindex: ConvertLayer = (node) => {
  node.bindBatch();
  const rows = node.one('Cast', [node.input(1)], { to: 7 });
  const list = reshape(node, rows, [fixedProduct(rows, 0)]);
  return node.one('Gather', [node.input(), list], { axis: 0 });
};

/** Weights as a blob. */
const parameter: ConvertLayer = (node) => {
  const shape = node.parameters('parameter_param').child('shape').numbers('dim');
  return node.weights([{ name: 'parameter', shape }]);
};

export const MOVES: Readonly<Record<string, ConvertLayer>> = {
  BatchReindex: batchReindex,
  Concat: concat,
  Crop: crop,
  Dropout: dropout,
  Flatten: flatten,
  Parameter: parameter,
  Permute: permute,
  Reorg: reorganize,
  Reshape: reshapeLayer,
  ShuffleChannel: shuffleChannels,
  Silence: () => [],
  Slice: slice,
  Split: split,
  Tile: tile,
};
