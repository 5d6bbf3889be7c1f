/** Pooling along one, two or three axes. */
import { badModel } from '../../../lib/contract/errors.ts';
import { formatShape } from '../../../lib/contract/tensor.ts';
import { averagePool, maxPool } from '../../emit/pooling.ts';
import type { Windows } from '../../emit/windows.ts';
import { known } from '../../graph/shapes.ts';
import type { Value } from '../../graph/value.ts';
import type { Call, Rule } from '../call.ts';
import { plain } from './shapes.ts';
import { windowsFrom, windowsOf } from './windows.ts';

const PLANE = ['H', 'W'];
const VOLUME = ['T', 'H', 'W'];

/** BigDL stops rounding up after an answer if only the width needs none, and then answers otherwise. */
function assertSteady(value: Value, { kernel, strides, pads, ceil = false }: Windows): void {
  const plane = plain(known(value).slice(2));
  const rest = (axis: number) =>
    ((plane[axis] as number) + 2 * Number(pads[axis]) - (kernel[axis] as number)) % (strides[axis] as number);
  if (ceil && plane.length === 2 && pads[1] === 0 && rest(1) === 0 && rest(0) !== 0)
    throw badModel('rounds only the height up, with which its first answer differs from the others');
}

function maxima(call: Call, value: Value, windows: Windows): Value {
  assertSteady(value, windows);
  return maxPool(call, value, windows)[0] as Value;
}

function averages(call: Call, value: Value, windows: Windows): Value {
  assertSteady(value, windows);
  return averagePool(call, value, windows, call.module.flag('countIncludePad', true) ? 'padded' : 'inside');
}

const spatialMax: Rule = (call) => {
  const { module } = call;
  const windows = { ...windowsOf(module, PLANE), ceil: module.flag('ceil_mode') };
  const isLast = module.channelsLast();
  return call.batched(4, (value) =>
    call.channelsFirst(value, isLast, (first) => maxima(call, first, windows)),
  );
};

const spatialAverage: Rule = (call) => {
  const { module } = call;
  const isGlobal = module.flag('globalPooling');
  const divides = module.flag('divide', true);
  const isLast = module.channelsLast();
  const given = { ...windowsOf(module, PLANE), ceil: module.flag('ceilMode') };
  const pool = (value: Value) => {
    const windows = isGlobal ? { ...given, kernel: plain(known(value).slice(2)) } : given;
    const made = averages(call, value, windows);
    if (divides) return made;
    const [height, width] = windows.kernel as [number, number];
    return call.one('Mul', [made, call.scalar(height * width)]);
  };
  return call.batched(4, (value) => call.channelsFirst(value, isLast, pool));
};

function volumeWindows({ module }: Call): Windows {
  return { ...windowsOf(module, VOLUME), ceil: module.flag('ceilMode') };
}

const volumetricMax: Rule = (call) => call.batched(5, (value) => maxima(call, value, volumeWindows(call)));

const volumetricAverage: Rule = (call) =>
  call.batched(5, (value) => averages(call, value, volumeWindows(call)));

/** Steps before features. */
const temporalMax: Rule = (call) => {
  const kernel = call.module.int('kW');
  const given = call.module.int('dW', -1);
  const windows = windowsFrom({ kernel: [kernel], strides: [given === -1 ? kernel : given], pad: [0] });
  return call.batched(3, (value) => {
    if (known(value).length !== 3)
      throw badModel(`needs steps and features, got ${formatShape(known(value))}`);
    return call.channelsFirst(value, true, (first) => maxima(call, first, windows));
  });
};

export const POOLINGS: Readonly<Record<string, Rule>> = {
  SpatialAveragePooling: spatialAverage,
  SpatialMaxPooling: spatialMax,
  TemporalMaxPooling: temporalMax,
  VolumetricAveragePooling: volumetricAverage,
  VolumetricMaxPooling: volumetricMax,
};
