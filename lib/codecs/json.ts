/** Parses and writes JSON of untrusted callers, with whole numbers that JSON.parse rounds and words that it does not know. */
import { asError } from '../contract/errors.ts';
import { INFINITY } from '../contract/json-numbers.ts';
import { LIMITS, overLimit } from '../contract/limits.ts';
import { endOfText, isIntricate, JsonStructure } from './json-structure.ts';
import { isKey } from './key-order.ts';

/** `{"instances":[{"x":` and a tensor are 19 levels; nothing accepted is deeper. */
export const MOST_DEPTH: number = 2 * LIMITS.tensorRank;

/**
 * @param allowed the length whose number of parts the text may have, Infinity for any number. Default: its own
 * @throws too_large for a large text that is nested too deeply, or made of too many parts; SyntaxError for invalid JSON
 */
export function parseText(text: string, mostDepth: number = MOST_DEPTH, allowed = text.length): unknown {
  assertParts(text, mostDepth, allowed);
  return JSON.parse(text);
}

/**
 * Checks the text before parseText parses it.
 * @throws too_large
 */
export function assertParts(text: string, mostDepth: number = MOST_DEPTH, allowed = text.length): void {
  if (isIntricate(text)) new JsonStructure(allowed).read(text, mostDepth);
}

/** In front of what a text of JSON marks; a text that begins with it has it twice then. */
const MARK = '\u0001';
const ESCAPED_MARK = '\\u0001';

/**
 * JSON with values as texts that begin with a mark. `unmark` takes them for what they are.
 * @param special matches values outside of texts, no keys; global
 * @throws too_large above LIMITS.jsonSpecials of them: they would take fifty times their length
 */
export function markValues(text: string, special: RegExp): string {
  const out = new JoinedText();
  let left: number = LIMITS.jsonSpecials;
  const markPart = (part: string) => {
    let from = 0;
    special.lastIndex = 0;
    // Not replace(), which collects all that it finds before the first is replaced.
    for (let found = special.exec(part); found; found = special.exec(part)) {
      if (--left < 0)
        throw overLimit('jsonSpecials', 'JSON whose numbers of many digits, NaN and infinities are');
      out.add(`${part.slice(from, found.index)}"${ESCAPED_MARK}${found[0]}"`);
      from = special.lastIndex;
    }
    out.add(part.slice(from));
  };
  let from = 0;
  for (let start = text.indexOf('"'); start !== -1; start = text.indexOf('"', from)) {
    const end = endOfText(text, start);
    if (end === -1) break;
    markPart(text.slice(from, start + 1));
    if (text.startsWith(ESCAPED_MARK, start + 1) && !isKey(text, end + 1)) out.add(ESCAPED_MARK);
    out.add(text.slice(start + 1, end + 1));
    from = end + 1;
  }
  markPart(text.slice(from));
  return out.text();
}

const PARTS = 4_096;

/** Joins parts before there are many: a million of them take ten times what they hold. */
class JoinedText {
  readonly #joined: string[] = [];
  #parts: string[] = [];

  add(part: string): void {
    this.#parts.push(part);
    if (this.#parts.length < PARTS) return;
    this.#joined.push(this.#parts.join(''));
    this.#parts = [];
  }

  text(): string {
    return this.#joined.join('') + this.#parts.join('');
  }
}

/**
 * The value with each mark taken off, in place. What is nested deeper than any tensor is left: it is refused where it becomes one.
 * @param read the value of what was marked
 */
export function unmark(value: unknown, read: (source: string) => unknown, levels = MOST_DEPTH): unknown {
  if (typeof value === 'string') {
    if (!value.startsWith(MARK)) return value;
    return value.startsWith(MARK, 1) ? value.slice(1) : read(value.slice(1));
  }
  if (typeof value !== 'object' || value === null || levels === 0) return value;
  if (Array.isArray(value)) {
    const list: unknown[] = value;
    for (let i = 0; i < list.length; i++) {
      const held = list[i];
      if (typeof held === 'string' || typeof held === 'object') list[i] = unmark(held, read, levels - 1);
    }
    return list;
  }
  const members = value as Record<string, unknown>;
  for (const key of Object.keys(members)) members[key] = unmark(members[key], read, levels - 1);
  return members;
}

/** The digits of the largest integers of 64 bits, with a sign. Longer ones fit nowhere. */
const WHOLE = /^-?\d{1,20}$/;

/** A number as JSON.parse reads it, but an integer beyond 2^53 as a bigint. */
export function exactNumber(source: string): number | bigint {
  const number = Number(source);
  return Number.isSafeInteger(number) || !WHOLE.test(source) ? number : BigInt(source);
}

/** As many digits as 2^53 has, where a number begins: of the digits alone, each would be a place to begin at, ten times as slow. */
const LONG_NUMBER = /(?:^|[[{,:\s-])\d{16}/;
/** Integers that may be beyond 2^53. Keys and parts of other numbers do not match. */
const LONG_INTEGER = /(?<![\w.+-])-?[1-9]\d{15,19}(?![\w.]|\s*:)/g;

/** Matches the names that Python and TensorFlow write for floats that JSON cannot express. */
const WORD_OR_INTEGER = /(?<![\w.+-])-?(?:NaN|Inf(?:inity)?|[1-9]\d{15,19})(?![\w.]|\s*:)/g;

/** parseText with integers beyond 2^53 as bigints, and with words for NaN and INFINITY. @throws as parseText, and as markValues */
export function parseExactly(text: string): unknown {
  assertParts(text);
  let parsed: unknown;
  try {
    parsed = JSON.parse(text);
  } catch (error) {
    return parseWords(text, error);
  }
  return withDigits(parsed, text);
}

function parseWords(text: string, fault: unknown): unknown {
  if (!/NaN|Inf/.test(text)) throw fault;
  const marked = markValues(text, WORD_OR_INTEGER);
  if (marked === text) throw fault;
  try {
    return unmark(JSON.parse(marked), wordOrNumber);
  } catch (error) {
    // Without the place and the piece of the text, which the marks have changed.
    throw new SyntaxError(asError(error).message.replace(/ in JSON at .*$|, (\.\.\.)?".*$/s, ''));
  }
}

function wordOrNumber(source: string): number | bigint {
  if (source.endsWith('NaN')) return NaN;
  if (!source.includes('Inf')) return exactNumber(source);
  return source.startsWith('-') ? -INFINITY : INFINITY;
}

/**
 * Parses the text, with integers beyond 2^53 as bigints. A reviver would take ten times as long.
 * @throws as markValues
 */
export function withDigits(parsed: unknown, text: string): unknown {
  if (!LONG_NUMBER.test(text)) return parsed;
  return unmark(JSON.parse(markValues(text, LONG_INTEGER)), exactNumber);
}

/** The JSON of an object whose keys stay in the given order, where an object's would not. @param write the JSON of a value */
export function objectText(
  entries: Iterable<readonly [string, unknown]>,
  write: (value: unknown) => string = JSON.stringify,
): string {
  const members = Array.from(entries, ([key, value]) => `${JSON.stringify(key)}:${write(value)}`);
  return `{${members.join(',')}}`;
}
