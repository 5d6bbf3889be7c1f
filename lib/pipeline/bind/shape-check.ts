/**
 * Checks the shape of a record's tensor against its model input and adds the batch axis. Callers send a record without
 * the batch dimension; a model with a fixed one may get it whole.
 */
import { badInput, type ServingError } from '../../contract/errors.ts';
import { LIMITS } from '../../contract/limits.ts';
import { formatShape, type Tensor } from '../../contract/tensor.ts';
import type { TensorSpec } from '../../contract/values.ts';
import { batchAxisOf, rowShape } from '../batch/batch-axes.ts';

/** The checked value has a shape, and may be a tensor. */
interface Shaped {
  readonly shape: readonly number[];
}

export interface CheckedTensor<T extends Shaped = Tensor> {
  /** Batch axis included, where the input has one. */
  readonly tensor: T;
  /** Rows along the batch axis; 1 without one. */
  readonly rows: number;
  /** True when the caller sent the batch dimension, which the outputs then keep. */
  readonly keepsBatchDim: boolean;
}

/**
 * @param takesEmpty rows without elements are fed to the model. Default false
 * @throws bad_input naming the input, the expected and the given shape
 */
export function checkShape<T extends Shaped>(
  tensor: T,
  spec: TensorSpec,
  alreadyBatched: boolean,
  takesEmpty = false,
): CheckedTensor<T> {
  const { shape } = tensor;
  const axis = batchAxisOf(spec);
  const row = rowShape(spec);
  if (shape.includes(0) && !(takesEmpty && hasFewRows(shape, axis))) {
    const expected = `${spec.dtype} ${formatSpec(alreadyBatched ? spec.shape : row)}`;
    throw badInput(`is empty (shape ${formatShape(shape)}), expected ${expected}`);
  }
  if (axis === 'none' || (spec.shape.length === 0 && shape.length === 0)) return checkShared(tensor, spec);
  // An undeclared rank may be that of a scalar if the file was not read: a number is taken for a scalar, anything
  // else has a batch axis as every other input has.
  const isDeclared = spec.shape.length > 0;
  if (alreadyBatched) {
    const rows = shape[axis];
    if (rows === undefined || (isDeclared && !matches(shape, spec.shape)))
      throw mismatch(shape, spec, alreadyBatched);
    return { tensor, rows, keepsBatchDim: true };
  }
  if (isDeclared ? matches(shape, row) : axis <= shape.length) {
    return { tensor: withShape(tensor, withAxis(shape, axis)), rows: 1, keepsBatchDim: false };
  }
  // A single number for an input with one element per row: people write `3` for [1].
  if (isOneElement(shape, row)) {
    return { tensor: withShape(tensor, withAxis(ones(row), axis)), rows: 1, keepsBatchDim: false };
  }
  const rows = spec.shape[axis];
  if (typeof rows === 'number' && matches(shape, spec.shape)) return { tensor, rows, keepsBatchDim: true };
  throw mismatch(shape, spec, false);
}

/** Rows without elements cost the caller nothing, and the model may answer each of them. */
function hasFewRows(shape: readonly number[], axis: number | 'none'): boolean {
  const cells = shape.reduce((product, size) => product * Math.max(1, size), 1);
  return (axis === 'none' || shape[axis] !== 0) && cells <= LIMITS.instances;
}

/** An input that all rows of a run share comes whole. It counts no rows. A list of one value is that value for a scalar. */
function checkShared<T extends Shaped>(given: T, spec: TensorSpec): CheckedTensor<T> {
  const isListOfOne = spec.isScalar && given.shape.length === 1 && given.shape[0] === 1;
  const tensor = isListOfOne ? withShape(given, []) : given;
  const { shape } = tensor;
  const isFit = (spec.shape.length === 0 && !spec.isScalar) || matches(shape, spec.shape);
  if (!isFit && !isOneElement(shape, spec.shape)) throw mismatch(shape, spec, true);
  return { tensor: isFit ? tensor : withShape(tensor, ones(spec.shape)), rows: 1, keepsBatchDim: true };
}

function isOneElement(shape: readonly number[], row: readonly (number | string)[]): boolean {
  return shape.length === 0 && row.every((dim) => dim === 1 || typeof dim === 'string');
}

function ones(shape: readonly unknown[]): number[] {
  return shape.map(() => 1);
}

function withAxis(shape: readonly number[], axis: number): readonly number[] {
  return axis === 0 ? [1, ...shape] : shape.toSpliced(axis, 0, 1);
}

function withShape<T extends Shaped>(tensor: T, shape: readonly number[]): T {
  return { ...tensor, shape };
}

function matches(shape: readonly number[], expected: readonly (number | string)[]): boolean {
  return (
    shape.length === expected.length &&
    expected.every((dim, i) => typeof dim === 'string' || dim === shape[i])
  );
}

function mismatch(shape: readonly number[], spec: TensorSpec, alreadyBatched: boolean): ServingError {
  const expected = alreadyBatched ? spec.shape : rowShape(spec);
  const looksBatched = !alreadyBatched && matches(shape, spec.shape);
  const hint = spec.isScalar
    ? ' (it has no rows: one value holds for the whole record)'
    : looksBatched
      ? ' (send one record without the batch dimension, or set inputAlreadyBatched)'
      : '';
  return badInput(`expected ${spec.dtype} ${formatSpec(expected)}, got shape ${formatShape(shape)}${hint}`);
}

/** Formats a shape; a dynamic dimension is its name, or `?`. */
export function formatSpec(shape: readonly (number | string)[]): string {
  return formatShape(shape.map((dim) => (dim === '' ? '?' : dim)));
}
