/**
 * Infers the outputs of operations that move elements. Since opset 13 axes, shapes and pads are inputs, so they are
 * known only if shape arithmetic knows them.
 */
import { dtypeOf, type Infer, type InferInput, int, ints } from '../attributes.ts';
import { shapeFrom, sliceBounds } from '../elements.ts';
import { axisOf, product, quotient } from '../shapes.ts';
import type { Dim, Shape, Value, ValueType } from '../value.ts';

type Types = readonly ValueType[];

const UNKNOWN_RANK = undefined;

/** One output of the input's dtype. Its shape is unknown if the input's is. */
function shaped(shapeOf: (shape: Shape, node: InferInput) => Shape | undefined): Infer {
  return (node) => {
    const { dtype, shape } = node.inputs[0] as Value;
    return [{ dtype, shape: shape && shapeOf(shape, node) }];
  };
}

/** The numbers of a constant or known list, or undefined. */
function list(value: Value | undefined): readonly number[] | undefined {
  return value?.elements?.every((element) => typeof element === 'number') ? value.elements : undefined;
}

function reshape({ inputs: [x, target], attributes, fresh }: InferInput): Types {
  const input = x as Value;
  const wanted = shapeFrom(target, fresh);
  if (!wanted) return [{ dtype: input.dtype, shape: UNKNOWN_RANK }];
  const keepZero = int(attributes.allowzero, 0) === 0;
  const shape = wanted.map((dim, i) => (dim === 0 && keepZero ? (input.shape?.[i] ?? fresh()) : dim));
  const at = shape.indexOf(-1);
  if (at >= 0) shape[at] = (input.shape && quotient(input.shape, shape.toSpliced(at, 1))) ?? fresh();
  return [{ dtype: input.dtype, shape }];
}

const transpose = shaped((shape, { attributes }) => {
  const order = ints(attributes.perm) ?? [...shape.keys()].reverse();
  return order.map((axis) => shape[axisOf(axis, shape.length)] as Dim);
});

const squeeze = shaped((shape, { inputs: [, axes] }) => {
  if (!axes) {
    const sure = shape.every((dim) => typeof dim === 'number');
    return sure ? shape.filter((dim) => dim !== 1) : UNKNOWN_RANK;
  }
  const gone = list(axes)?.map((axis) => axisOf(axis, shape.length));
  return gone ? shape.filter((_, i) => !gone.includes(i)) : UNKNOWN_RANK;
});

const unsqueeze = shaped((shape, { inputs: [, axes] }) => {
  const at = list(axes);
  if (!at) return UNKNOWN_RANK;
  const size = shape.length + at.length;
  const added = new Set(at.map((axis) => axisOf(axis, size)));
  let next = 0;
  return Array.from({ length: size }, (_, i) => (added.has(i) ? 1 : (shape[next++] as Dim)));
});

function concat({ inputs, attributes, fresh }: InferInput): Types {
  const shapes = inputs.map((input) => input?.shape);
  const first = shapes.find((shape) => shape !== undefined);
  const dtype = (inputs[0] as Value).dtype;
  if (!first) return [{ dtype, shape: UNKNOWN_RANK }];
  const axis = axisOf(int(attributes.axis, 0), first.length);
  const shape = first.map((dim, i): Dim => {
    const dims = shapes.map((other) => other?.[i]);
    if (i !== axis) return dims.find((each) => typeof each === 'number') ?? dim;
    return dims.every((each) => typeof each === 'number') ? dims.reduce((a, b) => a + b, 0) : fresh();
  });
  return [{ dtype, shape }];
}

function split({ inputs: [x, sizes], attributes, outputs, fresh }: InferInput): Types {
  const { dtype, shape } = x as Value;
  if (!shape) return Array.from({ length: outputs }, () => ({ dtype, shape }));
  const axis = axisOf(int(attributes.axis, 0), shape.length);
  const whole = shape[axis];
  const even = typeof whole === 'number' ? whole / outputs : undefined;
  return Array.from({ length: outputs }, (_, i) => ({
    dtype,
    shape: shape.with(axis, (sizes ? sizes.elements?.[i] : even) ?? fresh()),
  }));
}

