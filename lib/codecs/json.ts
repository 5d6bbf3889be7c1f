/**
 * Parses JSON from untrusted callers. JSON.parse accepts any depth: three million brackets fit into 6 MiB and become
 * 250 MB, and 32 MiB of them end the process. So the depth of a large text is checked first.
 */
import { ServingError } from '../contract/errors.ts';
import { LIMITS } from '../contract/limits.ts';

/** Texts up to this length are harmless. */
const SMALL_CHARACTERS = 1_048_576;
/**
 * So are this many levels. A text with fewer brackets is not searched, which covers nearly every array of numbers.
 */
const HARMLESS_BRACKETS = 100_000;

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const ZERO = 0x30;
const NINE = 0x39;
const OPEN_ARRAY = 0x5b;
const CLOSE_ARRAY = 0x5d;
const OPEN_OBJECT = 0x7b;
const CLOSE_OBJECT = 0x7d;

/** Sees each value with its text. It recurses, so that the depth of every text is checked before it. */
export type Reviver = (key: string, value: unknown, context: { readonly source?: string }) => unknown;

/**
 * @param mostDepth `{"instances":[{"x":` and a tensor are 19 levels; nothing accepted is deeper
 * @throws too_large when a large text is nested deeper than any tensor; SyntaxError for invalid JSON
 */
export function parseText(
  text: string,
  mostDepth: number = 2 * LIMITS.tensorRank,
  reviver?: Reviver,
): unknown {
  if (reviver || (text.length > SMALL_CHARACTERS && hasManyBrackets(text)))
    assertDepth(Buffer.from(text), mostDepth);
  return JSON.parse(text, reviver as Parameters<typeof JSON.parse>[1]);
}

/** The digits of the largest integers of 64 bits, with a sign. Longer ones fit nowhere. */
const WHOLE = /^-?\d{1,20}$/;

/** Integers beyond 2^53 as bigints. */
export const exactly: Reviver = (_, value, { source = '' }) => {
  if (typeof value !== 'number' || Number.isSafeInteger(value)) return value;
  return WHOLE.test(source) ? BigInt(source) : value;
};

/** JSON.parse with integers beyond 2^53 as bigints. Takes several times as long. @param text valid JSON */
export function parseExactly(text: string): unknown {
  return JSON.parse(text, exactly as Parameters<typeof JSON.parse>[1]);
}

/**
 * In front of a key, this makes it no index. JavaScript puts keys that are indices first, ascending, wherever the text
 * has them.
 */
const MARK = '#';

/**
 * Returns a function that gives the keys of one object in the order of the text, for names that bind by position. Only
 * an object with keys like "0" needs the text again.
 * @param text valid JSON
 */
export function keysInOrder(
  text: string,
): (object: Readonly<Record<string, unknown>>, path: readonly (string | number)[]) => string[] {
  let marked: unknown;
  return (object, path) => {
    const keys = Object.keys(object);
    // An index would be the first key. Most objects have none, so the test is a cheap one.
    const code = (keys[0] ?? '').charCodeAt(0);
    if (keys.length < 2 || code < ZERO || code > NINE) return keys;
    marked ??= JSON.parse(markKeys(text));
    let found = marked as Record<string | number, unknown>;
    for (const step of path) {
      found = found[typeof step === 'string' ? MARK + step : step] as typeof found;
    }
    return Object.keys(found).map((key) => key.slice(MARK.length));
  };
}

/** Valid JSON with MARK in front of every key. A string is a key when a colon follows it. */
function markKeys(text: string): string {
  const parts: string[] = [];
  let written = 0;
  for (let start = text.indexOf('"'); start !== -1; ) {
    const end = endOfText(text, start);
    let next = end + 1;
    while (' \t\r\n'.includes(text.charAt(next)) && next < text.length) next++;
    if (text.charAt(next) === ':') {
      parts.push(text.slice(written, start + 1), MARK);
      written = start + 1;
    }
    start = text.indexOf('"', end + 1);
  }
  return parts.join('') + text.slice(written);
}

/** Where the text in quotes that begins at `start` ends; -1 when it is not closed. */
export function endOfText(json: string, start: number): number {
  let end = start;
  do end = json.indexOf('"', end + 1);
  while (isEscaped((at) => json.charCodeAt(at), end));
  return end;
}

/** The JSON of an object whose keys stay in the given order, where an object's would not. */
export function objectText(entries: Iterable<readonly [string, unknown]>): string {
  const members = Array.from(entries, ([key, value]) => `${JSON.stringify(key)}:${JSON.stringify(value)}`);
  return `{${members.join(',')}}`;
}

/** Searching for a character is native; a loop over 6 MiB of them takes 25 ms. */
function hasManyBrackets(text: string): boolean {
  let count = 0;
  for (const bracket of ['[', '{']) {
    for (let at = text.indexOf(bracket); at !== -1; at = text.indexOf(bracket, at + 1)) {
      if (++count > HARMLESS_BRACKETS) return true;
    }
  }
  return false;
}

/** Over bytes of UTF-8: no byte of a longer character looks like a bracket or a quote. */
function assertDepth(bytes: Uint8Array, mostDepth: number): void {
  let depth = 0;
  for (let at = 0; at < bytes.length; at++) {
    const byte = bytes[at] as number;
    if (byte < OPEN_ARRAY) {
      if (byte === QUOTE) at = endOfString(bytes, at);
    } else if (byte === OPEN_ARRAY || byte === OPEN_OBJECT) {
      if (++depth > mostDepth) {
        throw new ServingError(
          'too_large',
          `nested deeper than ${LIMITS.tensorRank} dimensions (tensorRank) ever are`,
        );
      }
    } else if (byte === CLOSE_ARRAY || byte === CLOSE_OBJECT) depth--;
  }
}

/** The end of the string that starts at `start`; the end of the text when it is not closed. */
function endOfString(bytes: Uint8Array, start: number): number {
  let end = start;
  do {
    end = bytes.indexOf(QUOTE, end + 1);
    if (end === -1) return bytes.length;
  } while (isEscaped((before) => bytes[before], end));
  return end;
}

/** Whether an odd number of backslashes precedes `at`. */
function isEscaped(codeAt: (at: number) => number | undefined, at: number): boolean {
  let backslashes = 0;
  while (codeAt(at - 1 - backslashes) === BACKSLASH) backslashes++;
  return backslashes % 2 === 1;
}
