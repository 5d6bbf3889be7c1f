/**
 * The Open Inference Protocol's datatype names, and its binary tensors. A tensor is a view of its bytes if they are
 * aligned, else a copy.
 */

import { badInput, ServingError } from '../../contract/errors.ts';
import { LIMITS, overLimit } from '../../contract/limits.ts';
import { present } from '../../contract/present.ts';
import {
  bytesPerElement,
  type DType,
  elementCount,
  isNumericDType,
  type Tensor,
  viewBytes,
} from '../../contract/tensor.ts';
import { readTexts } from './texts.ts';

/** The protocol's name of each dtype. */
export const DATATYPES: Readonly<Record<DType, string>> = {
  bool: 'BOOL',
  uint8: 'UINT8',
  uint16: 'UINT16',
  uint32: 'UINT32',
  uint64: 'UINT64',
  int8: 'INT8',
  int16: 'INT16',
  int32: 'INT32',
  int64: 'INT64',
  float16: 'FP16',
  float32: 'FP32',
  float64: 'FP64',
  string: 'BYTES',
};
/** onnxruntime for Node has no tensors of it. float32 holds each of its numbers. */
export const BF16 = 'BF16';

/** The dtype in which a tensor of each datatype is held. */
export const DTYPES: ReadonlyMap<string, DType> = new Map([
  ...Object.entries(DATATYPES).map(([dtype, name]) => [name, dtype as DType] as const),
  [BF16, 'float32'],
]);

/** Reads the bytes of one tensor. @throws bad_input, too_large, naming `where` */
export function binaryTensor(
  where: string,
  datatype: string,
  shape: readonly number[],
  bytes: Uint8Array,
): Tensor {
  try {
    const dtype = present(DTYPES.get(datatype), `dtype of ${datatype}`);
    const count = elementCount(shape, LIMITS.tensorElements);
    if (!isNumericDType(dtype)) return { dtype, shape, data: readTexts(bytes, assertTexts(count)) };
    const expected = count * (datatype === BF16 ? 2 : bytesPerElement(dtype));
    if (expected !== bytes.byteLength) {
      throw badInput(
        `${datatype} [${shape.join(',')}] takes ${expected} bytes, and ${bytes.byteLength} came`,
      );
    }
    if (datatype === BF16) return { dtype, shape, data: widened(bytes, count) };
    if (dtype === 'bool') assertFlags(bytes);
    return { dtype, shape, data: viewBytes(dtype, bytes) };
  } catch (error) {
    const { code, message } = ServingError.from(error);
    throw new ServingError(code, `${where}: ${message}`, { cause: error });
  }
}

/** @throws too_large */
function assertTexts(count: number): number {
  if (count > LIMITS.texts) throw overLimit('texts', `${count} BYTES elements are`);
  return count;
}

/** bfloat16 is the upper half of a float32. */
function widened(bytes: Uint8Array, count: number): Float32Array {
  const bits = new Uint32Array(count);
  for (let i = 0, at = 0; i < count; i++, at += 2) {
    bits[i] = ((bytes[at] as number) << 16) | ((bytes[at + 1] as number) << 24);
  }
  return new Float32Array(bits.buffer);
}

/** onnxruntime accepts any byte as a bool, and kernels disagree on what 2 means. */
function assertFlags(bytes: Uint8Array): void {
  for (const byte of bytes) if (byte > 1) throw badInput(`expected bytes of 0 and 1 (BOOL), got ${byte}`);
}
