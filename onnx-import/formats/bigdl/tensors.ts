/**
 * BigDL's tensors: views (sizes, strides, an offset counted from 1) of storages that several tensors may share. The
 * root's attribute `global_storage` holds the storages by id; old files hold each where it is first used, and a
 * separate file of weights holds them without the tensors.
 */
import { createHash } from 'node:crypto';
import { badModel } from '../../../lib/contract/errors.ts';
import { elementCount, type TypedArray } from '../../../lib/contract/tensor.ts';
import { flagOf, has, mapOf, messageOf, numberOf, numbersOf } from '../../wire/message.ts';
import type { Message } from '../../wire/table.ts';

/** Limits the elements of one tensor; the largest embedding tables we know have a tenth of that. */
const MAX_ELEMENTS = 2 ** 29;
const MAX_RANK = 32;
const MAGIC = 3_721;
const DIGEST_BYTES = 16;
const QUANTIZED = 1;

export interface Weights {
  readonly shape: readonly number[];
  readonly data: Float32Array;
}

type Numbers = Exclude<TypedArray, BigInt64Array | BigUint64Array>;

export class Storages {
  readonly #byId = new Map<number, Message>();
  readonly #external: ReadonlyMap<number, Numbers> | undefined;

  /** @param external the storages of a separate file of weights */
  constructor(root: Message, external?: ReadonlyMap<number, Numbers>) {
    this.#external = external;
    const named = attributeOf(root, 'global_storage');
    const list = named && messageOf(named, 'named');
    for (const value of list ? mapOf(list, 'attr').values() : []) {
      const tensor = messageOf(value as Message, 'tensor');
      if (tensor) this.#keep(tensor);
    }
  }

  #keep(tensor: Message): Message | undefined {
    const storage = messageOf(tensor, 'storage');
    if (!storage) return undefined;
    const id = numberOf(storage, 'id');
    const isFull = ['float_data', 'double_data', 'int_data'].some((name) => has(storage, name));
    if (isFull && !this.#byId.has(id)) this.#byId.set(id, storage);
    return storage;
  }

  /** The tensor's numbers in order; undefined for a tensor that has none. @throws bad_model */
  read(tensor: Message): Weights | undefined {
    const storage = this.#keep(tensor);
    if (!storage || numberOf(storage, 'id') === -1) return undefined;
    if (numberOf(tensor, 'tensorType') === QUANTIZED)
      throw badModel('a quantized tensor is not expected here');
    const source = this.#numbers(numberOf(storage, 'id'));
    const shape = listOf(tensor, 'size');
    if (shape.length === 0 && !flagOf(tensor, 'isScalar')) return undefined;
    return { shape, data: strided(source, shape, listOf(tensor, 'stride'), numberOf(tensor, 'offset') - 1) };
  }

  #numbers(id: number): Numbers {
    const external = this.#external?.get(id);
    if (external) return external;
    const storage = this.#byId.get(id);
    for (const name of ['float_data', 'double_data', 'int_data'])
      if (storage && has(storage, name)) return numbersOf(storage, name) as Numbers;
    throw badModel(
      `its weights are not in the file (storage ${id}); the file of weights belongs beside the model`,
    );
  }
}

/** An attribute of a module that is not read as a module yet. */
export function attributeOf(module: Message, name: string): Message | undefined {
  return mapOf(module, 'attr').get(name) as Message | undefined;
}

function listOf(message: Message, name: string): number[] {
  const values = numbersOf(message, name) as Int32Array | undefined;
  if (values && values.length > MAX_RANK) throw badModel(`a tensor has ${values.length} dimensions`);
  return Array.from(values ?? []);
}

/** A view when the elements are floats that lie in order. */
function strided(source: Numbers, shape: number[], strides: number[], start: number): Float32Array {
  if (shape.some((size) => size < 1) || strides.length !== shape.length || strides.some((step) => step < 0))
    throw badModel(`a tensor of [${shape.join(',')}] has strides [${strides.join(',')}]`);
  const count = elementCount(shape, MAX_ELEMENTS);
  const last = shape.reduce((at, size, axis) => at + (size - 1) * (strides[axis] as number), start);
  if (start < 0 || last >= source.length)
    throw badModel(`a tensor of [${shape.join(',')}] is outside of its ${source.length} numbers`);
  let inner = 1;
  const inOrder = shape.toReversed().every((size, i) => {
    const fits = size === 1 || strides.at(-1 - i) === inner;
    inner *= size;
    return fits;
  });
  if (inOrder && source instanceof Float32Array) return source.subarray(start, start + count);
  const result = new Float32Array(count);
  const at = shape.map(() => 0);
  let from = start;
  for (let i = 0; i < count; i++) {
    result[i] = source[from] as number;
    for (let axis = shape.length - 1; axis >= 0; axis--) {
      const [size, step] = [shape[axis] as number, strides[axis] as number];
      from += step;
      if (++(at[axis] as number) < size) break;
      at[axis] = 0;
      from -= size * step;
    }
  }
  return result;
}

/** The types of a storage in a file of weights, and the bytes of each number. Texts and byte strings are not weights. */
const FLOAT = 0;
const DOUBLE = 1;
const INT = 5;
const SIZES: Readonly<Record<number, number>> = { [FLOAT]: 4, [DOUBLE]: 8, [INT]: 4 };

/**
 * Reads a separate file of weights: a magic number and a count, storages (id, type, length, numbers), a digest; all
 * big-endian.
 * @throws bad_model naming `file`
 */
export function readWeightFile(bytes: Uint8Array, file: string): ReadonlyMap<number, Numbers> {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  let at = 0;
  const int = () => {
    if (at + 4 > bytes.length) throw badModel(`${file}: is cut off at byte ${at}`);
    at += 4;
    return view.getInt32(at - 4);
  };
  const magic = int();
  if (magic !== MAGIC) throw badModel(`${file}: is no file of BigDL weights (it begins with ${magic})`);
  const storages = new Map<number, Numbers>();
  for (let left = int(); left > 0; left--) {
    const [id, type, length] = [int(), int(), int()];
    const size = SIZES[type];
    if (size === undefined || length < 0 || at + length * size > bytes.length)
      throw badModel(`${file}: a storage of ${length} numbers of type ${type} at byte ${at} does not fit`);
    storages.set(id, numbersFrom(view, at, type, length));
    at += length * size;
  }
  const end = at;
  const length = int();
  const digest = createHash('md5').update(bytes.subarray(0, end)).digest();
  if (length !== DIGEST_BYTES || !digest.equals(bytes.subarray(at, at + length)))
    throw badModel(`${file}: its digest does not match; the file is damaged, copy it again`);
  return storages;
}

function numbersFrom(view: DataView, at: number, type: number, length: number): Numbers {
  const numbers = type === DOUBLE ? new Float64Array(length) : new Float32Array(length);
  const size = SIZES[type] as number;
  const read = type === DOUBLE ? 'getFloat64' : type === INT ? 'getInt32' : 'getFloat32';
  for (let i = 0; i < length; i++) numbers[i] = view[read](at + size * i);
  return numbers;
}
