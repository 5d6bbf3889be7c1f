/** Gives the values, nodes, functions and free sizes of a graph other names. Everything else stays as it lies in the file. */
import { readMessage } from '../../wire/binary.ts';
import { bytes, type Chunk, text } from '../../wire/chunk.ts';
import { textOf } from '../../wire/message.ts';
import { fieldsOf, type RawField, replaceFields } from '../rewrite/fields.ts';
import { PLAIN_NODE } from '../tables.ts';

export interface Names {
  readonly value: (name: string) => string;
  readonly node: (name: string) => string;
  /** Of an operator or a function. */
  readonly operator: (domain: string, name: string) => string;
  readonly size: (name: string) => string;
}

const same = (name: string) => name;
/** Where a list, a map and an optional value have the type of what is in them. */
const INNER_TYPE: Readonly<Record<number, number>> = { 4: 1, 5: 2, 9: 1 };

export class Renamer {
  readonly names: Names;

  constructor(names: Names) {
    this.names = names;
  }

  /** A body, which has names of its own and uses those around it. */
  graph(content: Uint8Array): Chunk {
    return replaceFields(content, (item) => this.graphField(item));
  }

  graphField({ number, content }: RawField): readonly Chunk[] | undefined {
    const { value } = this.names;
    switch (number) {
      case 1:
        return [bytes(1, this.#node(content))];
      case 5:
        return [bytes(5, renamed(content, 8, value))];
      case 11:
      case 12:
      case 13:
        return [bytes(number, this.port(content, value))];
      case 14:
        // What onnxruntime does not read of quantization.
        return [];
      case 15:
        return [
          bytes(
            15,
            replaceFields(
              content,
              inside(1, (tensor) => renamed(tensor, 8, value)),
            ),
          ),
        ];
      default:
        return undefined;
    }
  }

  /** An input, an output, or the type of a value. */
  port(content: Uint8Array, name: (name: string) => string): Chunk {
    return replaceFields(content, (item) => {
      if (item.number === 1) return [text(1, name(textIn(item)))];
      return item.number === 2 ? [bytes(2, this.#type(item.content))] : undefined;
    });
  }

  /** Its values have no names outside it. */
  function(content: Uint8Array): Chunk {
    const { operator } = this.names;
    const domain = domainIn(content, 10);
    const inner = new Renamer({ operator, value: same, node: same, size: same });
    return replaceFields(content, (item) => {
      if (item.number === 1) return [text(1, operator(domain, textIn(item)))];
      return item.number === 7 ? [bytes(7, inner.#node(item.content))] : undefined;
    });
  }

  #node(content: Uint8Array): Chunk {
    const { value, node, operator } = this.names;
    const domain = textOf(readMessage(content, PLAIN_NODE), 'domain');
    return replaceFields(content, (item) => {
      const { number } = item;
      if (number === 1 || number === 2) return [text(number, value(textIn(item)))];
      if (number === 3) return [text(3, node(textIn(item)))];
      if (number === 4) return [text(4, operator(domain, textIn(item)))];
      if (number !== 5) return undefined;
      const body = replaceFields(item.content, ({ number: at, content: graph }) =>
        at === 6 || at === 11 ? [bytes(at, this.graph(graph))] : undefined,
      );
      return [bytes(5, body)];
    });
  }

  #type(content: Uint8Array): Chunk {
    const size = inside(1, (dimension) => renamed(dimension, 2, this.names.size));
    const shape = inside(2, (sizes) => replaceFields(sizes, size));
    return replaceFields(content, ({ number, content: type }) => {
      if (number === 1 || number === 8) return [bytes(number, replaceFields(type, shape))];
      const at = INNER_TYPE[number];
      if (at === undefined) return undefined;
      return [
        bytes(
          number,
          replaceFields(
            type,
            inside(at, (inner) => this.#type(inner)),
          ),
        ),
      ];
    });
  }
}

function inside(at: number, change: (content: Uint8Array) => Chunk) {
  return ({ number, content }: RawField) => (number === at ? [bytes(at, change(content))] : undefined);
}

function renamed(content: Uint8Array, at: number, name: (name: string) => string): Chunk {
  return replaceFields(content, (item) => (item.number === at ? [text(at, name(textIn(item)))] : undefined));
}

function domainIn(content: Uint8Array, at: number): string {
  const item = fieldsOf(content).findLast(({ number }) => number === at);
  return item ? textIn(item) : '';
}

export function textIn({ content }: RawField): string {
  return Buffer.from(content).toString();
}
