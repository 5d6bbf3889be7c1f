/**
 * Reads protobuf text (prototxt, pbtxt) by the same tables as the binary reader. In text a `1` may be a bool, an int,
 * a float or an enum, and only the table decides.
 */
import { GrowingNumbers, isNumberType, type NumberType } from './numbers.ts';
import { list, newMessage, type OpenMessage, putEntry } from './open.ts';
import type { Field, Message, NumberArray, Table, WireLimits } from './table.ts';
import { WIRE_LIMITS } from './table.ts';
import { describe, type Token, Tokens } from './tokens.ts';

interface ReadTextOptions {
  /** The name of the text in errors, such as a file name. */
  readonly what?: string;
  readonly limits?: Partial<WireLimits>;
  /** Called for each unknown field with the message that contains it. The field is skipped, with its block. */
  readonly onUnknown?: (name: string, line: number, message: Message) => void;
}

/**
 * Reads the message in `text`.
 * @throws bad_model naming `what` and the line
 */
export function readText(text: string, table: Table, options: ReadTextOptions = {}): Message {
  const parser = new Parser(text, options);
  return parser.root(table);
}

const FIELDS = new WeakMap<Table, ReadonlyMap<string, Field>>();

function fieldsByName(table: Table): ReadonlyMap<string, Field> {
  let fields = FIELDS.get(table);
  if (fields === undefined) {
    fields = new Map(Object.values(table).map((field) => [field.name, field]));
    FIELDS.set(table, fields);
  }
  return fields;
}

class Parser {
  private readonly tokens: Tokens;
  private readonly limits: WireLimits;
  private readonly onUnknown: ReadTextOptions['onUnknown'];
  private items = 0;
  private numbers = 0;

  constructor(text: string, options: ReadTextOptions) {
    this.tokens = new Tokens(text, options.what ?? 'protobuf text');
    this.limits = { ...WIRE_LIMITS, ...options.limits };
    this.onUnknown = options.onUnknown;
  }

  root(table: Table): Message {
    return this.message(table, undefined, 1);
  }

  /** Reads fields up to and including the mark `close`; undefined reads to the end. */
  private message(table: Table, close: string | undefined, depth: number): Message {
    const message = newMessage();
    const growing = new Map<Field, GrowingNumbers>();
    const fields = fieldsByName(table);
    this.enter(depth);
    for (;;) {
      const token = this.tokens.next();
      if (closes(token, close)) break;
      const name = this.fieldName(token, close);
      const field = fields.get(name);
      if (field === undefined) {
        this.onUnknown?.(name, token.line, message);
        this.skipValue(depth);
      } else {
        this.field(message, field, token.line, depth, growing);
      }
      if (!this.tokens.take(',')) this.tokens.take(';');
    }
    for (const [field, numbers] of growing) message[field.name] = numbers.finish();
    return message;
  }

  private fieldName(token: Token, close: string | undefined): string {
    if (token.kind === 'word' && /^[A-Za-z_]\w*$/.test(token.value)) return token.value;
    if (token.kind === 'mark' && token.value === '[') return this.extensionName();
    const end = close === undefined ? '' : ` or "${close}"`;
    return this.tokens.fail(`expected the name of a field${end}, got ${describe(token)}`, token.line);
  }

  /** Reads `[package.extension]` or `[host/package.Message]`, which no table has. */
  private extensionName(): string {
    let name = '[';
    for (;;) {
      const token = this.tokens.next();
      if (token.kind === 'mark' && token.value === ']') return `${name}]`;
      const allowed = token.kind === 'word' || (token.kind === 'mark' && '/-'.includes(token.value));
      if (!allowed) this.tokens.fail(`expected "]", got ${describe(token)}`, token.line);
      name += token.value;
    }
  }

