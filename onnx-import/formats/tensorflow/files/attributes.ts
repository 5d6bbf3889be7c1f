/**
 * Decodes the attributes of a node. Attributes that begin with `_` are internal to TensorFlow's graph passes and are
 * skipped.
 */
import { badModel } from '../../../../lib/contract/errors.ts';
import {
  byteStringsOf,
  bytesOf,
  flagOf,
  has,
  mapOf,
  messageOf,
  messagesOf,
  numberOf,
  numbersOf,
  plainNumbersOf,
  textOf,
} from '../../../wire/message.ts';
import type { Message, MessageMap } from '../../../wire/table.ts';
import type { TfAttribute, TfAttributes, TfList } from '../graph.ts';
import { type DecodedSizeBudget, readShape, readTensor } from './tensor.ts';
import { tfType } from './types.ts';

/** Lists are strides and shapes, which are short; weights are tensors. */
const MAX_LIST = 1 << 20;

/** @throws bad_model for a tensor that does not match its shape, or of an unsupported type */
export function readAttributes(attributes: MessageMap, budget: DecodedSizeBudget): TfAttributes {
  const read: Record<string, TfAttribute> = Object.create(null) as Record<string, TfAttribute>;
  for (const [name, value] of attributes) {
    if (typeof name !== 'string' || name.startsWith('_')) continue;
    const message = value as Message;
    const attribute = budget.attributes.get(message) ?? readAttribute(message, budget);
    if (attribute === undefined) continue;
    budget.attributes.set(message, attribute);
    read[name] = attribute;
  }
  return read;
}

/** Returns undefined for an empty attribute. */
function readAttribute(value: Message, budget: DecodedSizeBudget): TfAttribute | undefined {
  if (has(value, 's')) {
    // A copy: a view would keep the whole file in memory.
    const bytes = bytesOf(value, 's').slice();
    return { kind: 'string', value: toText(bytes), bytes };
  }
  if (has(value, 'i')) return { kind: 'int', value: numberOf(value, 'i') };
  if (has(value, 'f')) return { kind: 'float', value: numberOf(value, 'f') };
  if (has(value, 'b')) return { kind: 'bool', value: flagOf(value, 'b') };
  if (has(value, 'type')) return { kind: 'type', value: tfType(numberOf(value, 'type')) };
  if (has(value, 'shape')) return { kind: 'shape', value: readShape(messageOf(value, 'shape')) };
  const tensor = messageOf(value, 'tensor');
  if (tensor !== undefined) return { kind: 'tensor', value: readTensor(tensor, budget) };
  const func = messageOf(value, 'func');
  if (func !== undefined) return { kind: 'func', ...readFunction(func, budget) };
  const list = messageOf(value, 'list');
  return list === undefined ? undefined : readList(list, budget);
}

function readList(list: Message, budget: DecodedSizeBudget): TfList {
  for (const name of ['i', 'f', 'b', 'type']) {
    const { length } = numbersOf(list, name) ?? [];
    if (length <= MAX_LIST) continue;
    throw badModel(`an attribute is a list of ${length} numbers, at most ${MAX_LIST} are read`);
  }
  return {
    kind: 'list',
    ints: plainNumbersOf(list, 'i'),
    floats: plainNumbersOf(list, 'f'),
    bools: plainNumbersOf(list, 'b').map((flag) => flag !== 0),
    strings: byteStringsOf(list, 's').map(toText),
    types: plainNumbersOf(list, 'type').map(tfType),
    shapes: messagesOf(list, 'shape').map(readShape),
    tensors: messagesOf(list, 'tensor').map((tensor) => readTensor(tensor, budget)),
    functions: messagesOf(list, 'func').map((func) => readFunction(func, budget)),
  };
}

function readFunction(func: Message, budget: DecodedSizeBudget): { name: string; attributes: TfAttributes } {
  return { name: textOf(func, 'name'), attributes: readAttributes(mapOf(func, 'attr'), budget) };
}

function toText(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString('utf8');
}
