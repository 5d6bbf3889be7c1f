/** Makes a request's body from what a person gave for each input. Numbers are sent as they were typed, to the last digit. */
import type { PortFacts } from '../api.ts';
import { numbersJson } from './numbers.ts';

/** The user's entry for an input. */
export interface Given {
  /** JSON of numbers, a text, or an image as base64; by the input's kind. */
  readonly text: string;
  /** True for an input that takes pictures: `text` is its numbers as JSON. */
  readonly isNumbers?: boolean;
  /** A picture's file name, for the lines that read it from a file. */
  readonly fileName?: string;
}

export type Values = Readonly<Record<string, Given>>;

export interface Field {
  readonly name: string;
  readonly kind: 'json' | 'text' | 'image';
  /** The value as JSON. */
  readonly json: string;
  readonly fileName: string;
}

/** @throws Error for a person, which names the input */
export function fieldsOf(inputs: readonly PortFacts[], values: Values): Field[] {
  return inputs.flatMap((input): Field[] => {
    const { name, takes, optional } = input;
    const { text = '', isNumbers = false, fileName = 'picture.png' } = own(values, name) ?? {};
    const isText = takes === 'text';
    if (text === '' && optional) return [];
    if (text === '' && !isText) {
      throw new Error(
        `${name}: ${takes === 'image' && !isNumbers ? 'choose, drop or draw a picture' : 'give a value'}`,
      );
    }
    const kind = isText ? 'text' : takes === 'image' && !isNumbers ? 'image' : 'json';
    return [
      { name, kind, json: kind === 'json' ? numbersJson(input, text) : JSON.stringify(text), fileName },
    ];
  });
}

/** A field of the page's state; a model may call an input `__proto__`. */
function own(values: Values, name: string): Given | undefined {
  return Object.hasOwn(values, name) ? values[name] : undefined;
}

/** JSON of one instance. */
export function instanceOf(fields: readonly Field[]): string {
  return `{${fields.map(({ name, json }) => `${JSON.stringify(name)}: ${json}`).join(', ')}}`;
}

export function bodyOf(fields: readonly Field[]): string {
  return `{"instances": [${instanceOf(fields)}]}`;
}

const MOST_EXAMPLE = 1_000;

/** A value that fits an input: zeros in its shape. Undefined where that would be too long to edit. */
export function exampleOf({ row, dtype }: Pick<PortFacts, 'row' | 'dtype'>): string | undefined {
  const sizes = row.map((size) => (typeof size === 'number' ? size : 1));
  if (sizes.reduce((product, size) => product * size, 1) > MOST_EXAMPLE) return undefined;
  const zero = dtype === 'bool' ? 'false' : '0';
  return sizes.reduceRight(
    (inner, size) => `[${Array.from({ length: size }, () => inner).join(', ')}]`,
    zero,
  );
}
