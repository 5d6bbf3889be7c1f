/** The parts of an ONNX graph that rewrites look at: its nodes with few attributes, and its outputs. */
import { readMessage } from '../../wire/binary.ts';
import {
  bytesOf,
  messageOf,
  messagesOf,
  numberOf,
  plainNumbersOf,
  textOf,
  textsOf,
  utf8TextsOf,
} from '../../wire/message.ts';
import type { Message, Table } from '../../wire/table.ts';
import { skimMessage } from '../skim.ts';
import { ATTRIBUTE, PLAIN_NODE } from '../tables.ts';
import { fieldsOf } from './fields.ts';

const text = (name: string) => ({ name, type: 'string' as const });
/** Field 1, with a length. */
const NAME_TAG = 10;
const NAMED: Table = { 1: text('name') };
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
  readonly domain: string;
  readonly inputs: readonly string[];
  readonly outputs: readonly string[];
  text(attribute: string): string;
  number(attribute: string): number;
  texts(attribute: string): readonly string[];
  numbers(attribute: string): readonly number[];
  floats(attribute: string): readonly number[];
  attribute(name: string): Message | undefined;
}

export function nodeOf(content: Uint8Array): RawNode {
  const message = readMessage(content, PLAIN_NODE);
  // Read when they are asked for: those of trees are as large as the model.
  const places = new Map<string, Uint8Array>();
  const known = new Map<string, Message>();
  const attribute = (name: string) => {
    if (places.size === 0) {
      for (const field of fieldsOf(content)) {
        if (field.number === 5) places.set(attributeName(field.content), field.content);
      }
    }
    const place = places.get(name);
    const read = known.get(name) ?? (place && readMessage(place, ATTRIBUTE));
    if (read) known.set(name, read);
    return read;
  };
  const of = <T>(name: string, read: (attribute: Message) => T, fallback: T) => {
    const found = attribute(name);
    return found ? read(found) : fallback;
  };
  return {
    name: textOf(message, 'name'),
    operator: textOf(message, 'operator'),
    domain: textOf(message, 'domain'),
    inputs: textsOf(message, 'inputs'),
    outputs: textsOf(message, 'outputs'),
    text: (name) => of(name, (item) => Buffer.from(bytesOf(item, 'text')).toString(), ''),
    number: (name) => of(name, (item) => numberOf(item, 'int'), 0),
    texts: (name) => of(name, (item) => utf8TextsOf(item, 'texts'), []),
    numbers: (name) => of(name, (item) => plainNumbersOf(item, 'ints'), []),
    floats: (name) => of(name, (item) => plainNumbersOf(item, 'floats'), []),
    attribute,
  };
}

/** The name is the first field, before lists as long as the model. */
export function attributeName(content: Uint8Array): string {
  const [tag, length = 0] = content;
  if (tag === NAME_TAG && length < 0x80 && length + 2 <= content.length) {
    return Buffer.from(content.subarray(2, 2 + length)).toString();
  }
  return textOf(readMessage(content, NAMED), 'name');
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

/** The operators of a file, which are read without its weights. */
const BODY: Table = {
  6: { name: 'graph', type: () => GRAPH },
  11: { name: 'graphs', type: () => GRAPH, repeated: true },
};
const NODE: Table = {
  4: text('operator'),
  5: { name: 'attributes', type: () => BODY, repeated: true },
  7: text('domain'),
};
const GRAPH: Table = { 1: { name: 'nodes', type: () => NODE, repeated: true } };
const OPERATORS: Table = {
  7: { name: 'graph', type: () => GRAPH },
  25: {
    name: 'functions',
    type: () => ({ 7: { name: 'nodes', type: () => NODE, repeated: true } }),
    repeated: true,
  },
};

/**
 * Whether a node of a file passes, in its graph, a body or a function.
 * @param passes by operator and domain
 * @throws bad_model when the file cannot be read
 */
export function hasNode(path: string, passes: (operator: string, domain: string) => boolean): boolean {
  const isIn = (graph: Message): boolean =>
    messagesOf(graph, 'nodes').some(
      (node) =>
        passes(textOf(node, 'operator'), textOf(node, 'domain')) ||
        messagesOf(node, 'attributes').some((attribute) => {
          const body = messageOf(attribute, 'graph');
          return [...(body ? [body] : []), ...messagesOf(attribute, 'graphs')].some(isIn);
        }),
    );
  const model = readMessage(skimMessage(path, OPERATORS), OPERATORS);
  const graph = messageOf(model, 'graph');
  return [...(graph ? [graph] : []), ...messagesOf(model, 'functions')].some(isIn);
}
