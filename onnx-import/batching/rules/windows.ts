/** Convolutions, pooling and resizing: images first, channels second. An image is what a row must be. */
import type { Call, Rule } from '../call.ts';
import { numberOf, ONE, type Size, same, size, times } from '../size.ts';
import { type Data, fixedOf, type Shape } from '../value.ts';
import { oneForAll } from './matmul.ts';

/** @throws ProofEnd unless the rows are images */
function images(call: Call, index: number): { x: Data; shape: Shape } {
  const x = call.data(index);
  if (x.kind === 'rows' && x.axis !== 0) call.end('the batch axis is not its first');
  return { x, shape: call.shape(x) };
}

/** What a window leaves of the spatial axes; a size that is not sure is a new one. */
function windowed(call: Call, spatial: Shape, kernel: readonly (number | undefined)[]): Size[] {
  const part = (name: string, at: number, fallback: number) => call.ints(name)?.[at] ?? fallback;
  const padding = call.text('auto_pad', 'NOTSET');
  return spatial.map((dim, i) => {
    const [length, reach] = [numberOf(dim), kernel[i]];
    const stride = part('strides', i, 1);
    if (length === undefined || reach === undefined) return call.dim();
    if (padding.startsWith('SAME')) return size(Math.ceil(length / stride));
    const pads = padding === 'VALID' ? 0 : part('pads', i, 0) + part('pads', i + spatial.length, 0);
    const span = length + pads - part('dilations', i, 1) * (reach - 1) - 1;
    // Rounding up, whether the last window counts depends on the runtime.
    if (call.int('ceil_mode', 0) === 1 && span % stride !== 0) return call.dim();
    return size(Math.floor(span / stride) + 1);
  });
}

function convolution(call: Call, input: number, weights: number): Data {
  const { x, shape } = images(call, input);
  const kernel = call.fixed(weights)?.shape;
  const spatial = windowed(call, shape.slice(2), (kernel ?? []).slice(2).map(numberOf));
  return call.moved(x, [shape[0] as Size, kernel?.[0] ?? call.dim(), ...spatial]);
}

const conv: Rule = (call) => {
  call.fixed(2);
  return convolution(call, 0, 1);
};

const convInteger: Rule = (call) => {
  oneForAll(call, 2);
  call.fixed(3);
  return convolution(call, 0, 1);
};

/** Scales of the weights are one for each channel; the input's are one number. */
const qLinearConv: Rule = (call) => {
  for (const index of [1, 2, 6, 7]) oneForAll(call, index);
  for (const index of [4, 5, 8]) call.fixed(index);
  return convolution(call, 0, 3);
};

const convTranspose: Rule = (call) => {
  const { x, shape } = images(call, 0);
  const kernel = call.fixed(1)?.shape ?? [];
  call.fixed(2);
  const wanted = call.ints('output_shape');
  const part = (name: string, at: number, fallback: number) => call.ints(name)?.[at] ?? fallback;
  const spatial = shape.slice(2).map((dim, i) => {
    const [length, reach] = [numberOf(dim), numberOf(kernel[i + 2])];
    if (wanted || length === undefined || reach === undefined || call.text('auto_pad', 'NOTSET') !== 'NOTSET')
      return call.dim();
    const pads = part('pads', i, 0) + part('pads', i + shape.length - 2, 0);
    return size(
      part('strides', i, 1) * (length - 1) +
        part('output_padding', i, 0) +
        part('dilations', i, 1) * (reach - 1) +
        1 -
        pads,
    );
  });
  const channels = kernel[1] ? times(kernel[1], size(call.int('group', 1))) : call.dim();
  return call.moved(x, [shape[0] as Size, channels, ...spatial]);
};

/** A second output counts places through all images, so it has no rule. */
const pool: Rule = (call) => {
  const { x, shape } = images(call, 0);
  return call.moved(x, [
    ...shape.slice(0, 2),
    ...windowed(call, shape.slice(2), call.ints('kernel_shape') ?? []),
  ]);
};

