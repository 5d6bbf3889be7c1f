/**
 * Decodes a TensorProto into its own memory. A few bytes may claim a billion elements ("one value, repeated"), so
 * decoding has a budget for the whole model. Weights are copied: three in four are misaligned, and one view would
 * keep the whole file in memory.
 */
import { badModel, ServingError } from '../../../../lib/contract/errors.ts';
import {
  allocate,
  bytesPerElement,
  type Tensor,
  type TypedArray,
  viewBytes,
} from '../../../../lib/contract/tensor.ts';
import { widenHalves } from '../../../graph/halves.ts';
import {
  byteStringsOf,
  bytesOf,
  flagOf,
  messageOf,
  messagesOf,
  numberOf,
  numbersOf,
} from '../../../wire/message.ts';
import type { Message, NumberArray } from '../../../wire/table.ts';
import type { TfAttribute, TfShape } from '../graph.ts';
import { type Storage, storageOf, typeName } from './types.ts';

/** TensorFlow's limit. */
const MAX_RANK = 254;
const MAX_EXPANDED_ELEMENTS = 1 << 26;
const MAX_ELEMENTS = 2 ** 40;

/** The budget for elements that are not in the file, and a cache of what is decoded already. */
export class DecodedSizeBudget {
  /** A function that is inlined a thousand times has one copy of its weights. */
  readonly known = new WeakMap<Message, Tensor>();
  readonly attributes = new WeakMap<Message, TfAttribute>();
  private left = MAX_EXPANDED_ELEMENTS;

  take(elements: number): void {
    this.left -= elements;
    if (this.left >= 0) return;
    throw badModel(
      `repeated values expand to more than ${MAX_EXPANDED_ELEMENTS} elements in the whole model`,
    );
  }
}

/** Returns undefined for an unknown rank; -1 is an unknown size. */
export function readShape(message: Message | undefined): TfShape {
  if (message === undefined) return [];
  if (flagOf(message, 'unknown_rank')) return undefined;
  const dims = messagesOf(message, 'dim');
  if (dims.length > MAX_RANK) {
    throw badModel(`a shape has ${dims.length} dimensions, at most ${MAX_RANK} are possible`);
  }
  return dims.map((dim) => {
    const size = numberOf(dim, 'size');
    if (!Number.isSafeInteger(size) || size < -1) {
      throw badModel(`a dimension must be a whole number >= -1, got ${size}`);
    }
    return size;
  });
}

/** @throws bad_model when the rank or a size is unknown */
export function readFixedShape(message: Message | undefined): readonly number[] {
  const shape = readShape(message);
  if (shape === undefined || shape.includes(-1)) throw badModel('a tensor has a shape that is not known');
  return shape;
}

export function countElements(shape: readonly number[]): number {
  let count = 1;
  for (const dim of shape) {
    count *= dim;
    if (count > MAX_ELEMENTS) {
      throw badModel(`shape [${shape.join(',')}] is over the limit of ${MAX_ELEMENTS} elements`);
    }
  }
  return count;
}

/** @throws bad_model when shape, type and content do not match */
export function readTensor(message: Message, budget: DecodedSizeBudget): Tensor {
  const known = budget.known.get(message);
  if (known !== undefined) return known;
  const tensor = decodeTensor(message, budget);
  budget.known.set(message, tensor);
  return tensor;
}

function decodeTensor(message: Message, budget: DecodedSizeBudget): Tensor {
  const number = numberOf(message, 'dtype');
  const storage = storageOf(number);
  const shape = readFixedShape(messageOf(message, 'tensor_shape'));
  const count = countElements(shape);
  const content = bytesOf(message, 'tensor_content');
  if (storage.dtype === 'string') {
    const texts = content.length > 0 ? splitTexts(content, count) : byteStringsOf(message, 'string_val');
    return { dtype: 'string', shape, data: expandTexts(texts, count, budget) };
  }
  if (content.length > 0)
    return { dtype: storage.dtype, shape, data: decodeContent(content, storage, count, true) };
  const values = numbersOf(message, VALUE_FIELDS[typeName(number)] ?? 'int_val');
  return { dtype: storage.dtype, shape, data: expandNumbers(values, storage, count, budget) };
}

