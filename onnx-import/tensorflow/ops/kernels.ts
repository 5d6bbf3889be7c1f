/**
 * Adds ONNX operations, with Casts around them where onnxruntime has no CPU kernel for the dtype: ONNX allows more
 * dtypes, and such a model would fail when opened. The table is what onnxruntime 1.30 opens;
 * test/onnx-import/tensorflow/ops/numbers.test.ts runs all of it.
 */
import type { DType } from '../../../lib/contract/tensor.ts';
import { ELEMENT_TYPES } from '../../graph/attributes.ts';
import type { AddOptions, GraphBuilder } from '../../graph/builder.ts';
import type { Maker } from '../../graph/layout.ts';
import type { Attributes, Value } from '../../graph/value.ts';
import { refuse } from './refuse.ts';

interface Kernel {
  readonly dtypes: ReadonlySet<DType>;
  /** The inputs of the dtype in question. Default: all. */
  readonly inputs?: readonly number[];
  /** Set when the first output has another dtype. */
  readonly otherOutput?: true;
}

const FLOATS: readonly DType[] = ['float32', 'float64'];
const WHOLE: readonly DType[] = ['int32', 'int64'];
const WIDE: readonly DType[] = [...FLOATS, ...WHOLE];
const SMALL: readonly DType[] = ['int8', 'uint8'];
const UNSIGNED: readonly DType[] = ['uint32', 'uint64'];
const NUMBERS: readonly DType[] = [...WIDE, ...SMALL, ...UNSIGNED, 'int16', 'uint16'];

function kernels(
  names: string,
  dtypes: readonly DType[],
  rest: Omit<Kernel, 'dtypes'> = {},
): Record<string, Kernel> {
  const kernel = { dtypes: new Set(dtypes), ...rest };
  return Object.fromEntries(names.split(' ').map((name) => [name, kernel]));
}

/** Operations that are not listed move elements of any dtype. */
export const KERNELS: Readonly<Record<string, Kernel>> = {
  ...kernels('Add Sub Mul Div Mod', NUMBERS),
  ...kernels('Abs Sign', NUMBERS),
  ...kernels('Pow', WIDE),
  ...kernels('PRelu', [...WIDE]),
  ...kernels('Max Min', [...WIDE, ...SMALL, ...UNSIGNED]),
  ...kernels('Less LessOrEqual Greater GreaterOrEqual', NUMBERS, { otherOutput: true }),
  ...kernels('Equal', [...NUMBERS, 'bool', 'string'], { otherOutput: true }),
  ...kernels('Neg', [...WIDE, 'int8', 'int16']),
  ...kernels(
    'Floor Ceil Round Sqrt Reciprocal Exp Log Sigmoid Tanh Sin Cos LeakyRelu Softmax LogSoftmax Relu ' +
      'BatchNormalization Sum',
    FLOATS,
  ),
  ...kernels('IsNaN IsInf', FLOATS, { otherOutput: true }),
  ...kernels(
    'Tan Asin Acos Atan Sinh Cosh Asinh Acosh Atanh Erf Softplus Softsign Elu Selu HardSigmoid Conv ConvTranspose ' +
      'AveragePool LRN Mean',
    ['float32'],
  ),
  ...kernels('MaxPool', [...FLOATS, ...SMALL]),
  ...kernels('MatMul', [...WIDE, ...UNSIGNED]),
  ...kernels('Einsum', WIDE),
  ...kernels('ReduceMean ReduceProd ReduceL1 ReduceL2 ReduceSumSquare ReduceLogSumExp', WIDE, {
    inputs: [0],
  }),
  ...kernels('ReduceSum', WIDE, { inputs: [0] }),
  ...kernels('ReduceMax ReduceMin', [...WIDE, ...SMALL], { inputs: [0] }),
  ...kernels('ArgMax ArgMin', [...WIDE, ...SMALL], { inputs: [0], otherOutput: true }),
  ...kernels('TopK', [...WIDE, ...SMALL, 'int16'], { inputs: [0] }),
  ...kernels('Pad', [...WIDE, ...SMALL, ...UNSIGNED, 'bool'], { inputs: [0, 2] }),
  ...kernels('Where', [...WIDE, 'uint8', 'string'], { inputs: [1, 2] }),
  ...kernels('NonZero', ['float32', ...WHOLE, 'uint8', 'bool'], { inputs: [0], otherOutput: true }),
  ...kernels('Range', [...WIDE, 'int16']),
  ...kernels('CumSum', WIDE, { inputs: [0] }),
  ...kernels('Trilu', [...WIDE, 'bool'], { inputs: [0] }),
  ...kernels('DepthToSpace SpaceToDepth', [...FLOATS, ...SMALL], { inputs: [0] }),
  ...kernels('Clip', [...WIDE, ...SMALL, ...UNSIGNED]),
  ...kernels('Unique', [...FLOATS, 'int64', 'int8', 'string'], { inputs: [0] }),
  ...kernels('Resize', ['float32', 'int32', ...SMALL], { inputs: [0] }),
};

