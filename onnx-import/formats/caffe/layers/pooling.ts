/**
 * Pooling and SPP. Caffe rounds the number of windows up and drops a last one that starts in the padding; its average
 * divides by the window cut off at the end of the padding, zeros included. ONNX has no attribute for that, so pads
 * express it.
 */
import { badModel } from '../../../../lib/contract/errors.ts';
import { formatShape } from '../../../../lib/contract/tensor.ts';
import { expectRank, merged, planeOf, reshape, scalar } from '../../../graph/layout.ts';
import { known } from '../../../graph/shapes.ts';
import type { Value } from '../../../graph/value.ts';
import type { ConvertLayer, LayerNode, Parameters } from '../node.ts';
import { checkPositive } from './convolution.ts';

const MAX = 0;
const AVE = 1;
const FLOOR = 1;
/** Caffe's result for a window without elements. */
const LOWEST = -3.4028234663852886e38;

interface Windows {
  readonly kernel: readonly number[];
  readonly stride: readonly number[];
  readonly pad: readonly number[];
  readonly roundUp: boolean;
}

function pair(parameters: Parameters, name: string, both: string, fallback: number): [number, number] {
  const value = parameters.number(both, fallback);
  return [parameters.number(`${name}_h`, value), parameters.number(`${name}_w`, value)];
}

function windowsOf(parameters: Parameters): Windows {
  const windows = {
    kernel: pair(parameters, 'kernel', 'kernel_size', 0),
    stride: pair(parameters, 'stride', 'stride', 1),
    pad: pair(parameters, 'pad', 'pad', 0),
    roundUp: parameters.number('round_mode') !== FLOOR && parameters.flag('ceil_mode', true),
  };
  const { kernel, stride, pad } = windows;
  if (!kernel.every((size) => size >= 1))
    throw badModel(`kernel must be at least 1, got ${kernel.join('x')}`);
  if (!stride.every((size) => size >= 1))
    throw badModel(`stride must be at least 1, got ${stride.join('x')}`);
  if (!pad.every((size, i) => size < (kernel[i] as number)))
    throw badModel(`padding ${pad.join('x')} must be less than the kernel ${kernel.join('x')}`);
  return windows;
}

/** The number of windows along an axis, and how far the last one reaches beyond the padding. */
function count(size: number, { kernel, stride, pad, roundUp }: Windows, axis: number) {
  const [k, s, p] = [kernel[axis] as number, stride[axis] as number, pad[axis] as number];
  const span = (size + 2 * p - k) / s;
  let windows = (roundUp ? Math.ceil(span) : Math.floor(span)) + 1;
  const padded = pad.some((each) => each > 0);
  if (padded && (windows - 1) * s >= size + p) windows -= 1;
  if (span < 0 || windows < 1) throw badModel(`a kernel of ${k} does not fit into ${size} with padding ${p}`);
  return { windows, beyond: Math.max(0, (windows - 1) * s + k - size - 2 * p) };
}

function pool(node: LayerNode, input: Value, method: number, windows: Windows): readonly Value[] {
  expectRank(input, 4);
  if (method !== MAX && method !== AVE)
    throw badModel('stochastic pooling is not supported: its answers are random');
  const [, , height, width] = known(input);
  const made =
    typeof height === 'number' && typeof width === 'number'
      ? pooled(node, input, method, windows, [height, width])
      : pooledFree(node, input, method, windows);
  checkPositive(made[0] as Value, input);
  return made;
}

function pooled(
  node: LayerNode,
  input: Value,
  method: number,
  windows: Windows,
  plane: readonly [number, number],
): readonly Value[] {
  const { kernel, stride, pad } = windows;
  const counts = plane.map((size, axis) => count(size, windows, axis));
  const shape = [...known(input).slice(0, 2), ...counts.map((each) => each.windows)];
  const results = [
    { dtype: input.dtype, shape },
    { dtype: 'int64' as const, shape },
  ];
  const beyond = counts.map((each) => each.beyond);
  const attributes = { kernel_shape: kernel, strides: stride };
  // With a stride longer than the kernel the last window may be empty.
  const outside = beyond.some((size, axis) => size >= (kernel[axis] as number));
  if (method === AVE) {
    if (outside) throw badModel('the last window of the average has no element: its answer is NaN');
    const isExact = beyond.every((size) => size === 0);
    const padded = isExact ? input : padPlane(node, input, pad, [0, 0], 0);
    const pads = isExact ? [...pad, ...pad] : [0, 0, ...beyond];
    const all = { ...attributes, pads, count_include_pad: isExact ? 1 : 0 };
    return node.g.add('AveragePool', [padded], all, { hint: node.hint, results: results.slice(0, 1) });
  }
  const outputs = node.layer.tops.length > 1 ? 2 : 1;
  if (outside && outputs > 1) throw badModel('the last window has no element to point at');
  const source = outside
    ? padPlane(
        node,
        input,
        pad,
        pad.map((p, i) => p + (beyond[i] as number)),
        LOWEST,
      )
    : input;
  const pads = outside ? [0, 0, 0, 0] : [...pad, ...pad.map((p, i) => p + (beyond[i] as number))];
  return withMask(
    node,
    input,
    node.g.add(
      'MaxPool',
      [source],
      { ...attributes, pads },
      { outputs, hint: node.hint, results: results.slice(0, outputs) },
    ),
  );
}

