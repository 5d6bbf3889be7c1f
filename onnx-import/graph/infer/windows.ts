/**
 * Infers the shapes of convolution, pooling and resizing (N, C, spatial...). With `ceil_mode` the number of windows
 * is rounded up, and onnxruntime then drops a last window that starts in the padding, as Caffe does.
 */
import { type Infer, type InferInput, int, ints } from '../attributes.ts';
import type { Dim, Shape, Value, ValueType } from '../value.ts';

type Types = readonly ValueType[];

/** The number of windows along one axis; undefined for a free size. */
function windowCount(
  dim: Dim | undefined,
  window: { kernel: number; stride: number; dilation: number; before: number; after: number; ceil: boolean },
): number | undefined {
  if (typeof dim !== 'number') return undefined;
  const { kernel, stride, dilation, before, after, ceil } = window;
  const span = dim + before + after - (dilation * (kernel - 1) + 1);
  if (!ceil) return Math.floor(span / stride) + 1;
  const count = Math.ceil(span / stride) + 1;
  return (count - 1) * stride >= dim + before ? count - 1 : count;
}

function windows(node: InferInput, kernels: readonly number[], channels: Dim): Types {
  const { inputs, attributes, fresh } = node;
  const { dtype, shape } = inputs[0] as Value;
  if (!shape) return [{ dtype, shape }];
  const spatial = shape.slice(2);
  const strides = ints(attributes.strides) ?? spatial.map(() => 1);
  const dilations = ints(attributes.dilations) ?? spatial.map(() => 1);
  const pads = ints(attributes.pads) ?? [...spatial, ...spatial].map(() => 0);
  const same = typeof attributes.auto_pad === 'string' && attributes.auto_pad.startsWith('SAME');
  const sizes = spatial.map((dim, i) => {
    const stride = strides[i] as number;
    if (same) return typeof dim === 'number' ? Math.ceil(dim / stride) : fresh();
    const window = {
      kernel: kernels[i] as number,
      stride,
      dilation: dilations[i] as number,
      before: pads[i] as number,
      after: pads[i + spatial.length] as number,
      ceil: int(attributes.ceil_mode, 0) === 1,
    };
    return windowCount(dim, window) ?? fresh();
  });
  return [{ dtype, shape: [shape[0] as Dim, channels, ...sizes] }];
}

const conv: Infer = (node) => {
  const [x, weights] = node.inputs;
  const kernel = weights?.shape?.slice(2);
  if (!kernel?.every((dim) => typeof dim === 'number'))
    return [{ dtype: (x as Value).dtype, shape: x?.shape?.map((dim, i) => (i === 0 ? dim : node.fresh())) }];
  return windows(node, kernel, weights?.shape?.[0] as Dim);
};

const pool: Infer = (node) => {
  const channels = node.inputs[0]?.shape?.[1] ?? node.fresh();
  const types = windows(node, ints(node.attributes.kernel_shape) ?? [], channels);
  // MaxPool's second output is the positions.
  return [...types, ...types.map((type) => ({ ...type, dtype: 'int64' as const }))];
};

const convTranspose: Infer = ({ inputs: [x, weights], attributes, fresh }) => {
  const { dtype, shape } = x as Value;
  const w = weights?.shape;
  if (!shape || !w) return [{ dtype, shape: undefined }];
  const spatial = shape.slice(2);
  const perGroup = w[1];
  const channels = typeof perGroup === 'number' ? perGroup * int(attributes.group, 1) : fresh();
  const wanted = ints(attributes.output_shape);
  const part = (name: string, fallback: number, i: number) => ints(attributes[name])?.[i] ?? fallback;
  const sizes = spatial.map((dim, i) => {
    if (wanted) return wanted[i] as number;
    const kernel = w[i + 2];
    if (typeof dim !== 'number' || typeof kernel !== 'number') return fresh();
    const reach = part('dilations', 1, i) * (kernel - 1) + 1;
    const pads = part('pads', 0, i) + part('pads', 0, i + spatial.length);
    return part('strides', 1, i) * (dim - 1) + part('output_padding', 0, i) + reach - pads;
  });
  return [{ dtype, shape: [shape[0] as Dim, channels, ...sizes] }];
};

const global: Infer = ({ inputs: [x] }) => {
  const { dtype, shape } = x as Value;
  return [{ dtype, shape: shape?.map((dim, i) => (i < 2 ? dim : 1)) }];
};

const resize: Infer = ({ inputs: [x, , scales, sizes], fresh }) => {
  const { dtype, shape } = x as Value;
  if (!shape) return [{ dtype, shape }];
  const factors = scales?.constant?.data as ArrayLike<number> | undefined;
  const known: Shape = shape.map((dim, i) => {
    if (sizes) {
      const size = sizes.elements?.[i];
      return size ?? fresh();
    }
    const factor = factors?.[i];
    if (factor === 1) return dim;
    return typeof dim === 'number' && factor !== undefined ? Math.floor(dim * factor) : fresh();
  });
  return [{ dtype, shape: known }];
};

const regions: Infer = ({ inputs: [x, rois, indices], attributes, fresh }) => {
  const { dtype, shape } = x as Value;
  const [height, width] = ints(attributes.pooled_shape) ?? [
    int(attributes.output_height, 1),
    int(attributes.output_width, 1),
  ];
  const count = indices?.shape?.[0] ?? rois?.shape?.[0] ?? fresh();
  return [{ dtype, shape: [count, shape?.[1] ?? fresh(), height as number, width as number] }];
};

export const INFER_WINDOWS: Readonly<Record<string, Infer>> = {
  Conv: conv,
  ConvInteger: (node) => conv(node).map((type) => ({ ...type, dtype: 'int32' })),
  ConvTranspose: convTranspose,
  MaxPool: pool,
  AveragePool: pool,
  LpPool: pool,
  GlobalAveragePool: global,
  GlobalMaxPool: global,
  Resize: resize,
  MaxRoiPool: regions,
  RoiAlign: regions,
};
