/** Reads the values of a frame, which value.ts wrote. Everything is checked, because the other process runs a user's code. */
import { ServingError } from '../../contract/errors.ts';
import {
  allocate,
  bytesPerElement,
  isNumericDType,
  type NumericDType,
  type Tensor,
  type TypedArray,
  viewBytes,
} from '../../contract/tensor.ts';
import { EncodedImage, Tuple, type WorkerValue } from '../../contract/worker-values.ts';
import { dateOf } from './datetime.ts';
import { FRAME_LIMITS, isCount, ProtocolError, parseJson } from './frame.ts';
import { asDict } from './tensor-like.ts';
import { areBooleans, countOf, isMember, TAG, VALUE_LIMITS } from './write-value.ts';

const FLOATS: Readonly<Record<string, number>> = {
  nan: Number.NaN,
  inf: Infinity,
  '-inf': -Infinity,
  '-0': -0,
};
const INTEGER = /^-?[1-9]\d*$/;

type Tagged = Readonly<Record<string, unknown>>;

/** Reads all values of one frame, each of whose blocks belongs to exactly one of them. */
export class ValueReader {
  readonly #blocks: readonly Uint8Array[];
  readonly #image: (bytes: Uint8Array) => WorkerValue;
  readonly #parse: (bytes: Uint8Array) => unknown;
  readonly #used: Set<number> = new Set();

  /** @param image makes a value of the bytes of an encoded image @param parse reads the JSON of a block */
  constructor(
    blocks: readonly Uint8Array[],
    image: (bytes: Uint8Array) => WorkerValue = (bytes) => new EncodedImage(bytes),
    parse: (bytes: Uint8Array) => unknown = parseJson,
  ) {
    this.#blocks = blocks;
    this.#image = image;
    this.#parse = parse;
  }

  /** @returns the value; arrays and bytes in it are views of the frame's memory. @throws ProtocolError */
  read(json: unknown): WorkerValue {
    if (isObject(json) && json[TAG] === 'json') {
      const text = this.#block(fields(json, 'b')['b']);
      if (text.byteLength > VALUE_LIMITS.jsonBytes) throw malformed('JSON in a block is too long');
      try {
        return this.#value(this.#parse(text), 0);
      } catch (error) {
        if (error instanceof ProtocolError) throw error;
        if (error instanceof ServingError) throw malformed(`a block is ${error.message}`, error);
        throw malformed('the JSON in a block cannot be read', error);
      }
    }
    return this.#value(json, 0);
  }

  /** Call it when all values are read. @throws ProtocolError for a block that belongs to none */
  end(): void {
    const unused = this.#blocks.length - this.#used.size;
    if (unused > 0) throw malformed(`${unused} of ${this.#blocks.length} blocks are not used`);
  }

