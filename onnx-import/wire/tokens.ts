/**
 * Splits protobuf text (prototxt, pbtxt) into tokens with their lines. Strings are bytes: `\377` is one byte, not a
 * character, and a character is its UTF-8 bytes.
 */
import { badModel } from '../../lib/contract/errors.ts';

/**
 * `word`: a name or a number as written; `text`: a string with its unescaped `bytes`; `mark`: one of `:{}<>[],;-/`.
 */
export interface Token {
  readonly kind: 'word' | 'text' | 'mark' | 'end';
  readonly value: string;
  readonly bytes?: Buffer;
  readonly line: number;
}

const MARKS = ':{}<>[],;-/';
const SPACE = /[ \t\r\n\f\v]/;
const WORD = /[A-Za-z0-9_.]+/y;
/** A number may have a sign only after its exponent, so `1-2` is not a word. */
const NUMBER = /(?:0[xX][0-9a-fA-F]+|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?[fF]?)(?![A-Za-z0-9_.])/y;
const LINE_FEED = 10;
const BACKSLASH = 92;
/** A buffer for each byte that an octal escape can name, because weights in text are millions of them. */
const OCTALS = Array.from({ length: 256 }, (_, byte) => Buffer.from([byte]));
const ESCAPES: Readonly<Record<string, number>> = {
  a: 7,
  b: 8,
  f: 12,
  n: 10,
  r: 13,
  t: 9,
  v: 11,
  '\\': 92,
  "'": 39,
  '"': 34,
  '?': 63,
};

export class Tokens {
  private readonly text: string;
  private readonly what: string;
  private offset = 0;
  private line = 1;
  private ahead: Token | undefined;

  constructor(text: string, what: string) {
    this.text = text;
    this.what = what;
    if (text.charCodeAt(0) === 0xfeff) this.offset = 1;
  }

  /** Returns the next token without consuming it. */
  peek(): Token {
    this.ahead ??= this.read();
    return this.ahead;
  }

  next(): Token {
    const token = this.peek();
    this.ahead = undefined;
    return token;
  }

  /** Consumes the next token if it is this mark. */
  take(mark: string): boolean {
    const token = this.peek();
    if (token.kind !== 'mark' || token.value !== mark) return false;
    this.ahead = undefined;
    return true;
  }

  expect(mark: string): void {
    if (!this.take(mark)) this.fail(`expected "${mark}", got ${describe(this.peek())}`, this.peek().line);
  }

  fail(problem: string, line: number): never {
    throw badModel(`${this.what}: ${problem} (line ${line})`);
  }

  private read(): Token {
    this.skipSpace();
    const { line, text } = this;
    const char = text[this.offset];
    if (char === undefined) return { kind: 'end', value: '', line };
    if (char === '"' || char === "'") return this.quoted(char);
    if (MARKS.includes(char)) {
      this.offset += 1;
      return { kind: 'mark', value: char, line };
    }
    const value = this.match(NUMBER) || this.match(WORD);
    if (value === '') this.fail(`unexpected character ${JSON.stringify(char)}`, line);
    return { kind: 'word', value, line };
  }

  private match(pattern: RegExp): string {
    pattern.lastIndex = this.offset;
    const found = pattern.exec(this.text)?.[0] ?? '';
    this.offset += found.length;
    return found;
  }

  private skipSpace(): void {
    for (;;) {
      const char = this.text[this.offset];
      if (char === undefined) return;
      if (char === '\n') this.line += 1;
      if (char === '#') {
        const end = this.text.indexOf('\n', this.offset);
        this.offset = end === -1 ? this.text.length : end;
      } else if (SPACE.test(char)) this.offset += 1;
      else return;
    }
  }

  /** Reads a quoted text. The parser joins adjacent ones. */
  private quoted(quote: string): Token {
    const { line } = this;
    const start = this.offset + 1;
    let end = start;
    for (;;) {
      const code = this.text.charCodeAt(end);
      if (Number.isNaN(code) || code === LINE_FEED) this.fail('a text has no closing quote', line);
      if (code === quote.charCodeAt(0)) break;
      end += code === BACKSLASH ? 2 : 1;
    }
    this.offset = end + 1;
    const bytes = Buffer.from(this.text.slice(start, end), 'utf8');
    return { kind: 'text', value: '', bytes: this.unescape(bytes, line), line };
  }

  /** Works in place, because no escape is shorter than its value. */
  private unescape(bytes: Buffer, line: number): Buffer {
    let to = bytes.indexOf(BACKSLASH);
    if (to === -1) return bytes;
    let from = to;
    while (from < bytes.length) {
      const byte = bytes[from] ?? 0;
      if (byte !== BACKSLASH) {
        bytes[to] = byte;
        to += 1;
        from += 1;
        continue;
      }
      const { length, value } = escapeAt(bytes, from + 1) ?? this.fail('a text has an unknown escape', line);
      to += value.copy(bytes, to);
      from += 1 + length;
    }
    return bytes.subarray(0, to);
  }
}

/** The length and the bytes of the escape after a backslash. */
function escapeAt(bytes: Buffer, start: number): { length: number; value: Buffer } | undefined {
  const octal = octalAt(bytes, start);
  if (octal.length > 0) return { length: octal.length, value: OCTALS[octal.byte] ?? bytes };
  const ahead = bytes.toString('latin1', start, start + 9);
  const simple = ESCAPES[ahead.charAt(0)];
  if (simple !== undefined) return { length: 1, value: Buffer.from([simple]) };
  const hex = /^[xX][0-9a-fA-F]{1,2}/.exec(ahead)?.[0];
  if (hex !== undefined)
    return { length: hex.length, value: Buffer.from([Number.parseInt(hex.slice(1), 16)]) };
  const unicode = /^(?:u[0-9a-fA-F]{4}|U00(?:0[0-9a-fA-F]|10)[0-9a-fA-F]{4})/.exec(ahead)?.[0];
  if (unicode === undefined) return undefined;
  const character = String.fromCodePoint(Number.parseInt(unicode.slice(1), 16));
  return { length: unicode.length, value: Buffer.from(character, 'utf8') };
}

function octalAt(bytes: Buffer, start: number): { length: number; byte: number } {
  let length = 0;
  let byte = 0;
  while (length < 3) {
    const digit = (bytes[start + length] ?? 0) - 48;
    if (digit < 0 || digit > 7) break;
    byte = (byte * 8 + digit) & 0xff;
    length += 1;
  }
  return { length, byte };
}

export function describe(token: Token): string {
  if (token.kind === 'end') return 'the end of the text';
  return token.kind === 'text' ? 'a quoted text' : `"${token.value.slice(0, 40)}"`;
}
