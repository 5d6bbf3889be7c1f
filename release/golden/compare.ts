/**
 * Compares two predictions as text. Integers, texts and shapes are equal or not; floats have a decimal point or an
 * exponent in the text, and may differ by a share of the spread of their output.
 */
import { elementAt, present } from '../../lib/contract/present.ts';
import { spreadOf } from '../spread.ts';

export interface Difference {
  /** 0 for the first output. */
  readonly output: number;
  /** Place of the element among all values of the output; undefined where the answers differ in form. */
  readonly element: number | undefined;
  readonly expected: string;
  readonly got: string;
  /** The spread of the output's floats, which the tolerance is a share of. */
  readonly spread: number;
}

/** A value is a text, a float or integer, or a name that JSON does not know, such as NaN. */
const TOKEN = /"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:E-?\d+)?|-?Infinity|NaN|\w+|[^]/g;
const FLOAT = /[.E]/;
const SHOWN = 80;

/** The first difference. @param outputs how many outputs the model has */
export function firstDifference(
  expected: string,
  got: string,
  { outputs, tolerance }: { readonly outputs: number; readonly tolerance: number },
): Difference | undefined {
  const [wanted, found] = [outputsOf(expected, outputs), outputsOf(got, outputs)];
  const form = { element: undefined, expected: shown(expected), got: shown(got), spread: 0 };
  if (wanted.length !== found.length) return { output: 0, ...form };
  for (const [output, tokens] of wanted.entries()) {
    const others = present(found[output], 'output');
    if (tokens.length !== others.length) return { output, ...form };
    const spread = spreadOf(floatsIn(tokens));
    let element = -1;
    for (const [place, token] of tokens.entries()) {
      if (isValue(token)) element++;
      const other = elementAt(others, place, 'others');
      if (token === other || isClose(token, other, tolerance * spread)) continue;
      if (!isValue(token) || !isValue(other)) return { output, ...form };
      return { output, element, expected: shown(token), got: shown(other), spread };
    }
  }
  return undefined;
}

/** The tokens of each output. Several outputs are the elements of one array, `{value=[a,b]}`. */
function outputsOf(text: string, count: number): string[][] {
  const tokens = text.match(TOKEN) ?? [];
  if (count < 2) return [tokens];
  const outputs: string[][] = [];
  let depth = 0;
  let current: string[] = [];
  for (const token of tokens) {
    if (token === ']' || token === '}') depth--;
    // `{value=[`: what lies deeper belongs to one output.
    if (depth > 2 || (depth === 2 && token !== ',')) current.push(token);
    if (depth === 2 && token === ',') {
      outputs.push(current);
      current = [];
    }
    if (token === '[' || token === '{') depth++;
  }
  return [...outputs, current];
}

function isValue(token: string): boolean {
  return /^(?:"|-?\d|-?Infinity|NaN)/.test(token) && token !== '"data"' && token !== '"shape"';
}

function isClose(expected: string, got: string, allowed: number): boolean {
  if (!FLOAT.test(expected) || !FLOAT.test(got) || expected.startsWith('"') || got.startsWith('"'))
    return false;
  return Math.abs(Number(expected) - Number(got)) <= allowed;
}

function* floatsIn(tokens: readonly string[]): Generator<number> {
  for (const token of tokens) if (!token.startsWith('"') && FLOAT.test(token)) yield Number(token);
}

function shown(text: string): string {
  return text.length <= SHOWN ? text : `${text.slice(0, SHOWN)}…`;
}
