/**
 * Pooling. With `ceil` a last window may reach beyond the padding; pads express it, because onnxruntime and OpenVINO
 * count such windows differently.
 */
import { badModel } from '../../../../lib/contract/errors.ts';
import { ELEMENT_TYPES } from '../../../graph/attributes.ts';
import { constantNumbers } from '../../../graph/numbers.ts';
import { axisOf, fixed, known } from '../../../graph/shapes.ts';
import type { Value } from '../../../graph/value.ts';
import { cast, type OpTable, type OvNode, type Rule } from '../node.ts';
import { dtypeNamed } from '../weights.ts';
import { padsOf, positives } from './convolution.ts';
import { isFloat } from './elementwise.ts';

type Rounding = 'floor' | 'ceil' | 'ceil_torch';

export interface Windows {
  readonly kernel: readonly number[];
  readonly strides: readonly number[];
  readonly dilations: readonly number[];
  readonly pads: readonly number[];
  readonly rounding: Rounding;
}

function windowsOf(node: OvNode, x: Value): Windows {
  const rank = known(x).length - 2;
  const kernel = node.numbers('kernel');
  if (rank < 1 || kernel.length !== rank || !kernel.every((size) => Number.isSafeInteger(size) && size >= 1))
    throw badModel(`has a kernel of ${kernel.slice(0, 10).join('x')} for ${rank} axes`);
  const [strides, dilations] = [positives(node, 'strides', rank), positives(node, 'dilations', rank)];
  const reach = kernel.map((size, i) => (size - 1) * (dilations[i] as number) + 1);
  const pads = padsOf(node, known(x).slice(2), reach, strides);
  const rounding = node.choice('rounding_type', ['floor', 'ceil', 'ceil_torch'], 'floor');
  return { kernel, strides, dilations, pads, rounding };
}

/** How far the last window of each axis reaches beyond the padding. */
function beyond(x: Value, { kernel, strides, dilations, pads, rounding }: Windows): readonly number[] {
  const rank = kernel.length;
  return kernel.map((size, i) => {
    if (rounding === 'floor') return 0;
    const stride = strides[i] as number;
    const [before, after] = [pads[i] as number, pads[i + rank] as number];
    const dim = stride === 1 ? 0 : fixed(x, i + 2);
    if (stride === 1) return 0;
    const reach = (size - 1) * (dilations[i] as number) + 1;
    const span = dim + before + after - reach;
    let count = Math.ceil(span / stride) + 1;
    // PyTorch drops a window that starts beyond the input and the padding before it.
    if (rounding === 'ceil_torch' && (count - 1) * stride >= dim + before) count -= 1;
    return Math.max(0, (count - 1) * stride + reach - dim - before - after);
  });
}

const maxPool: Rule = (node) => {
  const x = node.input();
  const windows = windowsOf(node, x);
  if (node.isTaken(1)) return withPositions(node, x, windows);
  node.ignore('axis', 'index_element_type');
  const [first] = maxima(node, x, windows, 1);
  return node.layer.outputs.length > 1
    ? [first as Value, unusedPositions(node, first as Value)]
    : [first as Value];
};

/** Nothing takes them. */
function unusedPositions(node: OvNode, value: Value): Value {
  return node.g.one('Cast', [value], {
    to: ELEMENT_TYPES[dtypeNamed(node.text('index_element_type', 'i64'))],
  });
}

export function maxima(node: OvNode, x: Value, windows: Windows, outputs: number): Value[] {
  const { kernel, strides, dilations, pads } = windows;
  const rank = kernel.length;
  const more = beyond(x, windows);
  if (!isFloat(x) && x.dtype !== 'int8' && x.dtype !== 'uint8')
    throw badModel(`pools ${x.dtype}, which is not supported`);
  const all = pads.map((pad, i) => (i < rank ? pad : pad + (more[i - rank] as number)));
  const isOutside = all.some(
    (pad, i) => pad >= (kernel[i % rank] as number) * (dilations[i % rank] as number),
  );
  if (isOutside) throw badModel('has a window without an element');
  return node.g.add(
    'MaxPool',
    [x],
    { kernel_shape: kernel, strides, dilations, pads: all },
    { outputs, hint: node.hint },
  );
}

