/** Convolutions, pooling and resizing: images first, channels second. An image is what a row must be. */
import type { Call, RowRule } from '../rows/call.ts';
import { broadcast } from '../rows/combine.ts';
import type { ShapeNode, ShapeRule } from '../rows/shape-node.ts';
import { numberOf, ONE, type Shape, type Size, same, size, times } from '../rows/size.ts';
import { type Data, fixedOf, isSamePlace } from '../rows/value.ts';
import { oneForAll } from './matmul.ts';
import { all, FLOATS, type Operator, type Operators, SMALL } from './operator.ts';

/**
 * What windows leave of the spatial axes. With `ceil_mode` the number of windows is rounded up, and onnxruntime then drops a
 * last window that starts in the padding, as Caffe does.
 */
function windowed(node: ShapeNode, spatial: Shape, kernel: readonly (number | undefined)[]): Size[] {
  const part = (name: string, at: number, fallback: number) => node.ints(name)?.[at] ?? fallback;
  const padding = node.text('auto_pad', 'NOTSET');
  return spatial.map((dim, i) => {
    const [length, reach] = [numberOf(dim), kernel[i]];
    const stride = part('strides', i, 1);
    if (length === undefined) return node.dim();
    if (padding.startsWith('SAME')) return size(Math.ceil(length / stride));
    if (reach === undefined) return node.dim();
    const [before, after] =
      padding === 'VALID' ? [0, 0] : [part('pads', i, 0), part('pads', i + spatial.length, 0)];
    const span = length + before + after - part('dilations', i, 1) * (reach - 1) - 1;
    if (node.int('ceil_mode', 0) !== 1) return size(Math.floor(span / stride) + 1);
    const count = Math.ceil(span / stride) + 1;
    return size((count - 1) * stride >= length + before ? count - 1 : count);
  });
}

/** @param weights the input that has them */
const convolved =
  (weights: number): ShapeRule =>
  (node) => {
    const [shape, kernel] = [node.shapeAt(0), node.shapeAt(weights)];
    if (!shape) return [undefined];
    const reach = kernel?.slice(2).map(numberOf);
    if (!reach?.every((length) => length !== undefined))
      return [shape.map((dim, i) => (i === 0 ? dim : node.dim()))];
    return [[shape[0] ?? ONE, kernel?.[0] ?? node.dim(), ...windowed(node, shape.slice(2), reach)]];
  };

const transposedShape: ShapeRule = (node) => {
  const [shape, kernel] = [node.shapeAt(0), node.shapeAt(1)];
  if (!shape || !kernel) return [undefined];
  const channels = kernel[1]?.names.length === 0 ? times(kernel[1], size(node.int('group', 1))) : node.dim();
  const wanted = node.ints('output_shape');
  const part = (name: string, at: number, fallback: number) => node.ints(name)?.[at] ?? fallback;
  const spatial = shape.slice(2).map((dim, i) => {
    if (wanted) return size(wanted[i] ?? 0);
    const [length, reach] = [numberOf(dim), numberOf(kernel[i + 2])];
    if (length === undefined || reach === undefined || node.text('auto_pad', 'NOTSET') !== 'NOTSET')
      return node.dim();
    const pads = part('pads', i, 0) + part('pads', i + shape.length - 2, 0);
    const covered = part('dilations', i, 1) * (reach - 1) + 1;
    return size(part('strides', i, 1) * (length - 1) + part('output_padding', i, 0) + covered - pads);
  });
  return [[shape[0] ?? ONE, channels, ...spatial]];
};

/** MaxPool's second output is the places of the largest elements. */
const pooled: ShapeRule = (node) => {
  const shape = node.shapeAt(0);
  if (!shape) return [undefined, undefined];
  const spatial = windowed(node, shape.slice(2), node.ints('kernel_shape') ?? []);
  const result = [...shape.slice(0, 2), ...spatial];
  return [result, result];
};

const pooledToOne: ShapeRule = (node) => [node.shapeAt(0)?.map((dim, axis) => (axis < 2 ? dim : ONE))];

/** Blocks of an image become channels, or the other way. */
const blockShape =
  (isDepth: boolean): ShapeRule =>
  (node) => {
    const shape = node.shapeAt(0);
    if (shape?.length !== 4) return [shape];
    const block = node.int('blocksize', 1);
    const scaled = (dim: Size | undefined, by: number, grows: boolean) => {
      const length = numberOf(dim) ?? Number.NaN;
      const result = grows ? length * by : length / by;
      return Number.isInteger(result) ? size(result) : node.dim();
    };
    const [batch, channels, height, width] = shape;
    const plane = [height, width].map((dim) => scaled(dim, block, isDepth));
    return [[batch ?? ONE, scaled(channels, block ** 2, !isDepth), ...plane]];
  };