/** Reads raw little-endian elements. The result is a view unless `copy` is set or the elements are 16-bit floats. */
export function decodeContent(
  content: Uint8Array,
  storage: Storage,
  count: number,
  copy = false,
): TypedArray {
  const { dtype, half } = storage;
  if (dtype === 'string') throw new ServingError('internal', 'texts have no raw elements');
  const size = half === undefined ? bytesPerElement(dtype) : 2;
  if (content.length !== count * size) {
    throw badModel(`a tensor of ${count} elements of ${size} bytes has ${content.length} bytes`);
  }
  if (half === undefined) return viewBytes(dtype, copy ? content.slice() : content);
  return widenHalves(viewBytes('uint16', content) as Uint16Array, half);
}

/** Splits the lengths of all texts as varints, `gap` bytes, and the texts. */
export function splitTexts(content: Uint8Array, count: number, gap = 0): Uint8Array[] {
  if (count > content.length) throw badModel(`${content.length} bytes hold no ${count} texts`);
  const lengths: number[] = [];
  let offset = 0;
  for (let i = 0; i < count; i += 1) {
    let length = 0;
    let scale = 1;
    for (;;) {
      const byte = content[offset];
      offset += 1;
      if (byte === undefined || scale > 2 ** 42) throw badModel('the lengths of texts are cut off');
      length += (byte & 0x7f) * scale;
      scale *= 128;
      if (byte < 0x80) break;
    }
    lengths.push(length);
  }
  offset += gap;
  return lengths.map((length) => {
    if (length > content.length - offset) throw badModel('a text is cut off');
    offset += length;
    return content.subarray(offset - length, offset);
  });
}

function expandTexts(texts: readonly Uint8Array[], count: number, budget: DecodedSizeBudget): string[] {
  checkCount(texts.length, count);
  if (count > texts.length) budget.take(count - texts.length);
  const strings = texts.map((text) =>
    Buffer.from(text.buffer, text.byteOffset, text.length).toString('utf8'),
  );
  const last = strings.at(-1) ?? '';
  while (strings.length < count) strings.push(last);
  return strings;
}

/** The field with the values of a tensor, by type; `int_val` for the others. */
const VALUE_FIELDS: Readonly<Record<string, string>> = {
  float: 'float_val',
  double: 'double_val',
  int64: 'int64_val',
  uint64: 'uint64_val',
  uint32: 'uint32_val',
  bool: 'bool_val',
  half: 'half_val',
  bfloat16: 'half_val',
};

/** With fewer values than elements the last one repeats; without values all elements are zero. */
function expandNumbers(
  values: NumberArray | undefined,
  storage: Storage,
  count: number,
  budget: DecodedSizeBudget,
): TypedArray {
  const { dtype, half } = storage;
  if (dtype === 'string') throw new ServingError('internal', 'texts are no numbers');
  const given = values?.length ?? 0;
  checkCount(given, count);
  const native = half === undefined ? dtype : 'uint16';
  const isWhole = values !== undefined && given === count && half === undefined;
  if (isWhole && values.constructor === allocate(dtype, 0).constructor) return values.slice();
  if (count > given) budget.take(count - given);
  const array = allocate(native, count);
  if (values !== undefined) {
    // The field's type is as wide or wider: int_val also holds int8, half_val the bits of a half.
    (array as Int32Array).set(values as Int32Array);
    if (given < count && given > 0) (array as Int32Array).fill(array[given - 1] as number, given);
  }
  return half === undefined ? array : widenHalves(array as Uint16Array, half);
}

function checkCount(given: number, count: number): void {
  if (given <= count) return;
  throw badModel(`a tensor of ${count} elements has ${given} values`);
}
