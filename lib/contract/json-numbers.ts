/**
 * A nested array of numbers from JSON, as doubles and not as arrays of arrays. It stands where the array would; who asks for
 * the array gets it, parsed from the text.
 */

export class JsonNumbers {
  /** Of one or more dimensions, none of them 0. */
  readonly shape: readonly number[];
  /** The numbers in row-major order, one part after the other: finite, to the last bit as JSON.parse reads them. */
  readonly parts: readonly Float64Array[];
  readonly #text: string;
  #nested: unknown;

  /** @param text the JSON of the array */
  constructor(shape: readonly number[], parts: readonly Float64Array[], text: string) {
    this.shape = shape;
    this.parts = parts;
    this.#text = text;
  }

  /** What JSON.parse makes of it; takes that long the first time. */
  nested(): unknown {
    this.#nested ??= JSON.parse(this.#text);
    return this.#nested;
  }
}

// Not a name: a copy of the value in another process has the array alone.
const NUMBERS = Symbol('numbers');

export interface JsonValue {
  readonly kind: 'json';
  readonly value: unknown;
  readonly [NUMBERS]?: JsonNumbers;
}

/** A JSON value of a record; of numbers, `value` is the nested array, made when it is asked for. */
export function jsonValue(content: unknown): JsonValue {
  if (!(content instanceof JsonNumbers)) return { kind: 'json', value: content };
  return {
    kind: 'json',
    get value() {
      return content.nested();
    },
    [NUMBERS]: content,
  };
}

/** The value as it was read: numbers stay JsonNumbers. */
export function contentOf(value: JsonValue): unknown {
  return value[NUMBERS] ?? value.value;
}