  private field(
    message: OpenMessage,
    field: Field,
    line: number,
    depth: number,
    growing: Map<Field, GrowingNumbers>,
  ): void {
    const colon = this.tokens.take(':');
    const many = field.repeated === true || field.map === true;
    if (!many && message[field.name] !== undefined) {
      this.tokens.fail(`${field.name} comes twice and is not repeated`, line);
    }
    if (typeof field.type !== 'function' && !colon) this.tokens.expect(':');
    if (!this.tokens.take('[')) {
      this.value(message, field, depth, growing);
      return;
    }
    if (!many) this.tokens.fail(`${field.name} is not repeated and got a list`, line);
    if (this.tokens.take(']')) return;
    do this.value(message, field, depth, growing);
    while (this.tokens.take(','));
    this.tokens.expect(']');
  }

  private value(
    message: OpenMessage,
    field: Field,
    depth: number,
    growing: Map<Field, GrowingNumbers>,
  ): void {
    const { name, type } = field;
    if (typeof type === 'function') {
      const value = this.message(type(), this.open(name), depth + 1);
      if (field.map === true) putEntry(message, name, type(), value);
      else if (field.repeated === true) list<Message>(message, name).push(value);
      else message[name] = value;
    } else if (!isNumberType(type)) {
      const bytes = this.quoted(name);
      const value = type === 'string' ? bytes.toString('utf8') : new Uint8Array(bytes);
      if (field.repeated === true) list<string | Uint8Array>(message, name).push(value);
      else message[name] = value;
    } else if (field.repeated === true) {
      this.numbers += 1;
      if (this.numbers > this.limits.numbers) {
        this.tokens.fail(`there are more than ${this.limits.numbers} numbers`, this.tokens.peek().line);
      }
      let numbers = growing.get(field);
      if (numbers === undefined) {
        numbers = new GrowingNumbers(type, message[name] as NumberArray | undefined);
        growing.set(field, numbers);
      }
      this.number(field, type, numbers);
    } else {
      message[name] = this.number(field, type);
    }
  }

  private open(name: string): string {
    if (this.tokens.take('{')) return '}';
    if (this.tokens.take('<')) return '>';
    const token = this.tokens.peek();
    return this.tokens.fail(`${name} is a message: expected "{", got ${describe(token)}`, token.line);
  }

  /** One or more adjacent texts, joined. */
  private quoted(name: string): Buffer {
    this.enter(0);
    const first = this.tokens.next();
    if (first.bytes === undefined) {
      this.tokens.fail(`${name} is a text: expected a quote, got ${describe(first)}`, first.line);
    }
    if (this.tokens.peek().kind !== 'text') return first.bytes;
    const parts = [first.bytes];
    while (this.tokens.peek().kind === 'text') parts.push(this.tokens.next().bytes ?? first.bytes);
    return Buffer.concat(parts);
  }

  /** Parses a number as the field's type. With `into` it is appended there, 64-bit integers exactly. */
  private number(field: Field, type: NumberType, into?: GrowingNumbers): number | boolean {
    const negative = this.tokens.take('-');
    const token = this.tokens.next();
    const value = token.kind === 'word' ? parseNumber(token.value, negative, field, type) : undefined;
    if (value === undefined) {
      const got = `${negative ? '-' : ''}${token.kind === 'word' ? token.value.slice(0, 40) : describe(token)}`;
      return this.tokens.fail(`${field.name} is of type ${type}, got ${got}`, token.line);
    }
    if (typeof value !== 'bigint') {
      into?.push(Number(value));
      return value;
    }
    into?.push(Number(value & 0xffff_ffffn), Number((value >> 32n) & 0xffff_ffffn));
    return Number(value);
  }

  private skipValue(depth: number): void {
    const line = this.tokens.peek().line;
    const colon = this.tokens.take(':');
    const token = this.tokens.peek();
    if (token.kind === 'mark' && '{<['.includes(token.value)) {
      this.skipBlock(depth);
    } else if (!colon) {
      this.tokens.fail(`expected ":" or "{", got ${describe(token)}`, line);
    } else if (token.kind === 'text') {
      while (this.tokens.peek().kind === 'text') this.tokens.next();
    } else {
      this.tokens.take('-');
      const value = this.tokens.next();
      if (value.kind !== 'word') this.tokens.fail(`expected a value, got ${describe(value)}`, value.line);
    }
  }

