/** Convolutions. */
import { badModel } from '../../../lib/contract/errors.ts';
import { formatShape } from '../../../lib/contract/tensor.ts';
import { assertGroups, convolve, convolveBack, patches, type Weights } from '../../emit/convolution.ts';
import { assertWindows, layAxis, type Windows } from '../../emit/windows.ts';
import { fixed, known } from '../../graph/shapes.ts';
import type { Value } from '../../graph/value.ts';
import { type Call, isTable, type Rule } from '../call.ts';
import { expectChannels, plain } from './shapes.ts';
import { windowsFrom, windowsOf } from './windows.ts';

const PLANE = ['H', 'W'];
const VOLUME = ['T', 'H', 'W'];
const POINT: Windows = { kernel: [1, 1], strides: [1, 1], pads: [0, 0, 0, 0] };

/** The size of a dropped window's axis must be known: it is no pad of ONNX. */
function convolved(call: Call, value: Value, windows: Windows, weights: Weights): Value {
  const { kernel, pads } = windows;
  expectChannels(value, 1, fixed(weights.weights, 1) * (weights.group ?? 1));
  const plane = known(value).slice(2);
  for (const i of plane.keys()) call.bindAt(i + 2, value);
  const fits =
    typeof pads !== 'string' && pads.every((size, i) => size < (kernel[i % kernel.length] as number));
  if (!fits) plain(plane);
  return convolve(call, value, windows, weights);
}

interface Convolution {
  readonly channels: number;
  readonly outputs: number;
  readonly groups: number;
  readonly windows: Windows;
  readonly bias: boolean;
  readonly isLast: boolean;
}

/** Weights are [outputs, channels, ...kernel], or [...kernel, channels, outputs] where channels are last. */
function laid(call: Call, { channels, outputs, groups, windows, bias, isLast }: Convolution): Value {
  const { kernel } = windows;
  assertGroups(groups, channels, outputs);
  if (isLast && groups > 1) throw badModel('has groups and channels last, which BigDL does not run');
  const rank = kernel.length;
  const spatial = kernel.map((_, i) => i);
  const weight = isLast
    ? call.transpose(call.weight(0, [...kernel, channels, outputs]), [rank + 1, rank, ...spatial])
    : call.weight(
        0,
        [groups, outputs / groups, channels / groups, ...kernel],
        [outputs, channels / groups, ...kernel],
      );
  const weights = { weights: weight, bias: bias ? call.weight(1, [outputs]) : undefined, group: groups };
  return call.batched(rank + 2, (input) =>
    call.channelsFirst(input, isLast, (value) => convolved(call, value, windows, weights)),
  );
}

const spatial: Rule = (call) => {
  const { module } = call;
  return laid(call, {
    channels: module.int('nInputPlane'),
    outputs: module.int('nOutputPlane'),
    groups: module.int('nGroup', 1),
    windows: windowsOf(module, PLANE, ['kernel', 'stride', 'pad']),
    bias: module.flag('withBias', true),
    isLast: module.channelsLast(),
  });
};

const dilated: Rule = (call) => {
  const { module } = call;
  return laid(call, {
    channels: module.int('nInputPlane'),
    outputs: module.int('nOutputPlane'),
    groups: 1,
    windows: windowsOf(module, PLANE, ['k', 'd', 'pad', 'dilation']),
    bias: true,
    isLast: false,
  });
};

const volumetric: Rule = (call) => {
  const { module } = call;
  return laid(call, {
    channels: module.int('nInputPlane'),
    outputs: module.int('nOutputPlane'),
    groups: 1,
    windows: windowsOf(module, VOLUME),
    bias: module.flag('withBias', true),
    isLast: false,
  });
};

/** Steps before features; a kernel's weights are [outputs, steps x features]. */
const temporal: Rule = (call) => {
  const { module } = call;
  const [channels, outputs] = [module.int('inputFrameSize'), module.int('outputFrameSize')];
  const [kernel, stride] = [module.int('kernelW'), module.int('strideW', 1)];
  const flat = call.weight(0, [outputs, kernel * channels]);
  const weight = call.transpose(call.reshape(flat, [outputs, kernel, channels]), [0, 2, 1]);
  const weights = { weights: weight, bias: call.weight(1, [outputs]) };
  const windows = windowsFrom({ kernel: [kernel], strides: [stride], pad: [0] });
  return call.batched(3, (input) =>
    call.channelsFirst(input, true, (value) => convolved(call, value, windows, weights)),
  );
};

