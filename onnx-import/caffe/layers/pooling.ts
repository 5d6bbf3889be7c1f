/**
 * Pooling and SPP. Caffe rounds the number of windows up and drops a last one that starts in the padding; its average
 * divides by the window cut off at the end of the padding, zeros included.
 */
import { badModel } from '../../../lib/contract/errors.ts';
import { averagePool, maxPool } from '../../emit/pooling.ts';
import { assertWindows, type Windows } from '../../emit/windows.ts';
import { expectRank, merged, planeOf, reshape } from '../../graph/layout.ts';
import type { Value } from '../../graph/value.ts';
import type { ConvertLayer, LayerNode, Parameters } from '../node.ts';

const MAX = 0;
const AVE = 1;
const FLOOR = 1;
function pair(parameters: Parameters, name: string, both: string, fallback: number): [number, number] {
  const value = parameters.number(both, fallback);
  return [parameters.number(`${name}_h`, value), parameters.number(`${name}_w`, value)];
}

function windowsOf(parameters: Parameters): Windows {
  const pad = pair(parameters, 'pad', 'pad', 0);
  const windows: Windows = {
    kernel: pair(parameters, 'kernel', 'kernel_size', 0),
    strides: pair(parameters, 'stride', 'stride', 1),
    pads: [...pad, ...pad],
    ceil: parameters.number('round_mode') !== FLOOR && parameters.flag('ceil_mode', true),
    drops: 'padded',
  };
  assertWindows(windows);
  if (!pad.every((size, i) => size < (windows.kernel[i] as number)))
    throw badModel(`padding ${pad.join('x')} must be less than the kernel ${windows.kernel.join('x')}`);
  return windows;
}

function pool(node: LayerNode, input: Value, method: number, windows: Windows): readonly Value[] {
  expectRank(input, 4);
  if (method === AVE) return [averagePool(node, input, windows, 'padded')];
  if (method === MAX)
    return withMask(node, input, maxPool(node, input, windows, Math.min(node.layer.tops.length, 2)));
  throw badModel('stochastic pooling is not supported: its answers are random');
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
  return pool(node, node.input(), method, { kernel, strides: [1, 1], pads: [0, 0, 0, 0] });
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
    const windows: Windows = { kernel, strides: kernel, pads: [...pad, ...pad], ceil: true, drops: 'padded' };
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