  #value(json: unknown, depth: number): WorkerValue {
    if (json === null || typeof json === 'boolean' || typeof json === 'string') return json;
    if (typeof json === 'number') {
      if (!Number.isFinite(json)) throw malformed('a number is out of range');
      return json;
    }
    if (Array.isArray(json)) return this.#items(json, depth);
    // JSON.parse makes nothing else.
    if (!isObject(json)) throw malformed(`a ${typeof json}`);
    if (Object.hasOwn(json, TAG)) return this.#tagged(json, depth);
    return this.#dict(Object.entries(json), depth);
  }

  #tagged(json: Tagged, depth: number): WorkerValue {
    switch (json[TAG]) {
      case 'bytes':
        return this.#block(fields(json, 'b')['b']);
      case 'image':
        return this.#image(this.#block(fields(json, 'b')['b']));
      case 'ndarray':
        return this.#tensor(json);
      case 'datetime':
        return readDate(fields(json, 'v')['v']);
      case 'float':
        return readFloat(fields(json, 'v')['v']);
      case 'int':
        return readInteger(fields(json, 'v')['v']);
      case 'tuple':
        return tupleOf(this.#items(fields(json, 'items')['items'], depth));
      case 'set': {
        const members = this.#items(fields(json, 'items')['items'], depth);
        if (!members.every(isMember)) throw malformed('a set has a member that Python cannot hash');
        return new Set(members);
      }
      case 'dict':
        return this.#dict(entriesOf(fields(json, 'items')['items']), depth);
      default:
        throw malformed(`unknown tag ${JSON.stringify(json[TAG])?.slice(0, 40)}`);
    }
  }

  #items(items: unknown, depth: number): WorkerValue[] {
    if (!Array.isArray(items)) throw malformed('items is not a list');
    assertDepth(depth);
    return items.map((item) => this.#value(item, depth + 1));
  }

  #dict(entries: readonly (readonly [string, unknown])[], depth: number): WorkerValue {
    assertDepth(depth);
    return asDict(Object.fromEntries(entries.map(([key, item]) => [key, this.#value(item, depth + 1)])));
  }

  #block(index: unknown): Uint8Array {
    const block = isCount(index) ? this.#blocks[index] : undefined;
    if (block === undefined) throw malformed(`there is no block ${JSON.stringify(index)}`);
    // Twice the same memory would let a small frame become large values.
    if (this.#used.has(Number(index))) throw malformed(`block ${JSON.stringify(index)} is used twice`);
    this.#used.add(Number(index));
    return block;
  }

  #tensor(json: Tagged): Tensor {
    const { dtype, shape, b, values } = fields(
      json,
      'dtype',
      'shape',
      json['dtype'] === 'string' ? 'values' : 'b',
    );
    if (!Array.isArray(shape)) throw malformed('a shape is not a list');
    const count = countOf(shape);
    if (typeof count === 'string') throw malformed(`an ndarray ${count}`);
    if (dtype === 'string') {
      if (!isTexts(values) || values.length !== count) {
        throw malformed(`an ndarray of strings needs ${count} of them`);
      }
      return { dtype, shape, data: values };
    }
    if (typeof dtype !== 'string' || !isNumericDType(dtype)) {
      throw malformed(`unknown dtype ${JSON.stringify(dtype)?.slice(0, 40)}`);
    }
    return { dtype, shape, data: readElements(dtype, count, this.#block(b)) };
  }
}

function readElements(dtype: NumericDType, count: number, bytes: Uint8Array): TypedArray {
  if (bytes.byteLength !== count * bytesPerElement(dtype)) {
    throw malformed(`${count} elements of ${dtype} do not have ${bytes.byteLength} bytes`);
  }
  if (dtype === 'bool' && !areBooleans(bytes)) throw malformed('a bool is neither 0 nor 1');
  return count === 0 ? allocate(dtype, 0) : viewBytes(dtype, bytes);
}

/** The tagged object, if it has exactly these fields. */
function fields(json: Tagged, ...names: readonly string[]): Tagged {
  if (Object.keys(json).length !== names.length + 1 || !names.every((name) => Object.hasOwn(json, name))) {
    throw malformed(`a value with the tag ${String(json[TAG])} needs ${names.join(', ')}, and nothing else`);
  }
  return json;
}

function tupleOf(items: readonly WorkerValue[]): Tuple {
  const tuple = new Tuple();
  for (const item of items) tuple.push(item);
  return tuple;
}

function readDate(v: unknown): Date {
  const date = typeof v === 'string' ? dateOf(v) : undefined;
  if (!date) throw malformed('a datetime is not ISO 8601');
  return date;
}

function readFloat(v: unknown): number {
  const value = typeof v === 'string' && Object.hasOwn(FLOATS, v) ? FLOATS[v] : undefined;
  if (value === undefined) throw malformed('a float is not nan, inf, -inf or -0');
  return value;
}

function readInteger(v: unknown): bigint {
  if (typeof v !== 'string' || v.length > VALUE_LIMITS.digits + 1 || !INTEGER.test(v)) {
    throw malformed('an int is not a whole number');
  }
  const value = BigInt(v);
  if (Number.isSafeInteger(Number(value))) throw malformed('an int needs no tag within ±(2^53 − 1)');
  return value;
}

function entriesOf(items: unknown): (readonly [string, unknown])[] {
  if (!Array.isArray(items)) throw malformed('items is not a list');
  if (items.length > FRAME_LIMITS.entries)
    throw malformed(`a dict has more than ${FRAME_LIMITS.entries} items`);
  return items.map((pair: unknown) => {
    if (!Array.isArray(pair) || pair.length !== 2 || typeof pair[0] !== 'string') {
      throw malformed('an item of a dict is not a key and value');
    }
    return [pair[0], pair[1]] as const;
  });
}

function assertDepth(depth: number): void {
  if (depth >= VALUE_LIMITS.depth) throw malformed(`values nest deeper than ${VALUE_LIMITS.depth} levels`);
}

export function isObject(json: unknown): json is Readonly<Record<string, unknown>> {
  return typeof json === 'object' && json !== null && !Array.isArray(json);
}

function isTexts(values: unknown): values is string[] {
  return Array.isArray(values) && values.every((text) => typeof text === 'string');
}

function malformed(problem: string, cause?: unknown): ProtocolError {
  return new ProtocolError(`malformed value: ${problem}`, cause === undefined ? undefined : { cause });
}
