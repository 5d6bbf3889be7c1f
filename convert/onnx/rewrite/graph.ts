/** The parts of an ONNX graph that rewrites look at: its nodes with few attributes, and its outputs. */
import { readMessage } from '../../wire/binary.ts';
import {
  byteStringsOf,
  bytesOf,
  messageOf,
  messagesOf,
  numberOf,
  plainNumbersOf,
  textOf,
  textsOf,
} from '../../wire/message.ts';
import type { Message, Table } from '../../wire/table.ts';

const text = (name: string) => ({ name, type: 'string' as const });
const ATTRIBUTE: Table = {
  1: text('name'),
  3: { name: 'int', type: 'int64' },
  4: { name: 'text', type: 'bytes' },
  8: { name: 'ints', type: 'int64', repeated: true },
  9: { name: 'texts', type: 'bytes', repeated: true },
};
const NODE: Table = {
  1: { name: 'inputs', type: 'string', repeated: true },
  2: { name: 'outputs', type: 'string', repeated: true },
  3: text('name'),
  4: text('operator'),
  5: { name: 'attributes', type: () => ATTRIBUTE, repeated: true },
};
/** A tensor's type as it lies in the file; of a sequence, the same of its items. */
const TYPE: Table = {
  1: { name: 'tensor', type: 'bytes' },
  4: { name: 'sequence', type: () => SEQUENCE },
};
const SEQUENCE: Table = { 1: { name: 'items', type: () => TYPE } };
const VALUE: Table = { 1: text('name'), 2: { name: 'type', type: () => TYPE } };

export interface RawNode {
  readonly name: string;
  readonly operator: string;
  readonly inputs: readonly string[];
  readonly outputs: readonly string[];
  text(attribute: string): string;
  number(attribute: string): number;
  texts(attribute: string): readonly string[];
  numbers(attribute: string): readonly number[];
}

export function nodeOf(content: Uint8Array): RawNode {
  const message = readMessage(content, NODE);
  const attributes = new Map(messagesOf(message, 'attributes').map((item) => [textOf(item, 'name'), item]));
  const of = <T>(name: string, read: (attribute: Message) => T, fallback: T) => {
    const attribute = attributes.get(name);
    return attribute ? read(attribute) : fallback;
  };
  return {
    name: textOf(message, 'name'),
    operator: textOf(message, 'operator'),
    inputs: textsOf(message, 'inputs'),
    outputs: textsOf(message, 'outputs'),
    text: (name) => of(name, (item) => utf8(bytesOf(item, 'text')), ''),
    number: (name) => of(name, (item) => numberOf(item, 'int'), 0),
    texts: (name) => of(name, (item) => byteStringsOf(item, 'texts').map(utf8), []),
    numbers: (name) => of(name, (item) => plainNumbersOf(item, 'ints'), []),
  };
}

function utf8(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString();
}

export interface RawOutput {
  readonly name: string;
  readonly isTensor: boolean;
  /** The type of the tensors of a sequence; undefined for other outputs. */
  readonly itemType: Uint8Array | undefined;
}

export function outputOf(content: Uint8Array): RawOutput {
  const message = readMessage(content, VALUE);
  const type = messageOf(message, 'type');
  const sequence = type && messageOf(type, 'sequence');
  const items = sequence && messageOf(sequence, 'items');
  return {
    name: textOf(message, 'name'),
    isTensor: !type || !sequence,
    itemType: items?.['tensor'] === undefined ? undefined : bytesOf(items, 'tensor'),
  };
}

/** Operators of the outermost graph, to see quickly whether anything is to be rewritten. */
export const OPERATORS: Table = {
  7: {
    name: 'graph',
    type: () => ({ 1: { name: 'nodes', type: () => ({ 4: text('operator') }), repeated: true } }),
  },
};