/** With free sizes, onnxruntime computes the windows by the same rule if one rule fits all axes. */
function pooledFree(node: LayerNode, input: Value, method: number, windows: Windows): readonly Value[] {
  const { kernel, stride, pad, roundUp } = windows;
  const padded = pad.some((size) => size > 0);
  const isOutside = !padded && stride.some((size, i) => size > (kernel[i] as number));
  if (roundUp && (isOutside || (method === AVE && padded)))
    throw badModel(
      `needs a fixed height and width, the input is ${formatShape(known(input))}; give them with --input`,
    );
  const attributes = {
    kernel_shape: kernel,
    strides: stride,
    pads: [...pad, ...pad],
    ceil_mode: roundUp ? 1 : 0,
  };
  if (method === AVE) {
    const count_include_pad = roundUp ? 0 : 1;
    return node.g.add('AveragePool', [input], { ...attributes, count_include_pad }, { hint: node.hint });
  }
  const outputs = node.layer.tops.length > 1 ? 2 : 1;
  return withMask(node, input, node.g.add('MaxPool', [input], attributes, { outputs, hint: node.hint }));
}

function padPlane(
  node: LayerNode,
  input: Value,
  before: readonly number[],
  after: readonly number[],
  value: number,
): Value {
  const ends = value === 0 ? before : after;
  if ([...before, ...ends].every((size) => size === 0)) return input;
  return node.one('Pad', [input, node.g.ints([0, 0, ...before, 0, 0, ...ends]), scalar(node, value)], {
    mode: 'constant',
  });
}

/** The second top: the position of each maximum in its plane, as floats. */
function withMask(node: LayerNode, input: Value, made: readonly Value[]): readonly Value[] {
  const [values, positions] = made;
  if (!values || !positions) return made;
  const [height, width] = planeOf(input);
  const inPlane = node.one('Mod', [positions, node.g.ints([height * width])]);
  const mask = node.one('Cast', [inPlane], { to: 1 });
  node.net.positions.set(mask, { at: positions, plane: [height, width] });
  return [values, mask];
}

const pooling: ConvertLayer = (node) => {
  const parameters = node.parameters('pooling_param');
  const method = parameters.number('pool', MAX);
  if (!parameters.flag('global_pooling')) return pool(node, node.input(), method, windowsOf(parameters));
  expectRank(node.input(), 4);
  if (method === AVE) return node.one('GlobalAveragePool', [node.input()]);
  if (method === MAX && node.layer.tops.length < 2) return node.one('GlobalMaxPool', [node.input()]);
  const kernel = planeOf(node.input());
  return pool(node, node.input(), method, { kernel, stride: [1, 1], pad: [0, 0], roundUp: true });
};

/** Pools the plane into 1, 4, 16... bins and concatenates them. */
const spatialPyramid: ConvertLayer = (node) => {
  const parameters = node.parameters('spp_param');
  const input = node.input();
  const plane = planeOf(input);
  const height = parameters.number('pyramid_height');
  if (height < 1 || height > 10) throw badModel(`pyramid_height must be 1 to 10, got ${height}`);
  const levels = Array.from({ length: height }, (_, level) => {
    const bins = 2 ** level;
    const kernel = plane.map((size) => Math.ceil(size / bins));
    const pad = plane.map((size, i) => Math.floor(((kernel[i] as number) * bins - size + 1) / 2));
    if (!pad.every((size, i) => size < (kernel[i] as number)))
      throw badModel(`${bins} bins do not fit into ${plane.join('x')}`);
    const windows = { kernel, stride: kernel, pad, roundUp: true };
    return pool(node, input, parameters.number('pool', MAX), windows)[0] as Value;
  });
  // A single level is not flattened.
  if (levels.length === 1) return levels;
  const flat = levels.map((level) => reshape(node, level, merged(node, level, 1, 4)));
  return node.one('Concat', flat, { axis: 1 });
};

export const POOLINGS: Readonly<Record<string, ConvertLayer>> = {
  Pooling: pooling,
  SPP: spatialPyramid,
};