/** A second input gives the size of the output instead of the extra rows and columns. */
const spatialFull: Rule = (call) => {
  const [channels, outputs, kW, kH, dW, dH, padW, padH, adjW, adjH, groups] = call.module.numbers(
    'intParams',
    11,
  ) as [number, number, number, number, number, number, number, number, number, number, number];
  const pads = [padH, padW, padH, padW];
  const windows = { kernel: [kH, kW], strides: [dH, dW], pads };
  assertWindows(windows);
  assertGroups(groups, channels, outputs);
  const file = [groups, channels / groups, outputs / groups, kH, kW];
  const weights = {
    weights: call.weight(0, file, [channels, outputs / groups, kH, kW]),
    bias: call.module.flag('noBias') ? undefined : call.weight(1, [outputs]),
    group: groups,
  };
  const back = (value: Value, added: readonly number[]) => {
    expectChannels(value, 1, channels);
    return convolveBack(call, value, windows, weights, added);
  };
  if (!isTable(call.activity)) return call.batched(4, (value) => back(value, [adjH, adjW]));
  const [value, like] = call.tensors(2) as [Value, Value];
  if (known(value).length !== 4 || known(like).length !== 4)
    throw badModel(`needs two batches, got ${formatShape(known(value))} and ${formatShape(known(like))}`);
  const wanted = plain(known(like).slice(2));
  const added = wanted.map(
    (size, i) =>
      (size + 2 * (pads[i] as number) - (windows.kernel[i] as number)) % (windows.strides[i] as number),
  );
  return back(value, added);
};

/** Several filters for each channel, then 1x1. */
const separable: Rule = (call) => {
  const { module } = call;
  module.ignore('depthWeight', 'pointWeight', 'bias');
  const [channels, outputs, multiplier] = [
    module.int('nInputChannel'),
    module.int('nOutputChannel'),
    module.int('depthMultiplier'),
  ];
  const windows = windowsOf(module, PLANE, ['k', 's', 'p']);
  const { kernel } = windows;
  const isLast = module.channelsLast('dataFormat');
  const inner = channels * multiplier;
  const depth = isLast
    ? call.transpose(
        call.weight(0, [...kernel.toReversed(), channels, multiplier], [...kernel, channels, multiplier]),
        [2, 3, 0, 1],
      )
    : call.transpose(
        call.weight(0, [multiplier, channels, ...kernel.toReversed()], [multiplier, channels, ...kernel]),
        [1, 0, 2, 3],
      );
  const point = isLast
    ? call.transpose(call.weight(1, [1, 1, inner, outputs]), [3, 2, 0, 1])
    : call.weight(1, [outputs, inner, 1, 1]);
  const bias = module.flag('hasBias', true) ? call.weight(2, [outputs]) : undefined;
  return call.batched(4, (input) =>
    call.channelsFirst(input, isLast, (value) => {
      const each = { weights: call.reshape(depth, [inner, 1, ...kernel]), group: channels };
      const made = convolved(call, value, windows, each);
      return convolve(call, made, POINT, { weights: point, bias });
    }),
  );
};

/** Its own weights at each place: the patches are taken by a convolution with ones, then multiplied. */
const local: Rule = (call) => {
  const { module } = call;
  const [channels, outputs] = [module.int('nInputPlane'), module.int('nOutputPlane')];
  const plane = [module.int('inputHeight'), module.int('inputWidth')];
  const windows = windowsOf(module, PLANE, ['kernel', 'stride', 'pad']);
  const [rows, columns] = plane.map((size, i) => layAxis(size, windows, i).count) as [number, number];
  const [area, places] = [windows.kernel.reduce((a, b) => a * b, 1), rows * columns];
  const size = channels * area;
  const isLast = module.channelsLast();
  const raw = call.weight(0, [places, outputs, size]);
  const weight = isLast
    ? call.reshape(call.transpose(call.reshape(raw, [places, outputs, area, channels]), [0, 3, 2, 1]), [
        places,
        size,
        outputs,
      ])
    : call.transpose(raw, [0, 2, 1]);
  // Where channels are first, BigDL adds the bias in the order of the output.
  const bias = module.flag('withBias', true)
    ? call.weight(1, [places, outputs], isLast ? [places, outputs] : [outputs, places])
    : undefined;
  return call.batched(4, (input) =>
    call.channelsFirst(input, isLast, (value) => {
      const [records, ...rest] = known(value);
      if (rest.join() !== [channels, ...plane].join())
        throw badModel(`needs ${[channels, ...plane].join('x')}, got ${formatShape(known(value))}`);
      const taken = patches(call, value, windows);
      const listed = call.transpose(call.reshape(taken, [records ?? 1, size, places]), [0, 2, 1]);
      const each = call.reshape(listed, [records ?? 1, places, 1, size]);
      const made = call.reshape(call.one('MatMul', [each, weight]), [records ?? 1, places, outputs]);
      const term = bias && isLast ? call.transpose(bias, [1, 0]) : bias;
      const first = call.transpose(made, [0, 2, 1]);
      const sum = term ? call.one('Add', [first, term]) : first;
      return call.reshape(sum, [records ?? 1, outputs, rows, columns]);
    }),
  );
};

export const CONVOLUTIONS: Readonly<Record<string, Rule>> = {
  LocallyConnected2D: local,
  SpatialConvolution: spatial,
  SpatialDilatedConvolution: dilated,
  SpatialFullConvolution: spatialFull,
  SpatialSeparableConvolution: separable,
  SpatialShareConvolution: spatial,
  TemporalConvolution: temporal,
  VolumetricConvolution: volumetric,
};