/** Positions count from the axis `axis` on: ONNX's count through the whole tensor. */
function withPositions(node: OvNode, x: Value, windows: Windows): Value[] {
  const shape = known(x);
  const axis = axisOf(node.whole('axis', 0), shape.length);
  const [values, positions] = maxima(node, x, windows, 2) as [Value, Value];
  const size = shape.slice(axis).reduce<number>((all, _, i) => all * fixed(x, axis + i), 1);
  const own = axis === 0 ? positions : node.g.one('Mod', [positions, node.g.scalar('int64', size)]);
  return [values, cast(node, own, dtypeNamed(node.text('index_element_type', 'i64')))];
}

const avgPool: Rule = (node) => {
  const x = node.input();
  return averages(
    node,
    x,
    windowsOf(node, x),
    node.flag('exclude-pad', node.has('exclude_pad') ? node.flag('exclude_pad') : true),
  );
};

/** With padding a window is divided by its whole size, even where it reaches beyond; without, by its part within. */
export function averages(node: OvNode, x: Value, windows: Windows, excludesPads: boolean): Value {
  const { kernel, strides, dilations, pads } = windows;
  if (!isFloat(x)) throw badModel(`averages ${x.dtype}, which is not supported`);
  if (dilations.some((size) => size !== 1)) throw badModel('averages with dilations, which is not supported');
  const more = beyond(x, windows);
  const rank = kernel.length;
  const all = pads.map((pad, i) => (i < rank ? pad : pad + (more[i - rank] as number)));
  const isOutside = all.some((pad, i) => pad >= (kernel[i % rank] as number));
  if (isOutside) throw badModel('has a window without an element');
  const count_include_pad = excludesPads || pads.every((pad) => pad === 0) ? 0 : 1;
  return node.one('AveragePool', [x], { kernel_shape: kernel, strides, pads: all, count_include_pad });
}

/** The bounds of each window: from floor(i * size / count) to ceil((i + 1) * size / count). */
const adaptive =
  (op: 'ReduceMean' | 'ReduceMax'): Rule =>
  (node) => {
    const x = node.input(0);
    const sizes = constantNumbers(node.input(1), 'output shape');
    const spatial = known(x).length - 2;
    if (sizes.length !== spatial) throw badModel(`has ${sizes.length} sizes for ${spatial} axes`);
    if (node.isTaken(1)) throw badModel('gives the positions of its maxima, which is not supported');
    node.ignore('index_element_type');
    const made = sizes.reduce((value, count, i) => adaptiveAxis(node, value, op, i + 2, count), x);
    return node.layer.outputs.length > 1 ? [made, unusedPositions(node, made)] : made;
  };

const MAX_BINS = 4096;

function adaptiveAxis(node: OvNode, x: Value, op: string, axis: number, count: number): Value {
  if (count < 1 || count > MAX_BINS) throw badModel(`has an output of ${count}, the limit is ${MAX_BINS}`);
  if (count === 1) return node.one(op, [x], { axes: [axis], keepdims: 1 });
  const size = fixed(x, axis);
  if (size === count) return x;
  const g = node.g;
  const parts = Array.from({ length: count }, (_, i) => {
    const [from, to] = [Math.floor((i * size) / count), Math.ceil(((i + 1) * size) / count)];
    const part = g.one('Slice', [x, g.ints([from]), g.ints([to]), g.ints([axis])]);
    return g.one(op, [part], { axes: [axis], keepdims: 1 });
  });
  return node.one('Concat', parts, { axis });
}

export const POOLINGS: OpTable = {
  AdaptiveAvgPool: adaptive('ReduceMean'),
  AdaptiveMaxPool: adaptive('ReduceMax'),
  AvgPool: avgPool,
  MaxPool: maxPool,
};
