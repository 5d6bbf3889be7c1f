/**
 * A nested array of numbers from JSON, as float32 or doubles and not as arrays of arrays. It stands where the array would; who
 * asks for the array gets it, parsed from the text.
 */

export type Precision = 'float32' | 'float64';
export type NumberParts = readonly Float32Array[] | readonly Float64Array[];

/** The reader of arrays: in the precision requested last, because most models have inputs of one precision. */
export interface NumbersReader {
  precision: Precision;
  /** The numbers of an array that it has read before, in the present precision. @param text the JSON of the array */
  readonly again: (text: string) => NumberParts;
  /** The array as nested arrays, with integers beyond 2^53 as bigints. @param text the JSON of the array */
  readonly nested: (text: string) => unknown;
}

export class JsonNumbers {
  /** The shape: one or more dimensions, none of them 0. */
  readonly shape: readonly number[];
  readonly #reader: NumbersReader;
  readonly #text: string;
  #parts: NumberParts;
  #nested: unknown;

  /** @param parts in the reader's precision @param text the JSON of the array */
  constructor(shape: readonly number[], parts: NumberParts, text: string, reader: NumbersReader) {
    this.shape = shape;
    this.#parts = parts;
    this.#text = text;
    this.#reader = reader;
  }

  /**
   * The numbers in row-major order, one part after the other: finite, to the last bit as JSON.parse reads them, or these rounded
   * to float32. Who wants float32 may get doubles. Who wants doubles of what was read as float32 waits until it is read again.
   */
  parts(wanted: Precision): NumberParts {
    this.#reader.precision = wanted;
    if (wanted === 'float64' && this.#parts[0] instanceof Float32Array)
      this.#parts = this.#reader.again(this.#text);
    return this.#parts;
  }

  /** The JSON of the array, as it was sent. */
  get text(): string {
    return this.#text;
  }

  /** The number that parsing the whole text would have given; takes as long the first time. */
  nested(): unknown {
    this.#nested ??= this.#reader.nested(this.#text);
    return this.#nested;
  }
}

/**
 * Infinity as a word of JSON says it: a bigint that no dtype of integers holds. JSON.parse makes Infinity of a number that is
 * too large, which is refused. NaN is made by a word only.
 */
export const INFINITY: bigint = 2n ** 1024n + 0x496e66n;

export function isInfinity(value: unknown): value is bigint {
  return value === INFINITY || value === -INFINITY;
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