const PREFERRED: Readonly<Partial<Record<DType, readonly DType[]>>> = {
  bool: ['uint8', 'int32', 'float32'],
  int8: ['int32', 'float32'],
  uint8: ['int32', 'float32'],
  int16: ['int32', 'float32'],
  uint16: ['int32', 'float32'],
  int32: ['int64', 'float64', 'float32'],
  int64: ['float64', 'float32'],
  uint32: ['int64', 'float64', 'float32'],
  uint64: ['int64', 'float64', 'float32'],
  float64: ['float32'],
};

export function cast(g: GraphBuilder, value: Value, dtype: DType): Value {
  if (value.dtype === dtype) return value;
  const results = [{ dtype, shape: value.shape }];
  const made = g.add(
    'Cast',
    [value],
    { to: ELEMENT_TYPES[dtype] },
    { results, hint: value.name },
  )[0] as Value;
  // A shape goes from int64 to TensorFlow's int32 and back; casting back returns the original.
  if (value.dtype === 'int64' && dtype === 'int32') WIDENED.set(made, value);
  return made;
}

const WIDENED = new WeakMap<Value, Value>();

/** Casts to int64, the dtype of ONNX's shapes, axes and indices. */
export function int64(g: GraphBuilder, value: Value): Value {
  return WIDENED.get(value) ?? cast(g, value, 'int64');
}

/** Adds an operation and returns all its outputs. */
export function emitAll(
  g: GraphBuilder,
  op: string,
  inputs: readonly (Value | undefined)[],
  attributes: Attributes = {},
  options: AddOptions = {},
): Value[] {
  const kernel = Object.hasOwn(KERNELS, op) ? KERNELS[op] : undefined;
  const at = kernel?.inputs ?? [...inputs.keys()];
  const own = inputs[at[0] as number]?.dtype;
  if (!kernel || own === undefined || kernel.dtypes.has(own)) return g.add(op, inputs, attributes, options);
  const other = PREFERRED[own]?.find((dtype) => kernel.dtypes.has(dtype));
  if (!other) refuse(`is not supported for ${own}`);
  const moved = inputs.map((input, i) => (input && at.includes(i) ? cast(g, input, other) : input));
  const results = g.add(op, moved, attributes, {
    ...options,
    ...(options.results
      ? { results: options.results.map((type) => (type.dtype === own ? { ...type, dtype: other } : type)) }
      : {}),
  });
  return kernel.otherOutput ? results : [cast(g, results[0] as Value, own), ...results.slice(1)];
}

/** Adds an operation and returns its first output. */
export function emit(
  g: GraphBuilder,
  op: string,
  inputs: readonly (Value | undefined)[],
  attributes: Attributes = {},
  hint?: string,
): Value {
  return emitAll(g, op, inputs, attributes, hint === undefined ? {} : { hint })[0] as Value;
}

/** Turns a scalar, or a list with one element, into a list with one element. */
export function oneNumber(g: GraphBuilder, value: Value, dtype: DType): Value {
  const made = dtype === 'int64' ? int64(g, value) : cast(g, value, dtype);
  return made.shape?.length === 1 ? made : g.one('Reshape', [made, g.ints([1])]);
}

/** A node whose operations run in a dtype that onnxruntime has. */
export function makerOf(g: GraphBuilder, hint: string): Maker {
  return {
    g,
    hint,
    one: (op, inputs, attributes) => emit(g, op, inputs, attributes, hint),
    several: (op, inputs, attributes, options) => emitAll(g, op, inputs, attributes, options),
  };
}
