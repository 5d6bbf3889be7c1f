/**
 * Collects the numbers of a repeated field, packed or not, in one typed array. Weights are one packed run of up to a
 * hundred million bytes, which becomes a view.
 */
import { viewBytes } from '../../lib/contract/tensor.ts';
import type { NumberArray, ScalarType } from './table.ts';

export type NumberType = Exclude<ScalarType, 'string' | 'bytes'>;

const ARRAYS = {
  bool: Uint8Array,
  int32: Int32Array,
  enum: Int32Array,
  uint32: Uint32Array,
  fixed32: Uint32Array,
  int64: BigInt64Array,
  uint64: BigUint64Array,
  fixed64: BigUint64Array,
  float: Float32Array,
  double: Float64Array,
} as const satisfies Record<NumberType, unknown>;

/** Bytes per element on the wire; undefined for varints. */
export const FIXED_BYTES: Readonly<Partial<Record<ScalarType, 4 | 8>>> = {
  float: 4,
  fixed32: 4,
  double: 8,
  fixed64: 8,
};

export function isNumberType(type: ScalarType): type is NumberType {
  return type !== 'string' && type !== 'bytes';
}

const FIXED_DTYPES = { float: 'float32', double: 'float64', fixed32: 'uint32', fixed64: 'uint64' } as const;

/** The elements of a fixed-size type, as a view if their alignment allows it. */
export function viewNumbers(type: NumberType, bytes: Uint8Array): NumberArray {
  return viewBytes(FIXED_DTYPES[type as keyof typeof FIXED_DTYPES], bytes) as NumberArray;
}

/**
 * The numbers of one repeated field. A single run is kept as it is; several are copied into an array that doubles.
 */
export class GrowingNumbers {
  readonly type: NumberType;
  private array: NumberArray;
  private length: number;
  /** False while `array` is a view of the file. */
  private owned = false;

  constructor(type: NumberType, first?: NumberArray) {
    this.type = type;
    this.array = first ?? new ARRAYS[type](0);
    this.length = this.array.length;
  }

  append(more: NumberArray): void {
    if (this.length === 0 && !this.owned) {
      this.array = more;
      this.length = more.length;
      return;
    }
    const start = this.length;
    this.grow(more.length);
    // Both arrays have the same type, which TypeScript cannot know.
    (this.array as Float64Array).set(more as Float64Array, start);
  }

  /** Appends a number, given as two halves if it has 64 bits. */
  push(low: number, high = 0): void {
    const index = this.length;
    this.grow(1);
    setNumber(this.array, index, low, high);
  }

  finish(): NumberArray {
    return this.length === this.array.length ? this.array : this.array.slice(0, this.length);
  }

  private grow(count: number): void {
    this.length += count;
    if (this.owned && this.length <= this.array.length) return;
    const larger = new ARRAYS[this.type](Math.max(8, this.length, this.owned ? this.array.length * 2 : 0));
    (larger as Float64Array).set(this.array as Float64Array);
    this.array = larger;
    this.owned = true;
  }
}

/** An array for `length` decoded varints. */
export function allocateNumbers(type: NumberType, length: number): NumberArray {
  return new ARRAYS[type](length);
}

function setNumber(array: NumberArray, index: number, low: number, high: number): void {
  if (array instanceof BigInt64Array || array instanceof BigUint64Array) {
    array[index] = (BigInt(high >>> 0) << 32n) | BigInt(low >>> 0);
  } else if (array instanceof Uint8Array) {
    array[index] = low === 0 && high === 0 ? 0 : 1;
  } else {
    array[index] = low;
  }
}

/** Joins the halves of a 64-bit integer to a double: exact up to 2^53, else the nearest. */
export function join64(low: number, high: number, signed: boolean): number {
  return (signed ? high | 0 : high >>> 0) * 0x1_0000_0000 + (low >>> 0);
}
