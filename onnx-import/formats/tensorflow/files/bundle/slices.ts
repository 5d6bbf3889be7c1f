/**
 * Reads tensors that are stored in slices, or one slice of a tensor, copied row by row. A slice's key is binary:
 * numbers and names are encoded so that their bytes sort as they do.
 */
import { badModel } from '../../../../../lib/contract/errors.ts';
import { allocate, type NumericDType, type TypedArray } from '../../../../../lib/contract/tensor.ts';
import { countElements } from '../tensor.ts';

/** The start and the length in each dimension. */
export type Slice = readonly { readonly start: number; readonly length: number }[];

export function wholeSlice(shape: readonly number[]): Slice {
  return shape.map((length) => ({ start: 0, length }));
}

export function shapeOf(slice: Slice): number[] {
  return slice.map(({ length }) => length);
}

/**
 * Parses RestoreV2's shape_and_slice: `10 4 0,5:-` selects five rows from the first, all columns, of a tensor [10,4].
 * Returns undefined for the empty text, which selects the whole tensor.
 */
export function parseSlice(
  text: string,
): { readonly shape: readonly number[]; readonly slice: Slice } | undefined {
  if (text === '') return undefined;
  const parts = text.split(' ');
  const shape = parts.slice(0, -1).map(Number);
  const extents = (parts.at(-1) ?? '').split(':');
  const slice = extents.map((extent, axis) => {
    const dim = shape[axis] ?? Number.NaN;
    if (extent === '-') return { start: 0, length: dim };
    const [start = Number.NaN, length = Number.NaN] = extent.split(',').map(Number);
    return { start, length };
  });
  if (slice.length !== shape.length || !fits(slice, shape)) {
    throw badModel(`"${text.slice(0, 100)}" does not specify a part of a tensor`);
  }
  return { shape, slice };
}

export function fits(slice: Slice, shape: readonly number[]): boolean {
  return (
    slice.length === shape.length &&
    slice.every(({ start, length }, axis) => {
      const whole = Number.isSafeInteger(start) && Number.isSafeInteger(length);
      return whole && start >= 0 && length >= 0 && start + length <= (shape[axis] ?? -1);
    })
  );
}

/**
 * A piece in the index. A length of -1 is the whole dimension, and its key differs from the one with the explicit
 * length.
 */
type Extents = readonly { readonly start: number; readonly length: number }[];

/** The key of a piece of the tensor `name`. */
export function sliceKey(name: string, extents: Extents): string {
  const parts: Buffer[] = [unsigned(0), sortable(name), unsigned(extents.length)];
  for (const { start, length } of extents) parts.push(signed(start), signed(length));
  return Buffer.concat(parts).toString('latin1');
}

export function toSlice(extents: Extents, shape: readonly number[]): Slice {
  return extents.map(({ start, length }, axis) =>
    length === -1 ? { start: 0, length: shape[axis] ?? 0 } : { start, length },
  );
}

/** A byte count, then the bytes of the number, most significant first. */
function unsigned(value: number): Buffer {
  const bytes: number[] = [];
  for (let rest = value; rest > 0; rest = Math.floor(rest / 256)) bytes.unshift(rest % 256);
  return Buffer.from([bytes.length, ...bytes]);
}

/** Escapes the bytes 0 and 255, and ends with 0 1. */
function sortable(value: string): Buffer {
  const bytes: number[] = [];
  for (const byte of Buffer.from(value, 'utf8')) {
    bytes.push(byte);
    if (byte === 0) bytes.push(255);
    if (byte === 255) bytes.push(0);
  }
  return Buffer.from([...bytes, 0, 1]);
}

/** One leading 1 bit per byte, then the sign and the number. A negative number has all bits inverted. */
function signed(value: number): Buffer {
  const magnitude = BigInt(value < 0 ? -value - 1 : value);
  let size = 1;
  while (size < 8 && magnitude >= 1n << BigInt(7 * size - 1)) size += 1;
  const bits = BigInt(8 * size);
  const ones = ((1n << BigInt(size)) - 1n) << (bits - BigInt(size));
  const positive = ones | magnitude;
  const number = value < 0 ? ((1n << bits) - 1n) ^ positive : positive;
  return Buffer.from(number.toString(16).padStart(2 * size, '0'), 'hex');
}

/** Part of a tensor: its row-major elements and its position in the whole tensor. */
interface Piece {
  readonly slice: Slice;
  readonly data: TypedArray;
}

/**
 * Copies the elements of `wanted` from pieces that together cover it.
 * @throws bad_model when the pieces do not cover it
 */
export function assemble(pieces: readonly Piece[], wanted: Slice, dtype: NumericDType): TypedArray {
  const count = countElements(shapeOf(wanted));
  const there = pieces.reduce((sum, { data }) => sum + data.length, 0);
  if (there < count) throw badModel(`its pieces have ${there} of ${count} elements`);
  const result = allocate(dtype, count);
  let copied = 0;
  for (const piece of pieces) copied += copyOverlap(piece, wanted, result);
  if (copied !== result.length) throw badModel(`its pieces have ${copied} of ${result.length} elements`);
  return result;
}

/** Returns the number of copied elements. */
function copyOverlap(piece: Piece, wanted: Slice, result: TypedArray): number {
  const overlap = wanted.map(({ start, length }, axis) => {
    const other = piece.slice[axis] ?? { start: 0, length: 0 };
    const from = Math.max(start, other.start);
    return { start: from, length: Math.min(start + length, other.start + other.length) - from };
  });
  const count = overlap.reduce((product, { length }) => product * Math.max(0, length), 1);
  if (count === 0) return 0;
  const row = overlap.at(-1)?.length ?? 1;
  const index = overlap.map(({ start }) => start);
  for (let done = 0; done < count; done += row) {
    const from = offsetIn(piece.slice, index);
    (result as Float64Array).set(
      piece.data.subarray(from, from + row) as Float64Array,
      offsetIn(wanted, index),
    );
    for (let axis = index.length - 2; axis >= 0; axis -= 1) {
      const { start, length } = overlap[axis] ?? { start: 0, length: 1 };
      index[axis] = (index[axis] ?? 0) + 1;
      if ((index[axis] ?? 0) < start + length) break;
      index[axis] = start;
    }
  }
  return count;
}

function offsetIn(slice: Slice, index: readonly number[]): number {
  let offset = 0;
  for (const [axis, { start, length }] of slice.entries())
    offset = offset * length + (index[axis] ?? 0) - start;
  return offset;
}