const globalPool: Rule = (call) => {
  const { x, shape } = images(call, 0);
  return call.moved(
    x,
    shape.map((dim, axis): Size => (axis < 2 ? dim : ONE)),
  );
};

/** A factor of 1 along the batch axis, or its own size. */
const resize: Rule = (call) => {
  const x = call.data(0);
  const shape = call.shape(x);
  const isResize = call.operator === 'Resize' && call.opset >= 11;
  if (call.text('coordinate_transformation_mode', '') === 'tf_crop_and_resize')
    call.end('it cuts regions out');
  if (call.text('keep_aspect_ratio_policy', 'stretch') !== 'stretch') call.end('it keeps the aspect ratio');
  if (isResize) call.fixed(1);
  const axes = (call.ints('axes') ?? [...shape.keys()]).map((axis) => call.axis(axis, shape.length));
  const scales = call.attribute('scales')?.floats.map(size) ?? call.elements(isResize ? 2 : 1);
  const sizes = isResize ? call.sizes(3) : undefined;
  if (isResize && call.has(3) && !sizes && x.kind === 'rows') call.end('its sizes are not known');
  const resized = (dim: Size, axis: number): Size => {
    const at = axes.indexOf(axis);
    if (at < 0) return dim;
    const isBatch = x.kind === 'rows' && axis === x.axis;
    if (sizes) {
      const wanted = sizes[at] ?? call.end('its sizes depend on how many rows share the run');
      if (isBatch && !same(wanted, dim)) call.end('it resizes the batch axis');
      return wanted;
    }
    const scale = numberOf(scales?.[at]);
    if (scale === 1) return dim;
    if (isBatch) call.end('it resizes the batch axis');
    // Rounding is the runtime's.
    const length = numberOf(dim);
    return call.dimOr(
      length !== undefined && scale !== undefined && Number.isInteger(scale) ? length * scale : undefined,
    );
  };
  return call.moved(x, shape.map(resized));
};

/** Blocks of an image become channels, or the other way. */
const blocks: Rule = (call) => {
  const { x, shape } = images(call, 0);
  const block = call.int('blocksize', 1);
  const [channels, ...spatial] = shape.slice(1).map(numberOf);
  const isDepth = call.operator === 'DepthToSpace';
  const scaled = (value: number | undefined, factor: number) =>
    call.dimOr(value === undefined || !Number.isInteger(value * factor) ? undefined : value * factor);
  return call.moved(x, [
    shape[0] as Size,
    scaled(channels, isDepth ? 1 / block ** 2 : block ** 2),
    ...spatial.map((length) => scaled(length, isDepth ? block : 1 / block)),
  ]);
};

/** The grid says for each image where its pixels come from. */
const gridSample: Rule = (call) => {
  const { x, shape } = images(call, 0);
  const { x: grid, shape: places } = images(call, 1);
  if (x.kind !== grid.kind) call.end('only one of its inputs has rows');
  if (
    x.kind === 'rows' &&
    grid.kind === 'rows' &&
    !(same(x.outer, grid.outer) && same(x.inner, grid.inner))
  ) {
    call.end('its inputs have other rows');
  }
  const result = [...shape.slice(0, 2), ...places.slice(1, -1)];
  return x.kind === 'rows' ? call.moved(x, result) : fixedOf(result);
};

export const WINDOWS: Readonly<Record<string, Rule>> = {
  Conv: conv,
  ConvInteger: convInteger,
  QLinearConv: qLinearConv,
  ConvTranspose: convTranspose,
  MaxPool: pool,
  AveragePool: pool,
  LpPool: pool,
  GlobalAveragePool: globalPool,
  GlobalMaxPool: globalPool,
  GlobalLpPool: globalPool,
  Resize: resize,
  Upsample: resize,
  DepthToSpace: blocks,
  SpaceToDepth: blocks,
  GridSample: gridSample,
};
