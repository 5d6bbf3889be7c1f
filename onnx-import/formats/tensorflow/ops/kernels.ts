/**
 * Adds ONNX operations, with Casts around them where onnxruntime has no CPU kernel for the dtype: ONNX allows more
 * dtypes, and such a model would fail when opened. graph/ops says what onnxruntime 1.30 opens.
 */
import type { DType } from '../../../../lib/contract/tensor.ts';
import { ELEMENT_TYPES } from '../../../graph/attributes.ts';
import type { AddOptions, GraphBuilder } from '../../../graph/builder.ts';
import type { Maker } from '../../../graph/layout.ts';
import { operatorOf } from '../../../graph/ops/table.ts';
import type { Attributes, Value } from '../../../graph/value.ts';
import { refuse } from './refuse.ts';

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
  const { dtypes, typed, results: types } = operatorOf(op) ?? {};
  const at = typed ?? [...inputs.keys()];
  const own = inputs[at[0] as number]?.dtype;
  if (!dtypes || own === undefined || dtypes.includes(own)) return g.add(op, inputs, attributes, options);
  const other = PREFERRED[own]?.find((dtype) => dtypes.includes(dtype));
  if (!other) refuse(`is not supported for ${own}`);
  const moved = inputs.map((input, i) => (input && at.includes(i) ? cast(g, input, other) : input));
  const results = g.add(op, moved, attributes, {
    ...options,
    ...(options.results
      ? { results: options.results.map((type) => (type.dtype === own ? { ...type, dtype: other } : type)) }
      : {}),
  });
  const hasOtherType = typeof types?.[0] === 'string';
  return hasOtherType ? results : [cast(g, results[0] as Value, own), ...results.slice(1)];
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
