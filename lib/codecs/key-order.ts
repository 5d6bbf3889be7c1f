/** The order of keys in a text of JSON. JavaScript puts keys that are indices, like "0", first and ascending. */
import { endOfText } from './json-structure.ts';

const ZERO = 0x30;
const NINE = 0x39;

/** Keys of an object, for names that bind by position. @param index of the object in its list */
export type KeysOf = (object: Readonly<Record<string, unknown>>, index?: number) => string[];

/**
 * Returns a function that gives the keys in the order of the text. Only an object with keys like "0" needs the text again.
 * @param text valid JSON
 * @param list the key of the root under which the objects are, as elements of an array; undefined for the root itself
 */
export function keysInOrder(text: string, list?: string): KeysOf {
  let found: ReadonlyMap<number, ReadonlySet<string>> | undefined;
  return (object, index = 0) => {
    const keys = Object.keys(object);
    // An index would be the first key. Most objects have none, so the test is a cheap one.
    const code = (keys[0] ?? '').charCodeAt(0);
    if (keys.length < 2 || code < ZERO || code > NINE) return keys;
    found ??= findKeys(text, list);
    return [...(found.get(index) ?? keys)];
  };
}

/** The keys of each object by its index, without building a value. Of a key that stands twice, the first place counts. */
function findKeys(text: string, list: string | undefined): ReadonlyMap<number, ReadonlySet<string>> {
  const found = new Map<number, Set<string>>();
  const level = list === undefined ? 1 : 3;
  let depth = 0;
  let isInList = list === undefined;
  let index = 0;
  for (let at = 0; at < text.length; at++) {
    const character = text[at];
    if (character === '{' || character === '[') depth++;
    else if (character === '}' || character === ']') depth--;
    else if (character === ',' && depth === level - 1) index++;
    else if (character === '"') {
      const start = at;
      at = endOfText(text, start);
      if (depth > level || !isKey(text, at + 1)) continue;
      if (depth === 1 && list !== undefined) {
        // If a key occurs twice with a list, the last one counts.
        isInList = keyAt(text, start, at) === list;
        index = 0;
        if (isInList) found.clear();
      } else if (depth === level && isInList) addKey(found, index, keyAt(text, start, at));
    }
  }
  return found;
}

function addKey(found: Map<number, Set<string>>, index: number, key: string): void {
  const keys = found.get(index);
  if (keys) keys.add(key);
  else found.set(index, new Set([key]));
}

function keyAt(text: string, start: number, end: number): string {
  return JSON.parse(text.slice(start, end + 1)) as string;
}

/** True if a colon follows, behind white space. */
export function isKey(text: string, behind: number): boolean {
  let at = behind;
  while (at < text.length && ' \t\r\n'.includes(text.charAt(at))) at++;
  return text[at] === ':';
}
