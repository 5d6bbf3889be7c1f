/**
 * Reads XGBoost's JSON. A list of numbers, and an object in a list, is read when it is asked for: as one document, a
 * model takes ten times its size in memory. XGBoost writes NaN where a split has no threshold; it is read as null.
 */
import { badModel } from '../../../lib/contract/errors.ts';
import type { Later } from './fields.ts';

const MAX_DEPTH = 100;
/** Spaces, and what may follow a value. */
const END_OF_WORD = /[\s,\]}]/;
const MAX_WORD = 64;

/** Lists and objects of what is not read yet are functions. @throws bad_model */
export function readJson(bytes: Buffer): unknown {
  const reader = new Reader(bytes, 0);
  const value = reader.value(1);
  if (reader.next() !== '') fail('something follows the document');
  return value;
}

class Reader {
  readonly #bytes: Buffer;
  #at: number;

  constructor(bytes: Buffer, at: number) {
    this.#bytes = bytes;
    this.#at = at;
  }

  /** The next character that is no space, where the reader stays; empty at the end. */
  next(): string {
    for (;;) {
      const code = this.#bytes[this.#at];
      if (code === undefined) return '';
      if (code !== 0x20 && code !== 0x0a && code !== 0x0d && code !== 0x09) return String.fromCharCode(code);
      this.#at += 1;
    }
  }

  value(depth: number): unknown {
    if (depth > MAX_DEPTH) fail(`it is nested deeper than ${MAX_DEPTH}`);
    const first = this.next();
    if (first === '{') return this.#object(depth);
    if (first === '[') return this.#list(depth);
    if (first === '"') return this.#text();
    const word = this.#bytes
      .toString('latin1', this.#at, this.#at + MAX_WORD)
      .split(END_OF_WORD, 1)[0] as string;
    this.#at += word.length;
    return parsed(word);
  }

  #object(depth: number): Record<string, unknown> {
    const found: Record<string, unknown> = Object.create(null);
    for (const _ of this.#each('}')) {
      if (this.next() !== '"') fail(`a name is expected at byte ${this.#at}`);
      const name = this.#text();
      if (this.next() !== ':') fail(`":" is expected at byte ${this.#at}`);
      this.#at += 1;
      found[name] = this.value(depth + 1);
    }
    return found;
  }

  #list(depth: number): unknown {
    const start = this.#at;
    this.#at += 1;
    if (/[-\dNI]/.test(this.next())) {
      const end = this.#bytes.indexOf(']', this.#at);
      if (end < 0) fail('it is cut off');
      // CatBoost has lists in a list of numbers.
      if (!this.#bytes.subarray(this.#at, end).includes('[')) {
        this.#at = end + 1;
        return (() => parsed(this.#bytes.toString('latin1', start, end + 1))) satisfies Later;
      }
    }
    this.#at = start;
    const found: unknown[] = [];
    for (const _ of this.#each(']'))
      found.push(this.next() === '{' ? this.#later(depth) : this.value(depth + 1));
    return found;
  }

  /** Steps over an object, of which only its place is kept. */
  #later(depth: number): Later {
    this.next();
    const at = this.#at;
    this.value(depth + 1);
    return () => new Reader(this.#bytes, at).value(depth + 1);
  }

  #text(): string {
    const start = this.#at;
    let end = start;
    let escapes: number;
    do {
      end = this.#bytes.indexOf('"', end + 1);
      if (end < 0) fail('it is cut off');
      escapes = 0;
      while (this.#bytes[end - 1 - escapes] === 0x5c) escapes += 1;
    } while (escapes % 2 === 1);
    this.#at = end + 1;
    return parsed(this.#bytes.toString('utf8', start, end + 1)) as string;
  }

  /** Turns once per value, from the opening bracket to behind the closing one. */
  *#each(end: string): Generator<void> {
    this.#at += 1;
    for (let isFirst = true; this.next() !== end; isFirst = false) {
      if (!isFirst) {
        if (this.next() !== ',') fail(`"," or "${end}" is expected at byte ${this.#at}`);
        this.#at += 1;
      }
      yield;
    }
    this.#at += 1;
  }
}

function parsed(text: string): unknown {
  try {
    const isPlain = !/NaN|Infinity/.test(text);
    return JSON.parse(isPlain ? text : text.replaceAll(/"(?:[^"\\]|\\.)*"|NaN|Infinity/g, jsonNumber));
  } catch (error) {
    return fail((error as Error).message.slice(0, 200));
  }
}

/** JSON has no such numbers, and null is none. */
function jsonNumber(token: string): string {
  if (token === 'NaN') return 'null';
  return token === 'Infinity' ? '1e999' : token;
}

function fail(problem: string): never {
  throw badModel(`neither JSON nor UBJSON: ${problem}`);
}