const resizedShape: ShapeRule = (node) => {
  const shape = node.shapeAt(0);
  const [scales, sizes] = [node.constantAt(2), node.has(3) ? (node.listAt(3) ?? []) : undefined];
  return [
    shape?.map((dim, i) => {
      if (sizes) return sizes[i] ?? node.dim();
      const [length, scale] = [numberOf(dim), scales?.[i]];
      if (scale === 1) return dim;
      return length !== undefined && scale !== undefined ? size(Math.floor(length * scale)) : node.dim();
    }),
  ];
};

const regions: ShapeRule = (node) => {
  const [height, width] = node.ints('pooled_shape') ?? [
    node.int('output_height', 1),
    node.int('output_width', 1),
  ];
  const count = node.shapeAt(2)?.[0] ?? node.shapeAt(1)?.[0] ?? node.dim();
  return [[count, node.shapeAt(0)?.[1] ?? node.dim(), size(height ?? 1), size(width ?? 1)]];
};

/** @throws ProofEnd unless the rows are images */
function images(call: Call, index: number): Data {
  const x = call.data(index);
  if (x.kind === 'rows' && x.axis !== 0) call.end('the batch axis is not its first');
  return x;
}

/** Each image alone. A second output counts places through all images, so it is not followed. */
const perImage: RowRule = (call) => {
  const x = images(call, 0);
  for (let i = 1; i < call.count; i++) call.fixed(i);
  return call.moved(x, call.result());
};

const convInteger: RowRule = (call) => {
  oneForAll(call, 2);
  return perImage(call);
};

/** What is added to the result has the same images. */
const fusedConv: RowRule = (call) => {
  const x = images(call, 0);
  for (const index of [1, 2]) call.fixed(index);
  const added = call.optional(3);
  const result = call.moved(x, call.result());
  return added ? broadcast(call, [result, added]) : result;
};

/** Scales of the weights are one for each channel; the input's are one number. */
const qLinearConv: RowRule = (call) => {
  for (const index of [1, 2, 6, 7]) oneForAll(call, index);
  return perImage(call);
};

/** A factor of 1 along the batch axis, or its own size. */
const resize: RowRule = (call) => {
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

/** The grid says for each image where its pixels come from. */
const gridSample: RowRule = (call) => {
  const [x, grid] = [images(call, 0), images(call, 1)];
  if (x.kind !== grid.kind) call.end('only one of its inputs has rows');
  if (x.kind === 'rows' && grid.kind === 'rows' && !isSamePlace(x, grid))
    call.end('its inputs have other rows');
  const result = [...call.shape(x).slice(0, 2), ...call.shape(grid).slice(1, -1)];
  return x.kind === 'rows' ? call.moved(x, result) : fixedOf(result);
};

const FLOAT32 = ['float32'] as const;
const conv: Operator = { shapes: convolved(1), rows: perImage };
const pool: Operator = { shapes: pooled, results: [0, 'int64'], rows: perImage };
const globalPool: Operator = { shapes: pooledToOne, rows: perImage };
const blocks: Operator = { dtypes: [...FLOATS, ...SMALL], typed: [0], rows: perImage };

export const WINDOWS: Operators = {
  Conv: { ...conv, dtypes: FLOAT32 },
  'com.microsoft:FusedConv': { ...conv, rows: fusedConv },
  ConvInteger: { ...conv, results: ['int32'], rows: convInteger },
  QLinearConv: { shapes: convolved(3), rows: qLinearConv },
  ConvTranspose: { shapes: transposedShape, dtypes: FLOAT32, rows: perImage },
  MaxPool: { ...pool, dtypes: [...FLOATS, ...SMALL] },
  AveragePool: { ...pool, dtypes: FLOAT32 },
  LpPool: pool,
  ...all('GlobalAveragePool GlobalMaxPool GlobalLpPool', globalPool),
  Resize: {
    shapes: resizedShape,
    dtypes: ['float32', 'int32', ...SMALL],
    typed: [0],
    rows: resize,
  },
  Upsample: { rows: resize },
  DepthToSpace: { ...blocks, shapes: blockShape(true) },
  SpaceToDepth: { ...blocks, shapes: blockShape(false) },
  GridSample: { rows: gridSample },
  ...all('MaxRoiPool RoiAlign', { shapes: regions }),
};
