/**
 * Layers of versions 2 to 7 without weights. No runtime of today reads these versions, so what their documents leave
 * open is refused.
 */
import { badModel } from '../../../lib/contract/errors.ts';
import { acrossChannels } from '../../emit/normalize.ts';
import { ELEMENT_TYPES } from '../../graph/attributes.ts';
import { BATCH } from '../../graph/batch.ts';
import { axisOf, known, product } from '../../graph/shapes.ts';
import type { Value } from '../../graph/value.ts';
import type { OpTable, OvNode, Rule } from '../node.ts';
import { dtypeNamed } from '../weights.ts';
import { clamp, scalar, unary } from './elementwise.ts';
import { meanVariance } from './normalization.ts';
import { resized, sizesFor } from './resize.ts';
import { evenly, reshaped, reshapeKnown } from './shaping.ts';
import { gathered } from './slicing.ts';

/** (shift + scale * x) ^ power */
const power: Rule = (node) => {
  const x = node.input();
  const [exponent, scale, shift] = [
    node.number('power', 1),
    node.number('scale', 1),
    node.number('shift', 0),
  ];
  const scaled = scale === 1 ? x : node.one('Mul', [x, scalar(node, x, scale)]);
  const moved = shift === 0 ? scaled : node.one('Add', [scaled, scalar(node, x, shift)]);
  return node.one(
    exponent === 1 ? 'Identity' : 'Pow',
    exponent === 1 ? [moved] : [moved, scalar(node, x, exponent)],
  );
};

const norm: Rule = (node) => {
  const x = node.input();
  const isAcross = node.choice('region', ['across', 'same'], 'across') === 'across';
  const size = node.whole(node.has('local-size') ? 'local-size' : 'local_size');
  const [alpha, beta, k] = [node.number('alpha'), node.number('beta'), node.number('k', 1)];
  if (!isAcross || k !== 1 || size % 2 === 0)
    throw badModel(`over the same channel, with k ${k} or size ${size} is not supported`);
  return acrossChannels(node, x, { size, alpha, beta, bias: 1 });
};

const mvn: Rule = (node) => {
  const x = node.input();
  const first = node.flag('across_channels', false) ? 1 : 2;
  const axes = Array.from({ length: known(x).length - first }, (_, i) => i + first);
  const eps = node.number('eps', 1e-9);
  // Whether it is added before or after the root is not written down.
  if (eps > 1e-6) throw badModel(`eps ${eps} is not supported`);
  return meanVariance(node, x, axes);
};

const ELTWISE: Readonly<Record<string, string>> = {
  sum: 'Add',
  add: 'Add',
  mul: 'Mul',
  prod: 'Mul',
  max: 'Max',
  min: 'Min',
  sub: 'Sub',
  div: 'Div',
  pow: 'Pow',
};

const eltwise: Rule = (node) => {
  const operation = node.text('operation', 'sum').toLowerCase();
  const op = Object.hasOwn(ELTWISE, operation) ? ELTWISE[operation] : undefined;
  if (op === undefined) throw badModel(`operation ${operation.slice(0, 50)} is not supported`);
  const factors = node.numbers('coeff', []);
  if (factors.length > 0 && op !== 'Add') throw badModel(`has factors for ${operation}`);
  const parts = node
    .all()
    .map((part, i) =>
      (factors[i] ?? 1) === 1 ? part : node.g.one('Mul', [part, scalar(node, part, factors[i] as number)]),
    );
  if (parts.length < 2) throw badModel('needs two inputs');
  return parts.slice(1).reduce((sum, part) => node.one(op, [sum, part]), parts[0] as Value);
};

const ACTIVATION: Readonly<Record<string, string>> = {
  elu: 'Elu',
  relu: 'Relu',
  sigmoid: 'Sigmoid',
  tanh: 'Tanh',
  exp: 'Exp',
  not: 'Not',
};

const activation: Rule = (node) => {
  const type = node.text('type').toLowerCase();
  const op = Object.hasOwn(ACTIVATION, type) ? ACTIVATION[type] : undefined;
  if (op === undefined) throw badModel(`type ${type.slice(0, 50)} is not supported`);
  return node.one(op, [node.input()], type === 'elu' ? { alpha: { float: node.number('alpha', 1) } } : {});
};

const split: Rule = (node) => {
  const x = node.input();
  const axis = axisOf(node.whole('axis', 1), known(x).length);
  const sizes = node.layer.outputs.map(({ dims }) => dims[axis] ?? 0);
  if (sizes.every((size) => size === sizes[0])) return evenly(node, x, axis, sizes.length);
  if (known(x)[axis] === BATCH) node.bindBatch();
  return node.g.add('Split', [x, node.g.ints(sizes)], { axis }, { outputs: sizes.length, hint: node.hint });
};