const slice = shaped((shape, { inputs: [, starts, ends, axes, steps], fresh }) => {
  const at = axes ? list(axes) : [...(starts?.elements ?? shape).keys()];
  if (!at) return shape.map(fresh);
  const result = [...shape];
  for (const [i, raw] of at.entries()) {
    const axis = axisOf(raw, shape.length);
    const [start, end] = [starts?.elements?.[i], ends?.elements?.[i]];
    const step = steps ? steps.elements?.[i] : 1;
    result[axis] = sliced(shape[axis] as Dim, start, end, step) ?? fresh();
  }
  return result;
});

/** Larger than any dimension; means "to the end". */
const END = 2 ** 31 - 1;

function sliced(
  dim: Dim,
  start: Dim | undefined,
  end: Dim | undefined,
  step: Dim | undefined,
): Dim | undefined {
  if (start === 0 && step === 1 && (end === dim || (typeof end === 'number' && end >= END))) return dim;
  if (typeof start !== 'number' || typeof end !== 'number' || typeof step !== 'number') return undefined;
  if (typeof dim !== 'number') return undefined;
  const [from, to] = sliceBounds(start, end, step, dim);
  return Math.max(0, Math.ceil((to - from) / step));
}

const gather = shaped((shape, { inputs: [, indices], attributes }) => {
  if (!indices?.shape) return UNKNOWN_RANK;
  const axis = axisOf(int(attributes.axis, 0), shape.length);
  return [...shape.slice(0, axis), ...indices.shape, ...shape.slice(axis + 1)];
});

const gatherNd = shaped((shape, { inputs: [, indices], attributes }) => {
  const depth = indices?.shape?.at(-1);
  if (!indices?.shape || typeof depth !== 'number') return UNKNOWN_RANK;
  return [...indices.shape.slice(0, -1), ...shape.slice(int(attributes.batch_dims, 0) + depth)];
});

const expand = shaped((shape, { inputs: [, target], fresh }) => {
  const wanted = shapeFrom(target, fresh);
  if (!wanted) return UNKNOWN_RANK;
  const size = Math.max(shape.length, wanted.length);
  return Array.from({ length: size }, (_, i) => {
    const own = shape[shape.length - size + i] ?? 1;
    const other = wanted[wanted.length - size + i] ?? 1;
    if (own === 1) return other;
    return other === 1 || typeof own === 'number' || own === other ? own : fresh();
  });
});

const tile = shaped((shape, { inputs: [, repeats], fresh }) =>
  shape.map((dim, i) => product([dim, repeats?.elements?.[i]]) ?? fresh()),
);

const pad = shaped((shape, { inputs: [, pads], fresh }) => {
  const amounts = list(pads);
  return shape.map((dim, i) => {
    if (!amounts) return fresh();
    const added = (amounts[i] as number) + (amounts[i + shape.length] as number);
    if (added === 0) return dim;
    return typeof dim === 'number' ? dim + added : fresh();
  });
});

function range({ inputs: [start, limit, step], fresh }: InferInput): Types {
  const [from, to, by] = [start?.elements?.[0], limit?.elements?.[0], step?.elements?.[0]];
  const counted =
    typeof from === 'number' && typeof to === 'number' && typeof by === 'number'
      ? Math.max(0, Math.ceil((to - from) / by))
      : from === 0 && by === 1
        ? to
        : undefined;
  return [{ dtype: (start as Value).dtype, shape: [counted ?? fresh()] }];
}

function topK({ inputs: [x, k], attributes, fresh }: InferInput): Types {
  const { dtype, shape } = x as Value;
  const axis = shape && axisOf(int(attributes.axis, -1), shape.length);
  const cut = axis === undefined ? undefined : shape?.with(axis, k?.elements?.[0] ?? fresh());
  return [
    { dtype, shape: cut },
    { dtype: 'int64', shape: cut },
  ];
}