  /** Skips from an opening mark to its closing one. */
  private skipBlock(depth: number): void {
    const open: string[] = [];
    const { line } = this.tokens.peek();
    do {
      const token = this.tokens.next();
      if (token.kind === 'end') this.tokens.fail('a block has no end', line);
      if (token.kind !== 'mark') continue;
      const pair = '{}<>[]'.indexOf(token.value);
      if (pair === -1) continue;
      if (pair % 2 === 0) {
        open.push('{}<>[]'[pair + 1] ?? '');
        if (depth + open.length > this.limits.depth) this.enter(depth + open.length);
      } else if (open.pop() !== token.value) {
        this.tokens.fail(`"${token.value}" closes nothing`, token.line);
      }
    } while (open.length > 0);
  }

  private enter(depth: number): void {
    const { line } = this.tokens.peek();
    if (depth > this.limits.depth)
      this.tokens.fail(`messages are nested deeper than ${this.limits.depth}`, line);
    this.items += 1;
    if (this.items > this.limits.items) {
      this.tokens.fail(`there are more than ${this.limits.items} messages and texts`, line);
    }
  }
}

function closes(token: Token, close: string | undefined): boolean {
  return close === undefined ? token.kind === 'end' : token.kind === 'mark' && token.value === close;
}

const RANGES: Readonly<Partial<Record<NumberType, readonly [bigint, bigint]>>> = {
  int32: [-(2n ** 31n), 2n ** 31n - 1n],
  enum: [-(2n ** 31n), 2n ** 31n - 1n],
  uint32: [0n, 2n ** 32n - 1n],
  fixed32: [0n, 2n ** 32n - 1n],
  int64: [-(2n ** 63n), 2n ** 63n - 1n],
  uint64: [0n, 2n ** 64n - 1n],
  fixed64: [0n, 2n ** 64n - 1n],
};

const BOOLS: ReadonlyMap<string, boolean> = new Map([
  ['true', true],
  ['True', true],
  ['t', true],
  ['1', true],
  ['false', false],
  ['False', false],
  ['f', false],
  ['0', false],
]);

/** Returns a bigint for 64-bit integers, undefined when the word does not fit the type. */
function parseNumber(
  word: string,
  negative: boolean,
  field: Field,
  type: NumberType,
): number | bigint | boolean | undefined {
  if (type === 'bool') return negative ? undefined : BOOLS.get(word);
  if (type === 'float' || type === 'double') return parseFloating(word, negative, type);
  if (type === 'enum' && !negative && field.enumNames !== undefined && Object.hasOwn(field.enumNames, word)) {
    return field.enumNames[word];
  }
  if (!/^(?:0[xX][0-9a-fA-F]+|0[0-7]*|[1-9]\d*)$/.test(word) || word.length > 30) return undefined;
  const magnitude = BigInt(/^0[0-7]+$/.test(word) ? `0o${word.slice(1)}` : word);
  const value = negative ? -magnitude : magnitude;
  const range = RANGES[type];
  if (range === undefined || value < range[0] || value > range[1]) return undefined;
  return type === 'int64' || type === 'uint64' || type === 'fixed64' ? value : Number(value);
}

function parseFloating(word: string, negative: boolean, type: NumberType): number | undefined {
  const sign = negative ? -1 : 1;
  if (/^inf(?:inity)?f?$/i.test(word)) return sign * Number.POSITIVE_INFINITY;
  if (/^nan$/i.test(word)) return Number.NaN;
  if (!/^(?:0[xX][0-9a-fA-F]+|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?[fF]?)$/.test(word)) return undefined;
  const value = sign * Number(/^0[xX]/.test(word) ? word : word.replace(/[fF]$/, ''));
  return type === 'float' ? Math.fround(value) : value;
}
