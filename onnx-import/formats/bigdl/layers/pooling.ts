/** Pooling along one, two or three axes. */
import { badModel } from '../../../../lib/contract/errors.ts';
import { formatShape } from '../../../../lib/contract/tensor.ts';
import { known } from '../../../graph/shapes.ts';
import type { Value } from '../../../graph/value.ts';
import type { Call, Rule } from '../call.ts';
import { plain } from './shapes.ts';
import { layWindows, shortWindows, type Windows } from './windows.ts';

/** The value of a window without elements. */
const LOWEST = -3.4028234663852886e38;

const PLANE = ['H', 'W'];
const VOLUME = ['T', 'H', 'W'];

/** BigDL stops rounding up after an answer if only the width needs none, and then answers otherwise. */
function assertSteady(plane: readonly number[], { kernel, stride, pad, ceil }: Windows): void {
  const rest = (axis: number) =>
    ((plane[axis] as number) + 2 * (pad[axis] as number) - (kernel[axis] as number)) %
    (stride[axis] as number);
  if (ceil && plane.length === 2 && pad[1] === 0 && rest(1) === 0 && rest(0) !== 0)
    throw badModel('rounds only the height up, with which its first answer differs from the others');
}

function maxPool(call: Call, value: Value, windows: Windows): Value {
  const plane = plain(known(value).slice(2));
  assertSteady(plane, windows);
  const laid = layWindows(plane, windows);
  // ONNX has no negative pads; the elements that no window takes are ignored.
  const pads = [...laid.map(({ before }) => before), ...laid.map(({ after }) => Math.max(0, after))];
  const isOutside = pads.some((size, i) => size >= (windows.kernel[i % plane.length] as number));
  const source = isOutside ? padded(call, value, pads, LOWEST) : value;
  const attributes = {
    kernel_shape: windows.kernel,
    strides: windows.stride,
    pads: isOutside ? pads.map(() => 0) : pads,
  };
  const shape = [...known(value).slice(0, 2), ...laid.map(({ count }) => count)];
  return call.shaped('MaxPool', [source], attributes, shape);
}

export function padded(call: Call, value: Value, pads: readonly number[], fill: number): Value {
  if (pads.every((size) => size === 0)) return value;
  const half = pads.length / 2;
  const all = [0, 0, ...pads.slice(0, half), 0, 0, ...pads.slice(half)];
  return call.one('Pad', [value, call.g.ints(all), call.scalar(fill)], { mode: 'constant' });
}

/** Divides by the window: cut off at the end of the padding, or of the input. */
export function averagePool(call: Call, value: Value, windows: Windows, countsPadding: boolean): Value {
  const plane = plain(known(value).slice(2));
  assertSteady(plane, windows);
  const laid = layWindows(plane, windows);
  const { kernel, stride, pad } = windows;
  const isSame = pad.some((size) => size === -1);
  // What is behind the padding counts for nothing.
  const beyond = laid.map(({ after }, axis) => Math.max(0, after - (isSame ? after : (pad[axis] as number))));
  const own = laid.map(({ before, after }, axis) => [
    before,
    Math.max(0, isSame ? after : Math.min(after, pad[axis] as number)),
  ]);
  const inside = [...own.map(([before]) => before as number), ...own.map(([, after]) => after as number)];
  const source = countsPadding ? padded(call, value, inside, 0) : value;
  const pads = countsPadding
    ? [...plane.map(() => 0), ...beyond]
    : [...laid.map(({ before }) => before), ...laid.map(({ after }) => Math.max(0, after))];
  if (pads.some((size, i) => size >= (kernel[i % plane.length] as number)))
    throw badModel('has a window without an element: its average is not a number');
  const shape = [...known(value).slice(0, 2), ...laid.map(({ count }) => count)];
  const attributes = { kernel_shape: kernel, strides: stride, pads, count_include_pad: 0 };
  return call.shaped('AveragePool', [source], attributes, shape);
}

const spatialMax: Rule = (call) => {
  const { module } = call;
  const windows = { ...shortWindows(module, PLANE), ceil: module.flag('ceil_mode') };
  const isLast = module.channelsLast();
  return call.batched(4, (value) =>
    call.channelsFirst(value, isLast, (first) => maxPool(call, first, windows)),
  );
};

const spatialAverage: Rule = (call) => {
  const { module } = call;
  const isGlobal = module.flag('globalPooling');
  const counts = module.flag('countIncludePad', true);
  const divides = module.flag('divide', true);
  const isLast = module.channelsLast();
  const given = { ...shortWindows(module, PLANE), ceil: module.flag('ceilMode') };
  const pool = (value: Value) => {
    const windows = isGlobal ? { ...given, kernel: plain(known(value).slice(2)) } : given;
    const made = averagePool(call, value, windows, counts);
    if (divides) return made;
    const [height, width] = windows.kernel as [number, number];
    return call.one('Mul', [made, call.scalar(height * width)]);
  };
  return call.batched(4, (value) => call.channelsFirst(value, isLast, pool));
};

function volumeWindows({ module }: Call): Windows {
  return { ...shortWindows(module, VOLUME), ceil: module.flag('ceilMode') };
}

const volumetricMax: Rule = (call) => call.batched(5, (value) => maxPool(call, value, volumeWindows(call)));

const volumetricAverage: Rule = (call) => {
  const counts = call.module.flag('countIncludePad', true);
  return call.batched(5, (value) => averagePool(call, value, volumeWindows(call), counts));
};

/** Steps before features. */
const temporalMax: Rule = (call) => {
  const kernel = call.module.int('kW');
  const given = call.module.int('dW', -1);
  const windows = { kernel: [kernel], stride: [given === -1 ? kernel : given], pad: [0] };
  return call.batched(3, (value) => {
    if (known(value).length !== 3)
      throw badModel(`needs steps and features, got ${formatShape(known(value))}`);
    return call.channelsFirst(value, true, (first) => maxPool(call, first, windows));
  });
};

export const POOLINGS: Readonly<Record<string, Rule>> = {
  SpatialAveragePooling: spatialAverage,
  SpatialMaxPooling: spatialMax,
  TemporalMaxPooling: temporalMax,
  VolumetricAveragePooling: volumetricAverage,
  VolumetricMaxPooling: volumetricMax,
};