function oneHot({ inputs: [indices, depth, values], attributes, fresh }: InferInput): Types {
  const shape = indices?.shape;
  const dtype = (values as Value).dtype;
  if (!shape) return [{ dtype, shape }];
  const axis = axisOf(int(attributes.axis, -1), shape.length + 1);
  return [{ dtype, shape: shape.toSpliced(axis, 0, depth?.elements?.[0] ?? fresh()) }];
}

function flatten({ inputs: [x], attributes, fresh }: InferInput): Types {
  const { dtype, shape } = x as Value;
  const axis = int(attributes.axis, 1);
  if (!shape) return [{ dtype, shape: [fresh(), fresh()] }];
  const at = axis < 0 ? axis + shape.length : axis;
  return [{ dtype, shape: [product(shape.slice(0, at)) ?? fresh(), product(shape.slice(at)) ?? fresh()] }];
}

const blocks = (sign: 1 | -1) =>
  shaped((shape, { attributes, fresh }) => {
    if (shape.length !== 4) return shape;
    const by = int(attributes.blocksize, 1) ** sign;
    const scaled = (dim: Dim | undefined, factor: number) =>
      typeof dim === 'number' ? dim * factor : fresh();
    const [n, c, h, w] = shape;
    return [n as Dim, scaled(c, by ** -2), scaled(h, by), scaled(w, by)];
  });

export const INFER_MOVES: Readonly<Record<string, Infer>> = {
  Reshape: reshape,
  Transpose: transpose,
  Squeeze: squeeze,
  Unsqueeze: unsqueeze,
  Flatten: flatten,
  Concat: concat,
  Split: split,
  Slice: slice,
  Gather: gather,
  GatherND: gatherNd,
  GatherElements: ({ inputs: [x, indices] }) => [{ dtype: (x as Value).dtype, shape: indices?.shape }],
  Expand: expand,
  Tile: tile,
  Pad: pad,
  Range: range,
  TopK: topK,
  OneHot: oneHot,
  DepthToSpace: blocks(1),
  SpaceToDepth: blocks(-1),
  Shape: ({ inputs: [x], attributes, fresh }) => {
    const from = int(attributes.start, 0);
    const to = typeof attributes.end === 'number' ? attributes.end : undefined;
    return [{ dtype: 'int64', shape: [x?.shape?.slice(from, to).length ?? fresh()] }];
  },
  Size: () => [{ dtype: 'int64', shape: [] }],
  ConstantOfShape: ({ inputs: [shape], attributes: { value }, fresh }) => [
    {
      dtype:
        typeof value === 'object' && 'tensor' in value ? value.tensor.dtype : dtypeOf(undefined, 'float32'),
      shape: shapeFrom(shape, fresh),
    },
  ],
  NonZero: ({ inputs: [x], fresh }) => [{ dtype: 'int64', shape: [x?.shape?.length ?? fresh(), fresh()] }],
  NonMaxSuppression: ({ fresh }) => [{ dtype: 'int64', shape: [fresh(), 3] }],
  Unique: ({ inputs: [x], attributes, fresh }) => {
    const { dtype, shape } = x as Value;
    const axis = typeof attributes.axis === 'number' ? attributes.axis : undefined;
    const cut = axis === undefined ? [fresh()] : shape && shape.with(axisOf(axis, shape.length), fresh());
    const places = { dtype: 'int64' as const, shape: [fresh()] };
    return [{ dtype, shape: cut }, places, places, places];
  },
  Compress: ({ inputs: [x], attributes, fresh }) => {
    const { dtype, shape } = x as Value;
    if (typeof attributes.axis !== 'number') return [{ dtype, shape: [fresh()] }];
    return [{ dtype, shape: shape?.with(axisOf(attributes.axis, shape.length), fresh()) }];
  },
};
