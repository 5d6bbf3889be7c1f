/** Convolutions. */
import { badModel } from '../../../../lib/contract/errors.ts';
import { formatShape } from '../../../../lib/contract/tensor.ts';
import { fixed, known } from '../../../graph/shapes.ts';
import type { Value } from '../../../graph/value.ts';
import { type Call, isTable, type Rule } from '../call.ts';
import { plain } from './shapes.ts';
import { assertWindows, layWindows, perAxis, shortWindows, type Windows } from './windows.ts';

const PLANE = ['H', 'W'];
const VOLUME = ['T', 'H', 'W'];

/** Limits what is made of a few numbers in the file. */
const MAX_PATCH = 2 ** 24;

export function expectChannels(value: Value, axis: number, channels: number): void {
  if (fixed(value, axis) !== channels)
    throw badModel(`needs ${channels} channels, got ${formatShape(known(value))}`);
}

/** The attributes of windows; free sizes are possible where the padding does not depend on them. */
export function convolutionAttributes(call: Call, value: Value, windows: Windows) {
  assertWindows(windows);
  const { kernel, stride, pad, dilation = kernel.map(() => 1) } = windows;
  const plane = known(value).slice(2);
  for (const i of plane.keys()) call.bindAt(i + 2, value);
  const isFree = plane.some((size) => typeof size === 'string');
  const fits = pad.every((size, i) => size >= 0 && size < (kernel[i] as number));
  const laid = isFree && fits ? undefined : layWindows(plain(plane), windows);
  const pads = laid
    ? [...laid.map(({ before }) => before), ...laid.map(({ after }) => Math.max(0, after))]
    : [...pad, ...pad];
  return { kernel_shape: kernel, strides: stride, dilations: dilation, pads };
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
function convolve(call: Call, { channels, outputs, groups, windows, bias, isLast }: Convolution): Value {
  const { kernel } = windows;
  if (groups < 1 || channels % groups !== 0 || outputs % groups !== 0)
    throw badModel(`${groups} groups do not divide ${channels} channels into ${outputs} outputs`);
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
  const inputs = [weight, ...(bias ? [call.weight(1, [outputs])] : [])];
  return call.batched(rank + 2, (input) =>
    call.channelsFirst(input, isLast, (value) => {
      expectChannels(value, 1, channels);
      return call.one('Conv', [value, ...inputs], {
        ...convolutionAttributes(call, value, windows),
        group: groups,
      });
    }),
  );
}

const spatial: Rule = (call) => {
  const { module } = call;
  return convolve(call, {
    channels: module.int('nInputPlane'),
    outputs: module.int('nOutputPlane'),
    groups: module.int('nGroup', 1),
    windows: {
      kernel: perAxis(module, 'kernel', PLANE),
      stride: perAxis(module, 'stride', PLANE, 1),
      pad: perAxis(module, 'pad', PLANE, 0),
    },
    bias: module.flag('withBias', true),
    isLast: module.channelsLast(),
  });
};

const dilated: Rule = (call) => {
  const { module } = call;
  const windows = { ...shortWindows(module, PLANE), dilation: perAxis(module, 'dilation', PLANE, 1) };
  return convolve(call, {
    channels: module.int('nInputPlane'),
    outputs: module.int('nOutputPlane'),
    groups: 1,
    windows,
    bias: true,
    isLast: false,
  });
};

const volumetric: Rule = (call) => {
  const { module } = call;
  return convolve(call, {
    channels: module.int('nInputPlane'),
    outputs: module.int('nOutputPlane'),
    groups: 1,
    windows: shortWindows(module, VOLUME),
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
  const bias = call.weight(1, [outputs]);
  return call.batched(3, (input) =>
    call.channelsFirst(input, true, (value) => {
      expectChannels(value, 1, channels);
      const windows = { kernel: [kernel], stride: [stride], pad: [0] };
      return call.one('Conv', [value, weight, bias], convolutionAttributes(call, value, windows));
    }),
  );
};

interface Transposed {
  readonly channels: number;
  readonly outputs: number;
  readonly groups: number;
  readonly windows: Windows;
  readonly extra: readonly number[];
  readonly bias: boolean;
}

/** A second input gives the size of the output instead of the extra rows and columns. */
function transposed(call: Call, { channels, outputs, groups, windows, extra, bias }: Transposed): Value {
  const { kernel, stride, pad } = windows;
  assertWindows(windows);
  if (groups < 1 || channels % groups !== 0 || outputs % groups !== 0)
    throw badModel(`${groups} groups do not divide ${channels} channels into ${outputs} outputs`);
  if (pad.some((size) => size < 0)) throw badModel(`has a padding of ${pad.join('x')}`);
  const weights = [
    call.weight(
      0,
      [groups, channels / groups, outputs / groups, ...kernel],
      [channels, outputs / groups, ...kernel],
    ),
  ];
  if (bias) weights.push(call.weight(1, [outputs]));
  const make = (value: Value, adjust: readonly number[]) => {
    if (adjust.some((size, i) => size < 0 || size >= (stride[i] as number)))
      throw badModel(`adds ${adjust.join('x')} with a stride of ${stride.join('x')}`);
    expectChannels(value, 1, channels);
    const attributes = {
      kernel_shape: kernel,
      strides: stride,
      pads: [...pad, ...pad],
      output_padding: adjust,
      group: groups,
    };
    return call.one('ConvTranspose', [value, ...weights], attributes);
  };
  if (!isTable(call.activity)) return call.batched(kernel.length + 2, (value) => make(value, extra));
  const [value, like] = call.tensors(2) as [Value, Value];
  if (known(value).length !== kernel.length + 2 || known(like).length !== kernel.length + 2)
    throw badModel(`needs two batches, got ${formatShape(known(value))} and ${formatShape(known(like))}`);
  const wanted = plain(known(like).slice(2));
  const adjust = wanted.map(
    (size, i) => (size + 2 * (pad[i] as number) - (kernel[i] as number)) % (stride[i] as number),
  );
  return make(value, adjust);
}

const spatialFull: Rule = (call) => {
  const [channels, outputs, kW, kH, dW, dH, padW, padH, adjW, adjH, groups] = call.module.numbers(
    'intParams',
    11,
  ) as [number, number, number, number, number, number, number, number, number, number, number];
  const windows = { kernel: [kH, kW], stride: [dH, dW], pad: [padH, padW] };
  return transposed(call, {
    channels,
    outputs,
    groups,
    windows,
    extra: [adjH, adjW],
    bias: !call.module.flag('noBias'),
  });
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
  const windows = {
    kernel: perAxis(module, 'k', PLANE),
    stride: perAxis(module, 's', PLANE, 1),
    pad: perAxis(module, 'p', PLANE, 0),
  };
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
  const bias = module.flag('hasBias', true) ? [call.weight(2, [outputs])] : [];
  return call.batched(4, (input) =>
    call.channelsFirst(input, isLast, (value) => {
      expectChannels(value, 1, channels);
      const attributes = { ...convolutionAttributes(call, value, windows), group: channels };
      const made = call.one('Conv', [value, call.reshape(depth, [inner, 1, ...kernel])], attributes);
      return call.one('Conv', [made, point, ...bias], { kernel_shape: [1, 1] });
    }),
  );
};

/** Its own weights at each place: the patches are taken by a convolution with ones, then multiplied. */
const local: Rule = (call) => {
  const { module } = call;
  const [channels, outputs] = [module.int('nInputPlane'), module.int('nOutputPlane')];
  const plane = [module.int('inputHeight'), module.int('inputWidth')];
  const windows = {
    kernel: perAxis(module, 'kernel', PLANE),
    stride: perAxis(module, 'stride', PLANE, 1),
    pad: perAxis(module, 'pad', PLANE, 0),
  };
  const [rows, columns] = layWindows(plane, windows).map(({ count }) => count) as [number, number];
  const [area, places] = [windows.kernel.reduce((a, b) => a * b, 1), rows * columns];
  const size = channels * area;
  const isLast = module.channelsLast();
  if (!(size * area <= MAX_PATCH && places <= MAX_PATCH))
    throw badModel(`has patches of ${size} numbers at ${places} places, the limit is ${MAX_PATCH}`);
  const ones = new Float32Array(size * area);
  for (let i = 0; i < size; i++) ones[i * area + (i % area)] = 1;
  const selection = call.g.floats(ones, [size, 1, ...windows.kernel]);
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
      const taken = call.one('Conv', [value, selection], {
        ...convolutionAttributes(call, value, windows),
        group: channels,
      });
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
