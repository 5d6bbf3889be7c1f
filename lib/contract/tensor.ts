/**
 * A tensor: dtype, shape and data that match. `new Float32Array(buffer, offset, n)` throws for a misaligned offset;
 * `viewBytes` copies if necessary.
 */
import { badInput, badRequest, ServingError } from './errors.ts';

/** ONNX element types by their usual names. `bool` is a Uint8Array of 0 and 1, `float16` the raw 16 bits. */
const ARRAYS = {
  float32: Float32Array,
  float64: Float64Array,
  float16: Uint16Array,
  int8: Int8Array,
  int16: Int16Array,
  int32: Int32Array,
  int64: BigInt64Array,
  uint8: Uint8Array,
  uint16: Uint16Array,
  uint32: Uint32Array,
  uint64: BigUint64Array,
  bool: Uint8Array,
} as const;

export type NumericDType = keyof typeof ARRAYS;
export type DType = NumericDType | 'string';
export type TypedArray =
  | Float32Array
  | Float64Array
  | Int8Array
  | Int16Array
  | Int32Array
  | BigInt64Array
  | Uint8Array
  | Uint16Array
  | Uint32Array
  | BigUint64Array;

interface Shaped {
  /** Row-major, outermost dimension first; `[]` is a scalar. */
  readonly shape: readonly number[];
}

/** `data` has `elementCount(shape)` elements. */
export interface NumericTensor extends Shaped {
  readonly dtype: NumericDType;
  readonly data: TypedArray;
}

export interface TextTensor extends Shaped {
  readonly dtype: 'string';
  readonly data: readonly string[];
}

export type Tensor = NumericTensor | TextTensor;

export function isNumericDType(dtype: string): dtype is NumericDType {
  return Object.hasOwn(ARRAYS, dtype);
}

export function numericDTypes(): NumericDType[] {
  return Object.keys(ARRAYS).filter(isNumericDType);
}

/** The elements from `start` to `end` as a tensor of their own, in memory of its own. */
export function sliceTensor(tensor: Tensor, shape = tensor.shape, start = 0, end?: number): Tensor {
  if (tensor.dtype === 'string') return { dtype: tensor.dtype, shape, data: tensor.data.slice(start, end) };
  return { dtype: tensor.dtype, shape, data: tensor.data.slice(start, end) };
}

/** Copies elements as TypedArray.set does; both arrays hold numbers, or both bigints. */
export function copyElements(from: Tensor['data'], into: TypedArray, offset = 0): void {
  into.set(from as never, offset);
}

/** A zeroed array of `length` elements of `dtype`. */
export function allocate(dtype: NumericDType, length: number): TypedArray {
  return new ARRAYS[dtype](length);
}

export function bytesPerElement(dtype: NumericDType): number {
  return ARRAYS[dtype].BYTES_PER_ELEMENT;
}

/**
 * Product of the dimensions; 1 for a scalar.
 * @throws bad_input for a negative or fractional dimension, too_large beyond `limit` elements.
 */
export function elementCount(shape: readonly number[], limit: number = Number.MAX_SAFE_INTEGER): number {
  let count = 1;
  let zero = false;
  for (const dim of shape) {
    if (!Number.isSafeInteger(dim) || dim < 0) {
      throw badInput(`a dimension must be a whole number >= 0, got ${dim}`);
    }
    if (dim === 0) zero = true;
    else count *= dim;
    // Checked at every step, so that [1e9, 1e9, 0] is refused although its product is 0.
    if (count > limit) {
      throw new ServingError(
        'too_large',
        `shape [${shape.join(',')}] is over the limit of ${limit} elements`,
      );
    }
  }
  return zero ? 0 : count;
}

/** @throws bad_request unless the shape has that many elements, and as `elementCount` */
export function assertCount(shape: readonly number[], length: number, limit: number): void {
  if (elementCount(shape, limit) === length) return;
  throw badRequest(`${length} elements are not of shape [${shape.join(',')}]`);
}

/**
 * Views `bytes` (little-endian, as in ONNX, Arrow and safetensors) as an array of `dtype`; copies only if misaligned.
 */
export function viewBytes(dtype: NumericDType, bytes: Uint8Array): TypedArray {
  const size = bytesPerElement(dtype);
  if (bytes.byteLength % size !== 0) {
    throw badInput(`${bytes.byteLength} bytes are not a whole number of ${dtype} elements`);
  }
  // Not bytes.slice(): a Buffer's slice is a view of the same, misaligned memory.
  const aligned = bytes.byteOffset % size === 0 ? bytes : new Uint8Array(bytes);
  return new ARRAYS[dtype](aligned.buffer as ArrayBuffer, aligned.byteOffset, aligned.byteLength / size);
}

export function formatShape(shape: readonly (number | string)[]): string {
  return `[${shape.join(',')}]`;
}
