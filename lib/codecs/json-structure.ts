/**
 * Refuses JSON that takes far more to parse than its length tells, before it is parsed: three million brackets fit into 6 MiB
 * and become 250 MB, and half a million objects, each with another key, take V8 a second. What is in texts counts for nothing.
 */
import { ServingError } from '../contract/errors.ts';
import { LIMITS, overLimit } from '../contract/limits.ts';

/** Texts up to this length are harmless. */
export const SMALL_CHARACTERS = 1_048_576;
/** So are this many levels. A text with fewer brackets is not searched, which covers nearly every array of numbers. */
const HARMLESS_BRACKETS = 100_000;

/** Characters that each member or text has at least where all differ. Texts that are alike cost little. */
const MEMBER_CHARACTERS = 8;
const TEXT_CHARACTERS = 6;

/** After this number of characters the counts are compared with the limits. */
const CHECKED_CHARACTERS = 65_536;

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const COLON = 0x3a;
const OPEN_ARRAY = 0x5b;
const CLOSE_ARRAY = 0x5d;
const OPEN_OBJECT = 0x7b;
const CLOSE_OBJECT = 0x7d;

/** True if a text of JSON, or several lines of it, may be over a limit, so that it has to be searched. */
export function isIntricate(text: string): boolean {
  const { length } = text;
  return (
    (length > SMALL_CHARACTERS && hasMore(text, ['[', '{'], HARMLESS_BRACKETS)) ||
    (length > MEMBER_CHARACTERS * LIMITS.jsonMembers && hasMore(text, [':'], LIMITS.jsonMembers)) ||
    (length > TEXT_CHARACTERS * LIMITS.texts && hasMore(text, ['"'], 2 * LIMITS.texts))
  );
}

/** Searching for a character is native; a loop over 6 MiB of them takes 25 ms. */
function hasMore(text: string, characters: readonly string[], count: number): boolean {
  let left = count;
  for (const character of characters) {
    for (let at = text.indexOf(character); at !== -1; at = text.indexOf(character, at + 1)) {
      if (--left < 0) return true;
    }
  }
  return false;
}

type PartLimit = 'jsonArrays' | 'jsonObjects' | 'jsonMembers' | 'texts';

/** Counts what one or several texts of JSON are made of. The limits are for 6 MiB of them; longer ones may have more. */
export class JsonStructure {
  readonly #share: number;
  readonly #what: string;
  #depth = 0;
  #arrays = 0;
  #objects = 0;
  #members = 0;
  #texts = 0;

  /** @param characters of all texts together @param what begins the text of errors */
  constructor(characters: number, what = '') {
    this.#what = what;
    this.#share = Math.max(1, characters / LIMITS.httpBodyBytes);
  }

  /** Stops at the first limit. @throws too_large, as `assertFits` does, or for a text that is nested too deeply */
  read(text: string, mostDepth: number): void {
    // A text before may have been refused within its depth.
    this.#depth = 0;
    for (let at = 0; at < text.length; ) {
      at = this.#readSome(text, at, mostDepth);
      this.assertFits();
    }
  }

  /** Returns where the text goes on. */
  #readSome(text: string, start: number, mostDepth: number): number {
    const end = Math.min(text.length, start + CHECKED_CHARACTERS);
    // Fields of an object would be loaded and stored for each character.
    let [depth, arrays, objects, members, texts] = [this.#depth, 0, 0, 0, 0];
    let at = start;
    for (; at < end; at++) {
      const code = text.charCodeAt(at);
      if (code < OPEN_ARRAY) {
        if (code === COLON) members++;
        else if (code === QUOTE) {
          texts++;
          at = endOfText(text, at);
          if (at === -1) at = text.length;
        }
      } else if (code === OPEN_ARRAY || code === OPEN_OBJECT) {
        if (code === OPEN_ARRAY) arrays++;
        else objects++;
        if (++depth > mostDepth) throw tooDeep(this.#what);
      } else if (code === CLOSE_ARRAY || code === CLOSE_OBJECT) depth--;
    }
    this.#depth = depth;
    this.#arrays += arrays;
    this.#objects += objects;
    this.#members += members;
    this.#texts += texts;
    return at;
  }

  /** @throws too_large */
  assertFits(): void {
    const refuseOver = (count: number, limit: PartLimit, parts: string) => {
      if (count > LIMITS[limit] * this.#share)
        throw overLimit(limit, `${this.#what}JSON whose ${parts} are`, 'in 6 MiB');
    };
    refuseOver(this.#arrays, 'jsonArrays', 'arrays');
    refuseOver(this.#objects, 'jsonObjects', 'objects');
    refuseOver(this.#members, 'jsonMembers', 'members of objects');
    refuseOver(this.#texts, 'texts', 'texts and keys');
  }
}

function tooDeep(what: string): ServingError {
  return new ServingError(
    'too_large',
    `${what}nested deeper than ${LIMITS.tensorRank} dimensions (tensorRank) ever are`,
  );
}

/** Where the text in quotes that begins at `start` ends; -1 when it is not closed. */
export function endOfText(json: string, start: number): number {
  const end = json.indexOf('"', start + 1);
  if (!isEscaped(json, end)) return end;
  // Where one quote is escaped, many may be: to search for each takes longer than to look at each character.
  for (let at = end + 1; at < json.length; at++) {
    const code = json.charCodeAt(at);
    if (code === QUOTE) return at;
    if (code === BACKSLASH) at++;
  }
  return -1;
}

/** True if an odd number of backslashes precedes `at`. */
function isEscaped(json: string, at: number): boolean {
  let backslashes = 0;
  while (json.charCodeAt(at - 1 - backslashes) === BACKSLASH) backslashes++;
  return backslashes % 2 === 1;
}
