/**
 * Reads constants from the .bin file as views where they lie aligned. Halves become float32, and whole numbers of
 * fewer than 8 bits become bytes of the same value.
 */
import { badModel } from '../../lib/contract/errors.ts';
import {
  allocate,
  bytesPerElement,
  type DType,
  elementCount,
  type NumericDType,
  type Tensor,
  type TypedArray,
} from '../../lib/contract/tensor.ts';
import { widenHalves } from '../graph/halves.ts';
import type { Place } from './net.ts';

/** The dtype of a tensor with each element type. Those of version 7 and older are written in capitals. */
const DTYPES: ReadonlyMap<string, DType> = new Map(
  Object.entries({
    f16: 'float32',
    bf16: 'float32',
    f32: 'float32',
    f64: 'float64',
    i4: 'int8',
    u4: 'uint8',
    i8: 'int8',
    u8: 'uint8',
    i16: 'int16',
    u16: 'uint16',
    i32: 'int32',
    u32: 'uint32',
    i64: 'int64',
    u64: 'uint64',
    boolean: 'bool',
    string: 'string',
  } as const),
);

const PACKED: ReadonlySet<string> = new Set(['i4', 'u4']);

/** `FP16` and `I32`, as ports and old files write it, become `f16` and `i32`. */
export function elementType(text: string): string {
  return text
    .toLowerCase()
    .replace(/^fp/, 'f')
    .replace(/^bool$/, 'boolean');
}

/** @throws bad_model for a type that no tensor here can have */
export function dtypeNamed(text: string): DType {
  const dtype = DTYPES.get(elementType(text));
  if (dtype) return dtype;
  throw badModel(`numbers of type "${text.slice(0, 50)}" are not supported`);
}

export type Bytes = { readonly name: string; readonly bytes: Uint8Array } | undefined;

/**
 * @param shape undefined: one axis with all elements
 * @throws bad_model when the place is outside of the file or does not fit the shape
 */
export function readConstant(file: Bytes, place: Place, type: string, wanted?: readonly number[]): Tensor {
  const element = elementType(type);
  const dtype = dtypeNamed(element);
  if (dtype === 'string') throw badModel('constant texts are not supported');
  if (!file) throw badModel('needs constants, and there is no .bin file beside the .xml');
  const { offset, bytes } = place;
  if (offset + bytes > file.bytes.length)
    throw badModel(
      `needs bytes ${offset} to ${offset + bytes} of ${file.name}, which has ${file.bytes.length}`,
    );
  const isPacked = PACKED.has(element);
  const bits = isPacked ? 4 : isHalf(element) ? 16 : bytesPerElement(dtype) * 8;
  const shape = wanted ?? [Math.floor((bytes * 8) / bits)];
  const count = elementCount(shape);
  const needed = Math.ceil((count * bits) / 8);
  if (needed !== bytes)
    throw badModel(`a constant of ${element} [${shape.join(',')}] needs ${needed} bytes, it has ${bytes}`);
  const raw = file.bytes.subarray(offset, offset + bytes);
  return { dtype, shape, data: isPacked ? unpacked(raw, element, count) : numbers(raw, element, dtype) };
}

function isHalf(element: string): boolean {
  return element === 'f16' || element === 'bf16';
}

function numbers(raw: Uint8Array, element: string, dtype: NumericDType): TypedArray {
  const size = isHalf(element) ? 2 : bytesPerElement(dtype);
  // A Buffer's own slice would be a view again.
  const aligned = raw.byteOffset % size === 0 ? raw : new Uint8Array(raw);
  const { buffer, byteOffset, byteLength } = aligned;
  const count = byteLength / size;
  if (isHalf(element))
    return widenHalves(new Uint16Array(buffer, byteOffset, count), element === 'f16' ? 'half' : 'bfloat16');
  const made = allocate(dtype, 0);
  const Make = made.constructor as new (buffer: ArrayBufferLike, at: number, length: number) => typeof made;
  return new Make(buffer, byteOffset, count);
}

/** Two numbers in a byte, the lower half first. */
function unpacked(raw: Uint8Array, element: string, count: number): TypedArray {
  const data = allocate(element === 'i4' ? 'int8' : 'uint8', count);
  for (let i = 0; i < count; i++) {
    const value = ((raw[i >> 1] as number) >> (4 * (i & 1))) & 15;
    data[i] = element === 'i4' && value > 7 ? value - 16 : value;
  }
  return data;
}
