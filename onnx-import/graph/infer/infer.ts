/**
 * Infers the dtype and shape of a node's outputs, as far as they can be known. Converters build on the shapes, so an
 * uncertain size becomes a new free dimension.
 */
import type { DType } from '../../../lib/contract/tensor.ts';
import { dtypeOf, type Infer, type InferInput, int, ints } from '../attributes.ts';
import { axisOf, broadcast, type Fresh } from '../shapes.ts';
import type { Attributes, Dim, Shape, Value, ValueType } from '../value.ts';
import { INFER_MOVES } from './moves.ts';
import { INFER_WINDOWS } from './windows.ts';

const same: Infer = ({ inputs: [x], outputs }) =>
  Array.from({ length: outputs }, () => ({ dtype: (x as Value).dtype, shape: x?.shape }));

const typed =
  (dtype: DType): Infer =>
  ({ inputs: [x] }) => [{ dtype, shape: x?.shape }];

function broadcasting(dtype?: DType): Infer {
  return ({ inputs, fresh }) => {
    const shapes = inputs.map((input) => input?.shape);
    const shape = shapes.reduce((a, b) => broadcast(a, b, fresh));
    return [{ dtype: dtype ?? (inputs[0] as Value).dtype, shape }];
  };
}

/** The axes to reduce: the attribute, or the second input since opset 13. Without either, all axes. */
function reduced({ inputs: [x, axes], attributes, fresh }: InferInput, dtype?: DType): readonly ValueType[] {
  const input = x as Value;
  const type = dtype ?? input.dtype;
  const keep = int(attributes.keepdims, 1) === 1;
  const { shape } = input;
  if (!shape) return [{ dtype: type, shape: undefined }];
  const listed = axes ? (axes.elements as readonly number[] | undefined) : (ints(attributes.axes) ?? []);
  if (!listed) return [{ dtype: type, shape: keep ? shape.map(fresh) : undefined }];
  const none = listed.length === 0;
  if (none && int(attributes.noop_with_empty_axes, 0) === 1) return [{ dtype: type, shape }];
  const gone = new Set(none ? shape.keys() : listed.map((axis) => axisOf(axis, shape.length)));
  return [{ dtype: type, shape: drop(shape, gone, keep) }];
}

function drop(shape: Shape, axes: ReadonlySet<number>, keep: boolean): Dim[] {
  return keep ? shape.map((dim, i) => (axes.has(i) ? 1 : dim)) : shape.filter((_, i) => !axes.has(i));
}

const argument: Infer = ({ inputs: [x], attributes }) => {
  const shape = x?.shape;
  if (!shape) return [{ dtype: 'int64', shape }];
  const axis = axisOf(int(attributes.axis, 0), shape.length);
  return [{ dtype: 'int64', shape: drop(shape, new Set([axis]), int(attributes.keepdims, 1) === 1) }];
};

const matMul: Infer = ({ inputs: [x, y], fresh }) => {
  const [a, b] = [x as Value, y as Value];
  const { dtype } = a;
  if (!a.shape || !b.shape) return [{ dtype, shape: undefined }];
  const [m, n] = [a.shape.slice(-2, -1), b.shape.length > 1 ? b.shape.slice(-1) : []];
  const batch = broadcast(a.shape.slice(0, -2), b.shape.slice(0, -2), fresh) as Shape;
  return [{ dtype, shape: [...batch, ...m, ...n] }];
};

const gemm: Infer = ({ inputs: [x, y], attributes }) => {
  const [a, b] = [x as Value, y as Value];
  if (!a.shape || !b.shape) return [{ dtype: a.dtype, shape: undefined }];
  const m = a.shape[int(attributes.transA, 0) === 1 ? 1 : 0] as Dim;
  const n = b.shape[int(attributes.transB, 0) === 1 ? 0 : 1] as Dim;
  return [{ dtype: a.dtype, shape: [m, n] }];
};

const einsum: Infer = ({ inputs, attributes, fresh }) => {
  const dtype = (inputs[0] as Value).dtype;
  const equation = typeof attributes.equation === 'string' ? attributes.equation.replaceAll(' ', '') : '';
  const [left = '', right] = equation.split('->');
  if (right === undefined || equation.includes('.')) return [{ dtype, shape: undefined }];
  const dims = new Map<string, Dim>();
  for (const [i, term] of left.split(',').entries())
    for (const [j, letter] of Array.from(term).entries()) {
      const dim = inputs[i]?.shape?.[j];
      if (dim !== undefined && (dims.get(letter) ?? 1) === 1) dims.set(letter, dim);
    }
  return [{ dtype, shape: Array.from(right, (letter) => dims.get(letter) ?? fresh()) }];
};

function entries(names: string, infer: Infer): Record<string, Infer> {
  return Object.fromEntries(names.split(' ').map((name) => [name, infer]));
}

const reduce: Infer = (node) => reduced(node);

const INFER: Readonly<Record<string, Infer>> = {
  ...entries(
    'Identity Relu LeakyRelu Sigmoid Tanh Elu Selu Celu Softplus Softsign HardSigmoid HardSwish ThresholdedRelu ' +
      'PRelu Exp Log Sqrt Abs Neg Floor Ceil Round Sign Erf Sin Cos Tan Asin Acos Atan Sinh Cosh Asinh Acosh Atanh ' +
      'Reciprocal Clip Softmax LogSoftmax Hardmax LRN MeanVarianceNormalization InstanceNormalization LpNormalization ' +
      'CumSum Not Trilu ReverseSequence ScatterND ScatterElements BatchNormalization Dropout BitShift ' +
      'RandomUniformLike RandomNormalLike EyeLike LayerNormalization',
    same,
  ),
  ...entries('IsNaN IsInf', typed('bool')),
  ...entries('Add Sub Mul Div Pow Min Max Mean Sum Mod', broadcasting()),
  ...entries('And Or Xor Equal Less Greater LessOrEqual GreaterOrEqual', broadcasting('bool')),
  Where: ({ inputs: [condition, x, y], fresh }) => [
    {
      dtype: (x as Value).dtype,
      shape: broadcast(condition?.shape, broadcast(x?.shape, y?.shape, fresh), fresh),
    },
  ],
  Cast: ({ inputs: [x], attributes }) => [
    { dtype: dtypeOf(attributes.to, (x as Value).dtype), shape: x?.shape },
  ],
  QuantizeLinear: ({ inputs: [x, , zero] }) => [{ dtype: zero?.dtype ?? 'uint8', shape: x?.shape }],
  DequantizeLinear: typed('float32'),
  ...entries(
    'ReduceSum ReduceMean ReduceMax ReduceMin ReduceProd ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceSumSquare',
    reduce,
  ),
  ...entries('ArgMax ArgMin', argument),
  MatMul: matMul,
  MatMulInteger: (node) => matMul(node).map((type) => ({ ...type, dtype: 'int32' })),
  Gemm: gemm,
  Einsum: einsum,
  ...INFER_MOVES,
  ...INFER_WINDOWS,
};

/** @throws bad_model when the shapes are impossible for the operation */
export function inferNode(
  op: string,
  inputs: readonly (Value | undefined)[],
  attributes: Attributes,
  outputs: number,
  fresh: Fresh,
): readonly ValueType[] {
  const infer = Object.hasOwn(INFER, op) ? INFER[op] : undefined;
  const types = infer?.({ inputs, attributes, outputs, fresh }) ?? [];
  const dtype = inputs.find((input) => input)?.dtype ?? 'float32';
  return Array.from({ length: outputs }, (_, i) => types[i] ?? { dtype, shape: undefined });
}
