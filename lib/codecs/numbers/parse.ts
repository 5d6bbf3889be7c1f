/**
 * Parses JSON whose large arrays of numbers become JsonNumbers: they are cut out of the text, and JSON.parse reads what is
 * left. Everything unusual (an array that is ragged, empty or of other things too, numbers where none are expected, JSON that
 * is broken, a key that is there twice) is read by JSON.parse alone, so that each answer and each error is its own.
 */
import type { JsonNumbers } from '../../contract/json-numbers.ts';
import { parseExactly } from '../json.ts';
import { endOfText } from '../json-structure.ts';
import type { Scanner } from './scan.ts';

/** Below this length, cutting gains nothing. */
const LARGE_CHARACTERS = 4_096;
/** Shorter arrays stay in the text. So no shape of a tensor is cut out, whose rank is at most 16. */
const LEAST_NUMBERS = 32;
/** After this many texts and other arrays in a row, the remainder of the text stays together. */
const MOST_SKIPPED = 64;
/** Brackets and white space in front of a first number. */
const MOST_INDENTATION = 256;

/** In a place: each element or key. */
export const EACH = '*';

/** The keys on the way to a value. */
export type Place = readonly string[];

interface Around {
  readonly parsed: unknown;
  /** The text without the numbers. */
  readonly rest: string;
}

let scanner: Scanner | undefined;
let opening: Promise<void> | undefined;

/** Opens the scanner. Until that is done, and where it fails, JSON.parse reads everything. Never rejects. */
export function openNumbers(): Promise<void> {
  opening ??= openScanner().catch(() => undefined);
  return opening;
}

async function openScanner(): Promise<void> {
  const { Scanner } = await import('./scan.ts');
  scanner = await Scanner.open();
}

/** As parseExactly, but for large arrays of numbers at one of the places. @throws as parseText */
export function parseNumbers(text: string, places: readonly Place[]): unknown {
  return parseAround(text, places)?.parsed ?? parseExactly(text);
}

/** `parseNumbers` of `{"instances":[{name: numbers}]}`, or of instances that are numbers. */
export function parseInstances(text: string): unknown {
  return parseNumbers(text, INSTANCES);
}

const INSTANCES: readonly Place[] = [
  ['instances', EACH, EACH],
  ['instances', EACH],
];

/** Undefined for a text that has no large array of numbers, or anything unusual. */
export function parseAround(text: string, places: readonly Place[]): Around | undefined {
  if (text.length < LARGE_CHARACTERS) return undefined;
  if (scanner === undefined) {
    void openNumbers();
    return undefined;
  }
  scanner.text = text;
  const cut = cutNumbers(text, scanner);
  scanner.text = '';
  if (cut === undefined || cut.numbers.size === 0) return undefined;
  let parsed: unknown;
  try {
    parsed = parseExactly(cut.rest);
  } catch {
    return undefined;
  }
  let put = 0;
  for (const place of places) put += putNumbers(parsed, place, cut.numbers);
  return put === cut.numbers.size ? { parsed, rest: cut.rest } : undefined;
}

/** Placeholder for numbers. No other text can equal it, because only an escape produces this character. */
const MARK = '\u0001';
const ESCAPE = '\\u';

function cutNumbers(text: string, open: Scanner) {
  const numbers = new Map<string, JsonNumbers>();
  let rest = '';
  let kept = 0;
  let skipped = 0;
  let quote = text.indexOf('"');
  let bracket = text.indexOf('[');
  while (bracket !== -1 && skipped <= MOST_SKIPPED) {
    let next = bracket + 1;
    skipped++;
    if (quote !== -1 && quote < bracket) {
      next = endOfText(text, quote) + 1;
      if (next === 0) return undefined;
      quote = text.indexOf('"', next);
    } else if (beginsWithNumber(text, next)) {
      const found = open.read(bracket);
      if (found === undefined) return undefined;
      next = found.end;
      if (found.count >= LEAST_NUMBERS) {
        rest += `${text.slice(kept, bracket)}"${ESCAPE}0001${numbers.size}"`;
        numbers.set(MARK + numbers.size, found.numbers);
        if (text.slice(kept, bracket).includes(ESCAPE)) return undefined;
        kept = next;
        skipped = 0;
      }
    }
    if (bracket < next) bracket = text.indexOf('[', next);
  }
  const last = text.slice(kept);
  return last.includes(ESCAPE) ? undefined : { numbers, rest: rest + last };
}

function beginsWithNumber(text: string, from: number): boolean {
  let at = from;
  while (at < from + MOST_INDENTATION && ' \n\r\t['.includes(text.charAt(at))) at++;
  const character = text.charAt(at);
  return character === '-' || (character >= '0' && character <= '9');
}

/** Puts the numbers in the place of their marks. Returns how many were there. */
function putNumbers(
  holder: unknown,
  [step, ...others]: Place,
  numbers: ReadonlyMap<string, JsonNumbers>,
): number {
  if (step === undefined || typeof holder !== 'object' || holder === null) return 0;
  const values = holder as Record<string, unknown>;
  let put = 0;
  for (const key of step === EACH ? Object.keys(values) : [step]) {
    if (!Object.hasOwn(values, key)) continue;
    const value = values[key];
    if (others.length > 0) put += putNumbers(value, others, numbers);
    else if (typeof value === 'string' && value.startsWith(MARK)) {
      values[key] = numbers.get(value);
      put++;
    }
  }
  return put;
}
