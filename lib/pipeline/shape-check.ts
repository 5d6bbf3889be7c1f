/**
 * Checks the shape of a record's tensor against its model input and adds the batch axis. Callers send a record without
 * the batch dimension; a model with a fixed one may get it whole.
 */
import { badInput, type ServingError } from '../contract/errors.ts';
import { formatShape, type Tensor } from '../contract/tensor.ts';
import type { TensorSpec } from '../contract/values.ts';

export interface CheckedTensor {
  /** Batch axis included, except for a scalar. */
  readonly tensor: Tensor;
  /** Rows along the batch axis. */
  readonly rows: number;
  /** True when the caller sent the batch dimension, which the outputs then keep. */
  readonly keepsBatchDim: boolean;
}

/** @throws bad_input naming the input, the expected and the given shape */
export function checkShape(tensor: Tensor, spec: TensorSpec, alreadyBatched: boolean): CheckedTensor {
  const { shape } = tensor;
  const rank = spec.shape.length;
  if (shape.includes(0)) {
    const expected = `${spec.dtype} ${formatSpec(alreadyBatched ? spec.shape : spec.shape.slice(1))}`;
    throw badInput(`is empty (shape ${formatShape(shape)}), expected ${expected}`);
  }
  // Rank 0 is a scalar or an undeclared rank, which onnxruntime does not distinguish. A number is taken for a scalar,
  // anything else has a batch axis as every other input has.
  if (rank === 0) {
    if (shape.length === 0) return { tensor, rows: 1, keepsBatchDim: true };
    if (alreadyBatched) return { tensor, rows: shape[0] as number, keepsBatchDim: true };
    return { tensor: withShape(tensor, [1, ...shape]), rows: 1, keepsBatchDim: false };
  }
  if (alreadyBatched) {
    if (!matches(shape, spec.shape)) throw mismatch(shape, spec, alreadyBatched);
    return { tensor, rows: shape[0] ?? 1, keepsBatchDim: true };
  }
  const row = spec.shape.slice(1);
  if (matches(shape, row)) return { tensor: withShape(tensor, [1, ...shape]), rows: 1, keepsBatchDim: false };
  // A single number for an input with one element per row: people write `3` for [1].
  if (shape.length === 0 && row.every((dim) => dim === 1 || typeof dim === 'string')) {
    return { tensor: withShape(tensor, [1, ...row.map(() => 1)]), rows: 1, keepsBatchDim: false };
  }
  if (typeof spec.shape[0] === 'number' && matches(shape, spec.shape)) {
    return { tensor, rows: spec.shape[0], keepsBatchDim: true };
  }
  throw mismatch(shape, spec, false);
}

function withShape(tensor: Tensor, shape: readonly number[]): Tensor {
  return { dtype: tensor.dtype, shape, data: tensor.data };
}

function matches(shape: readonly number[], expected: readonly (number | string)[]): boolean {
  return (
    shape.length === expected.length &&
    expected.every((dim, i) => typeof dim === 'string' || dim === shape[i])
  );
}

function mismatch(shape: readonly number[], spec: TensorSpec, alreadyBatched: boolean): ServingError {
  const expected = alreadyBatched ? spec.shape : spec.shape.slice(1);
  const looksBatched = !alreadyBatched && matches(shape, spec.shape);
  const hint = looksBatched
    ? ' (send one record without the batch dimension, or set inputAlreadyBatched)'
    : '';
  return badInput(`expected ${spec.dtype} ${formatSpec(expected)}, got shape ${formatShape(shape)}${hint}`);
}

/** Formats a shape; a dynamic dimension is its name, or `?`. */
export function formatSpec(shape: readonly (number | string)[]): string {
  return formatShape(shape.map((dim) => (dim === '' ? '?' : dim)));
}
