/**
 * Tensors of a pickle: strided views of storages, which may be shared. Contiguous float32 and integers stay views of
 * the file; half precision becomes float32, and other strides are copied into row-major order.
 */
import { badModel } from '../../../../lib/contract/errors.ts';
import {
  allocate,
  elementCount,
  type NumericDType,
  type Tensor,
  type TypedArray,
  viewBytes,
} from '../../../../lib/contract/tensor.ts';
import {
  type Pickled,
  PickledCall,
  PickledGlobal,
  PickledPersistent,
  PickledTuple,
} from '../../../files/pickled.ts';
import { widenHalves } from '../../../graph/halves.ts';
import { withValidSizes } from '../../problems.ts';

const MAX_ELEMENTS = 2 ** 31 - 1;
const MAX_RANK = 32;

export interface StorageType {
  readonly dtype: NumericDType;
  /** Bytes per element in the file. */
  readonly size: number;
  readonly half?: 'half' | 'bfloat16';
}

export const STORAGES: Readonly<Record<string, StorageType>> = {
  'torch.FloatStorage': { dtype: 'float32', size: 4 },
  'torch.DoubleStorage': { dtype: 'float64', size: 8 },
  'torch.HalfStorage': { dtype: 'float32', size: 2, half: 'half' },
  'torch.BFloat16Storage': { dtype: 'float32', size: 2, half: 'bfloat16' },
  'torch.LongStorage': { dtype: 'int64', size: 8 },
  'torch.IntStorage': { dtype: 'int32', size: 4 },
  'torch.ShortStorage': { dtype: 'int16', size: 2 },
  'torch.CharStorage': { dtype: 'int8', size: 1 },
  'torch.ByteStorage': { dtype: 'uint8', size: 1 },
  'torch.BoolStorage': { dtype: 'bool', size: 1 },
  'torch.QInt8Storage': { dtype: 'int8', size: 1 },
  'torch.QUInt8Storage': { dtype: 'uint8', size: 1 },
};

/** The bytes of a storage by its key. */
export type Storages = (key: string) => Uint8Array;

const REBUILD = new Set(['torch._utils._rebuild_tensor_v2', 'torch._utils._rebuild_tensor']);
const PARAMETER = new Set([
  'torch._utils._rebuild_parameter',
  'torch._utils._rebuild_parameter_with_state',
  'torch.nn.parameter.Parameter',
]);

/** Whether the call makes a tensor, also of a kind that is not read. */
export function isTensor(value: PickledCall): boolean {
  return value.name.startsWith('torch._utils._rebuild_') || PARAMETER.has(value.name);
}

/** @throws bad_model for sparse, quantized or broken tensors */
export function readTensor(call: PickledCall, storages: Storages): Tensor {
  if (PARAMETER.has(call.name)) {
    const [inner] = call.operands;
    if (!(inner instanceof PickledCall)) throw badModel('a parameter without a tensor');
    return readTensor(inner, storages);
  }
  if (!REBUILD.has(call.name)) throw badModel(`a tensor made by ${call.name} is not supported`);
  return readStored(call, storages);
}

/** Of a call whose first arguments are storage, offset, sizes and strides. */
export function readStored(call: PickledCall, storages: Storages): Tensor {
  const [storage, offset, sizes, strides] = call.operands;
  const shape = numbers(sizes, 'size');
  const steps = numbers(strides, 'stride');
  if (typeof offset !== 'number' || shape.length !== steps.length || shape.length > MAX_RANK)
    throw badModel('a tensor with a broken offset, size or stride');
  const { type, bytes } = storageOf(storage, storages);
  return layTensor(type, bytes, { shape, steps, offset });
}

/** Where the elements of a tensor lie in its storage. */
interface Layout {
  readonly shape: readonly number[];
  readonly steps: readonly number[];
  readonly offset: number;
}

/** @throws bad_model for what lies outside of the storage */
export function layTensor(type: StorageType, bytes: Uint8Array, { shape, steps, offset }: Layout): Tensor {
  const count = withValidSizes(() => elementCount(shape, MAX_ELEMENTS));
  const last = offset + shape.reduce((at, dim, i) => at + Math.max(0, dim - 1) * (steps[i] as number), 0);
  if (offset < 0 || steps.some((step) => step < 0) || (count > 0 && last >= bytes.length / type.size))
    throw badModel(`a tensor of [${shape.join(',')}] lies outside of its storage`);
  const isRowMajor = rowMajor(shape, steps);
  if (isRowMajor) {
    const own = bytes.subarray(offset * type.size, (offset + count) * type.size);
    return { dtype: type.dtype, shape, data: elements(type, own) };
  }
  // A stride of 0 repeats elements: a small file must not fill the memory.
  if (count > Math.max(1024 * 1024, 4 * (bytes.length / type.size)))
    throw badModel(`a tensor of [${shape.join(',')}] repeats its storage too often`);
  const all = elements(type, bytes);
  return { dtype: type.dtype, shape, data: strided(type.dtype, all, shape, steps, offset, count) };
}

function storageOf(value: Pickled | undefined, storages: Storages) {
  const id = value instanceof PickledPersistent && value.id instanceof PickledTuple ? value.id.items : [];
  const [word, kind, key, , count] = id;
  const name = kind instanceof PickledGlobal ? kind.name : '';
  if (word !== 'storage' || typeof key !== 'string' || typeof count !== 'number')
    throw badModel('a tensor without a storage');
  const type = Object.hasOwn(STORAGES, name) ? STORAGES[name] : undefined;
  if (!type) throw badModel(`a storage of type ${name || 'unknown'} is not supported`);
  const bytes = storages(key);
  if (bytes.length < count * type.size) throw badModel(`storage ${key} has ${bytes.length} bytes, too few`);
  return { type, bytes: bytes.subarray(0, count * type.size) };
}

function numbers(value: Pickled | undefined, what: string): number[] {
  const items = value instanceof PickledTuple ? value.items : Array.isArray(value) ? value : undefined;
  if (!items?.every((item) => typeof item === 'number' && Number.isSafeInteger(item) && item >= 0))
    throw badModel(`a tensor with a broken ${what}`);
  return items as number[];
}

function rowMajor(shape: readonly number[], steps: readonly number[]): boolean {
  let expected = 1;
  for (let i = shape.length - 1; i >= 0; i--) {
    if (shape[i] !== 1 && steps[i] !== expected) return shape.includes(0);
    expected *= shape[i] as number;
  }
  return true;
}

function elements(type: StorageType, bytes: Uint8Array): TypedArray {
  if (!type.half) return viewBytes(type.dtype, bytes);
  return widenHalves(viewBytes('uint16', bytes) as Uint16Array, type.half);
}

function strided(
  dtype: NumericDType,
  all: TypedArray,
  shape: readonly number[],
  steps: readonly number[],
  offset: number,
  count: number,
): TypedArray {
  const data = allocate(dtype, count) as unknown as (number | bigint)[];
  const source = all as unknown as (number | bigint)[];
  const index = shape.map(() => 0);
  let at = offset;
  for (let i = 0; i < count; i++) {
    data[i] = source[at] as number | bigint;
    for (let axis = shape.length - 1; axis >= 0; axis--) {
      at += steps[axis] as number;
      index[axis] = (index[axis] as number) + 1;
      if ((index[axis] as number) < (shape[axis] as number)) break;
      at -= (shape[axis] as number) * (steps[axis] as number);
      index[axis] = 0;
    }
  }
  return data as unknown as TypedArray;
}
