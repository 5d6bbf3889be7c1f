/**
 * Parses bytes from a socket or the log, split anywhere, into complete commands. A large argument arrives in
 * thousands of pieces, which are joined once, because joining them one by one would take quadratic time.
 */
import type { Bytes } from './replies.ts';

const LIMITS = {
  /** For one argument. Redis allows 512 MB; a result here is at most a Lambda payload of 6 MB. */
  argumentBytes: 64 * 1024 * 1024,
  /** For all arguments of one command. */
  commandBytes: 128 * 1024 * 1024,
  arguments: 131_072,
  /** For an inline command, and for a line with a length. */
  lineBytes: 64 * 1024,
} as const;

/** Invalid bytes, after which the connection cannot be read any further. */
export class ProtocolError extends Error {
  constructor(message: string) {
    super(`ERR Protocol error: ${message}`);
  }
}

const CR = 13;
const LF = 10;
const NO_LENGTH = -1;

export class CommandReader {
  /** Bytes up to the end of the last complete command. */
  consumedBytes = 0;
  #pieces: Buffer[] = [];
  #heldBytes = 0;
  #neededBytes = 1;
  #data: Buffer = Buffer.alloc(0);
  #at = 0;
  #args: Bytes[] = [];
  #argsLeft = 0;
  #argBytes: number = NO_LENGTH;
  #commandBytes = 0;

  push(piece: Buffer): void {
    this.#pieces.push(piece);
    this.#heldBytes += piece.length;
  }

  /** The next complete command; undefined until more bytes arrive. Never an empty one. */
  next(): Bytes[] | undefined {
    if (this.#pieces.length > 0) {
      if (this.#heldBytes < this.#neededBytes) return undefined;
      const rest = this.#data.subarray(this.#at);
      this.#data = Buffer.concat(rest.length > 0 ? [rest, ...this.#pieces] : this.#pieces);
      this.#pieces = [];
      this.#at = 0;
    }
    for (;;) {
      const args = this.#argsLeft === 0 ? this.#start() : this.#argument();
      if (args === 'incomplete') return undefined;
      if (args === undefined) continue;
      this.consumedBytes += this.#commandBytes;
      this.#commandBytes = 0;
      if (args.length > 0) return args;
    }
  }

  #start(): Bytes[] | 'incomplete' | undefined {
    const multi = this.#data[this.#at] === 42; // *
    const line = this.#line(multi ? 'too big mbulk count string' : 'too big inline request');
    if (line === undefined) return 'incomplete';
    if (!multi) return splitInline(line);
    const count = wholeNumber(line);
    if (count === undefined || count > LIMITS.arguments) throw new ProtocolError('invalid multibulk length');
    if (count <= 0) return [];
    this.#args = [];
    this.#argsLeft = count;
    return undefined;
  }

  #argument(): Bytes[] | 'incomplete' | undefined {
    if (this.#argBytes === NO_LENGTH) {
      const line = this.#line('too big bulk count string');
      if (line === undefined) return 'incomplete';
      if (line[0] !== '$') throw new ProtocolError(`expected '$', got '${line[0] ?? ' '}'`);
      const length = wholeNumber(line);
      if (length === undefined || length < 0 || length > LIMITS.argumentBytes) {
        throw new ProtocolError('invalid bulk length');
      }
      if (this.#commandBytes + length > LIMITS.commandBytes) throw new ProtocolError('too big command');
      this.#argBytes = length;
    }
    const end = this.#at + this.#argBytes;
    if (this.#data.length < end + 2) return this.#wait(end + 2 - this.#at);
    if (this.#data[end] !== CR || this.#data[end + 1] !== LF)
      throw new ProtocolError('expected CRLF after bulk');
    this.#args.push(this.#data.toString('latin1', this.#at, end));
    this.#take(this.#argBytes + 2);
    this.#argBytes = NO_LENGTH;
    this.#argsLeft -= 1;
    return this.#argsLeft === 0 ? this.#args : undefined;
  }

  #line(tooLong: string): string | undefined {
    const end = this.#data.indexOf(LF, this.#at);
    if ((end < 0 ? this.#data.length : end) - this.#at > LIMITS.lineBytes) throw new ProtocolError(tooLong);
    if (end < 0) {
      this.#wait(this.#data.length - this.#at + 1);
      return undefined;
    }
    const line = this.#data.toString(
      'latin1',
      this.#at,
      this.#data[end - 1] === CR && end > this.#at ? end - 1 : end,
    );
    this.#take(end + 1 - this.#at);
    return line;
  }

  #take(bytes: number): void {
    this.#at += bytes;
    this.#commandBytes += bytes;
  }

  #wait(bytes: number): 'incomplete' {
    if (this.#at === this.#data.length) this.#data = Buffer.alloc(0);
    else if (this.#at > 0) this.#data = this.#data.subarray(this.#at);
    this.#at = 0;
    this.#heldBytes = this.#data.length;
    this.#neededBytes = bytes;
    return 'incomplete';
  }
}

/** The number after the type mark; undefined when it is not a number. */
function wholeNumber(line: string): number | undefined {
  return /^.-?\d{1,10}$/s.test(line) ? Number(line.slice(1)) : undefined;
}

/** Splits an inline command (telnet, old redis-cli): words, "quoted \n \x00 words" and 'plain ones'. */
function splitInline(line: string): Bytes[] {
  const words: Bytes[] = [];
  const word = /\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([^\s"']+))(?=\s|$)/gy;
  let end = 0;
  for (let found = word.exec(line); found !== null; found = word.exec(line)) {
    end = word.lastIndex;
    const [, double, single, plain] = found;
    words.push(double !== undefined ? unescape(double) : (plain ?? (single ?? '').replaceAll("\\'", "'")));
  }
  if (line.slice(end).trim() !== '') throw new ProtocolError('unbalanced quotes in request');
  return words;
}

const ESCAPES: Record<string, string> = { n: '\n', r: '\r', t: '\t', b: '\b', a: '\x07' };

function unescape(text: string): Bytes {
  return text.replaceAll(/\\(?:x([0-9a-f]{2})|(.))/gis, (_all, hex: string | undefined, one: string) =>
    hex === undefined ? (ESCAPES[one] ?? one) : String.fromCharCode(Number.parseInt(hex, 16)),
  );
}