const flatten: Rule = (node) => {
  const x = node.input();
  const shape = known(x);
  const [from, to] = [
    axisOf(node.whole('axis', 1), shape.length),
    axisOf(node.whole('end_axis', -1), shape.length),
  ];
  return reshapeKnown(node, x, [
    ...shape.slice(0, from),
    product(shape.slice(from, to + 1)) ?? node.g.fresh(),
    ...shape.slice(to + 1),
  ]);
};

/** What it becomes stands at its port. */
const reshape: Rule = (node) => {
  const x = node.input(0);
  node.optional(1);
  node.ignore('dim', 'axis', 'num_axes');
  return reshaped(node, x, node.g.ints(node.layer.outputs[0]?.dims ?? []), false);
};

const crop: Rule = (node) => {
  const x = node.input(0);
  node.optional(1);
  const [axes, offsets] = [node.numbers('axis'), node.numbers('offset', node.numbers('crop_begin', []))];
  node.ignore('dim', 'crop_end', 'crop_begin');
  const sizes = axes.map((axis) => node.layer.outputs[0]?.dims[axis] ?? 0);
  const kept = axes.flatMap((axis, i) =>
    known(x)[axis] === BATCH && offsets[i] === 0 && sizes[i] === node.net.freedBatch ? [] : [i],
  );
  const list = (values: readonly number[]) => node.g.ints(kept.map((i) => values[i] as number));
  if (kept.some((i) => known(x)[axes[i] as number] === BATCH)) node.bindBatch();
  return node.one('Slice', [
    x,
    list(offsets),
    list(offsets.map((offset, i) => offset + (sizes[i] as number))),
    list(axes),
  ]);
};

const tile: Rule = (node) => {
  const x = node.input();
  const axis = axisOf(node.whole('axis'), known(x).length);
  if (known(x)[axis] === BATCH) node.bindBatch();
  return node.one('Tile', [x, node.g.ints(known(x).map((_, i) => (i === axis ? node.whole('tiles') : 1)))]);
};

function sizesAtPort(node: OvNode, x: Value) {
  const dims = node.layer.outputs[0]?.dims ?? [];
  return sizesFor(x, new Map([2, 3].map((axis) => [axis, dims[axis] ?? 0])));
}

const interp: Rule = (node) => {
  const x = node.input(0);
  node.optional(1);
  node.ignore('factor', 'height', 'width', 'zoom_factor', 'shrink_factor');
  if (node.number('pad_beg', 0) !== 0 || node.number('pad_end', 0) !== 0)
    throw badModel('paddings are not supported');
  const coordinates = node.flag('align_corners', true) ? 'align_corners' : 'asymmetric';
  return resized(node, x, sizesAtPort(node, x), {
    mode: 'linear_onnx',
    coordinates,
    nearest: 'floor',
    antialias: false,
    cube: 0,
  });
};

const resample: Rule = (node) => {
  const x = node.input(0);
  node.optional(1);
  node.ignore('factor', 'height', 'width', 'antialias');
  const type = node.text('type').toLowerCase().replace('caffe.resampleparameter.', '');
  const axes = sizesAtPort(node, x);
  if (
    axes.some(({ scale }) => scale < 1 || !Number.isInteger(scale)) ||
    (type !== 'nearest' && type !== 'linear')
  )
    throw badModel(`of type ${type.slice(0, 50)} is only supported to a multiple of the size`);
  const mode = type === 'nearest' ? 'nearest' : 'linear';
  return resized(node, x, axes, {
    mode,
    coordinates: 'half_pixel',
    nearest: 'round_prefer_floor',
    antialias: false,
    cube: 0,
  });
};

const gather: Rule = (node) => {
  const x = node.input(0);
  return gathered(node, x, node.input(1), axisOf(node.whole('axis', 0), known(x).length), 0);
};

export const LEGACY_OPS: OpTable = {
  Activation: activation,
  Clamp: clamp,
  Copy: (node) => node.one('Identity', [node.input()]),
  Crop: crop,
  ELU: (node) => node.one('Elu', [node.input()], { alpha: { float: node.number('alpha', 1) } }),
  Eltwise: eltwise,
  Flatten: flatten,
  Gather: gather,
  Interp: interp,
  MVN: mvn,
  Norm: norm,
  Permute: (node) => node.one('Transpose', [node.input()], { perm: node.numbers('order') }),
  Power: power,
  Resample: resample,
  Reshape: reshape,
  ShapeOf: (node) =>
    node.g.one('Cast', [node.one('Shape', [node.input()])], { to: ELEMENT_TYPES[dtypeNamed('i32')] }),
  Slice: split,
  Split: split,
  TanH: unary('Tanh'),
  Tile: tile,
};
