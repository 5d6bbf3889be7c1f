/**
 * Reads numbers as people type and paste them: separated by commas, blanks, tabs or lines, with or without brackets. Their
 * digits stay as they were typed. What could be read in two ways is refused.
 */
import type { PortFacts } from '../api.ts';

type NumberInput = Pick<PortFacts, 'name' | 'row' | 'dtype'>;

const NUMBER = /^[+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?$/i;
const WORD = /^(?:true|false|null)$/i;
const EXAMPLE = '5.1, 3.5, 1.4, 0.2';

/** @returns the value as JSON. @throws Error for a person, which names the input */
export function numbersJson(input: NumberInput, typed: string): string {
  const text = typed.trim();
  const isList = /[[\]]/.test(text);
  // Objects and texts are JSON already, and so is a list with commas.
  if (/["{]/.test(text) || (isList && isJson(text))) return assertJson(input.name, text);
  const lines = text.split(/\s*[\r\n]+\s*/).map((line) => tokensOf(input, line));
  assertCommas(input, text, lines);
  return isList ? bracketed(input, lines.flat()) : shaped(input, lines);
}

function tokensOf({ name }: NumberInput, line: string): string[] {
  const tokens = line.match(/[[\]]|[^[\],\s]+/g) ?? [];
  return tokens.map((token) => {
    if (WORD.test(token)) return token.toLowerCase();
    if (/^[[\]]$/.test(token)) return token;
    if (!NUMBER.test(token))
      throw new Error(
        `${name}: ${token} is not a number. Write numbers such as ${EXAMPLE}, with commas, blanks or tabs between them.`,
      );
    // JSON has neither +1 nor .5 nor 1.
    return token
      .replace(/^\+/, '')
      .replace(/^(-?)0*(?=\d)/, '$1')
      .replace(/^(-?)\./, '$10.')
      .replace(/\.(?!\d)/, '.0');
  });
}

/** `5,1`, `1.234,5` and `1,234` where other separators could make them one number. */
export const ONE_OR_MORE =
  /(?<![\d.,])(?:\d+,\d+(?![\d,])|\d{1,3}(?:\.\d{3})+,\d+(?![\d,])|\d{1,3}(?:,\d{3})+(?!\d))/;

/** `5,1 3,5` may be two numbers or four, and `5,1` is not a list of one-element values. */
function assertCommas(input: NumberInput, text: string, lines: readonly (readonly string[])[]): void {
  if (/(?:^|[,[])\s*,|,\s*(?:$|\])|\t *\t/.test(text))
    throw new Error(`${input.name}: a number is missing between two separators.`);
  const [found] = ONE_OR_MORE.exec(text) ?? [];
  const hasOther = /[^\s,[\]][ \t]+[^\s,[\]]/.test(text) || (lines.length > 1 && input.row.length < 2);
  if (found === undefined || (!hasOther && input.row.some((size) => size !== 1))) return;
  throw new Error(
    `${input.name}: is ${found} one number or more? Write a decimal point, as in 5.1, and a blank after a comma between numbers.`,
  );
}

/** Brackets say the shape; commas may be missing. */
function bracketed({ name }: NumberInput, tokens: readonly string[]): string {
  const list = tokens
    .join(' ')
    .replaceAll(/([^[ ]) (?=[^\] ])/g, '$1, ')
    .replaceAll(/(\[) | (\])/g, '$1$2');
  // Rows that nothing encloses, as [1, 2], [3, 4].
  const json = [list, `[${list}]`].find(isJson);
  if (json === undefined) throw new Error(`${name}: the brackets do not match.`);
  return json;
}

/** Without brackets the input says the shape. */
function shaped(input: NumberInput, lines: readonly (readonly string[])[]): string {
  const { name, row } = input;
  const numbers = lines.flat();
  const width = row.at(-1);
  const isTable = row.length > 1 && lines.length > 1;
  const [first = []] = lines;
  if (isTable && lines.some((line) => line.length !== (typeof width === 'number' ? width : first.length)))
    throw new Error(
      `${name}: expected ${typeof width === 'number' ? width : 'as many'} numbers in each line.`,
    );
  const sizes = row.map((size, i) => (isTable && i === row.length - 1 ? first.length : size));
  const known = sizes.reduce<number>((all, size) => (typeof size === 'number' ? all * size : all), 1);
  const free = sizes.filter((size) => typeof size !== 'number').length;
  if (free > 1) throw new Error(`${name}: put brackets around each row, such as [[1, 2], [3, 4]].`);
  const rest = numbers.length / known;
  if (free === 0 ? rest !== 1 : !Number.isInteger(rest))
    throw new Error(
      `${name}: expected ${free === 0 ? '' : 'a multiple of '}${known} ${known === 1 ? 'number' : 'numbers'}, such as ${EXAMPLE.split(', ', known).join(', ')}; got ${numbers.length}.`,
    );
  return nested(
    sizes.map((size) => (typeof size === 'number' ? size : rest)),
    numbers,
  );
}

function nested(sizes: readonly number[], numbers: readonly string[]): string {
  const [size, ...inner] = sizes;
  if (size === undefined) return numbers[0] ?? '';
  const length = numbers.length / size;
  const parts = Array.from({ length: size }, (_, i) =>
    nested(inner, numbers.slice(i * length, (i + 1) * length)),
  );
  return `[${parts.join(', ')}]`;
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

function assertJson(name: string, text: string): string {
  if (isJson(text)) return text;
  throw new Error(`${name}: this is not JSON. Write numbers such as ${EXAMPLE}.`);
}
