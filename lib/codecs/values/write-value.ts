/**
 * Writes values into a frame: JSON, tagged objects for what JSON lacks, and blocks for bytes and arrays. read-value.ts
 * reads them. docs/reference/worker-protocol.md lists the tags.
 */
import { isInfinity } from '../../contract/json-numbers.ts';
import { allocate, type Tensor } from '../../contract/tensor.ts';
import { isEncodedImage, isTuple } from '../../contract/worker-values.ts';
import { isDate, isoOf } from './datetime.ts';
import { FRAME_LIMITS, isCount } from './frame.ts';
import { isTensorLike } from './tensor-like.ts';

/** The key of a tagged object. */
export const TAG = '$t';

export const VALUE_LIMITS = {
  /** Lists, dicts, sets and tuples within each other. */
  depth: 64,
  rank: 32,
  /** A value that is sent as JSON in a block. */
  jsonBytes: 32 * 1024 * 1024,
  /** Digits of a whole number. */
  digits: 4_096,
} as const;

/** Limit for values in the header; the rest of its 1 MiB is for the message around them. */
const HEADER_BYTES = 384 * 1024;
/** A value that may be longer as JSON goes to a block. */
const INLINE_BYTES = 16 * 1024;
/** The longest form of a number, a character and a tag as JSON. */
const LONGEST = { number: 26, character: 6, tag: 64 };

/** Writes the values of one frame, and collects its blocks. */
export class ValueWriter {
  readonly blocks: Uint8Array[] = [];
  #blockBytes = 0;
  #headerBytes = 0;
  /** An upper bound of the current value's JSON, so that it is not written only to be measured. */
  #size = 0;
  #path: string[] = [];

  /**
   * @param name begins the path in an error
   * @returns the value for the header
   * @throws TypeError with the path of what cannot be sent. The blocks are then as they were before.
   */
  write(value: unknown, name: string): unknown {
    const { length } = this.blocks;
    const bytes = this.#blockBytes;
    this.#path = [name];
    this.#size = 0;
    try {
      const json = this.#value(value, 0);
      if (this.#size <= INLINE_BYTES && this.#headerBytes + this.#size <= HEADER_BYTES) {
        this.#headerBytes += this.#size;
        return json;
      }
      const text = Buffer.from(JSON.stringify(json), 'utf8');
      if (text.byteLength > VALUE_LIMITS.jsonBytes) {
        throw this.#refuse(`is over the limit of ${VALUE_LIMITS.jsonBytes} bytes as JSON`);
      }
      return { [TAG]: 'json', b: this.#block(text) };
    } catch (error) {
      this.blocks.length = length;
      this.#blockBytes = bytes;
      throw error;
    }
  }

  #value(value: unknown, depth: number): unknown {
    switch (typeof value) {
      case 'boolean':
        this.#size += LONGEST.number;
        return value;
      case 'number':
        return this.#number(value);
      case 'string':
        this.#size += value.length * LONGEST.character + 3;
        return value;
      case 'bigint':
        return this.#bigint(value);
      case 'object':
        this.#size += LONGEST.tag;
        return value === null ? null : this.#object(value, depth);
      default:
        throw this.#refuse(`a ${typeof value} cannot be sent`);
    }
  }

  #number(value: number): unknown {
    this.#size += LONGEST.number;
    if (Number.isFinite(value) && !Object.is(value, -0)) return value;
    const v = Number.isNaN(value) ? 'nan' : value === 0 ? '-0' : value > 0 ? 'inf' : '-inf';
    return { [TAG]: 'float', v };
  }

  #bigint(value: bigint): unknown {
    if (isInfinity(value)) return this.#number(Number(value));
    this.#size += LONGEST.number;
    if (Number.isSafeInteger(Number(value))) return Number(value);
    const v = String(value);
    if (v.replace('-', '').length > VALUE_LIMITS.digits) {
      throw this.#refuse(`has more than ${VALUE_LIMITS.digits} digits`);
    }
    this.#size += LONGEST.tag + v.length;
    return { [TAG]: 'int', v };
  }

  #object(value: object, depth: number): unknown {
    if (value instanceof Uint8Array) return { [TAG]: 'bytes', b: this.#block(value) };
    if (isDate(value)) return this.#date(value);
    if (isEncodedImage(value)) return { [TAG]: 'image', b: this.#block(value.bytes) };
    if (isTensorLike(value)) return this.#tensor(value);
    if (depth >= VALUE_LIMITS.depth) throw this.#refuse(`is nested deeper than ${VALUE_LIMITS.depth} levels`);
    if (Array.isArray(value)) {
      const items = this.#items(value, depth);
      return isTuple(value) ? { [TAG]: 'tuple', items } : items;
    }
    if (value instanceof Set) {
      const members = [...value];
      const wrong = members.findIndex((member) => !isMember(member));
      if (wrong >= 0) throw this.#refuse('is a set with a member that Python cannot hash', `[${wrong}]`);
      return { [TAG]: 'set', items: this.#items(members, depth) };
    }
    return this.#dict(value, depth);
  }

  #items(items: readonly unknown[], depth: number): unknown[] {
    // Not map(), which leaves out the holes of a sparse array and, of a tuple, depends on its class.
    return Array.from(items, (item, i) => this.#at(`[${i}]`, item, depth));
  }

  #dict(value: object, depth: number): unknown {
    const prototype: unknown = Object.getPrototypeOf(value);
    if (prototype !== null && prototype !== Object.prototype) {
      throw this.#refuse(`a ${value.constructor?.name ?? 'class instance'} cannot be sent`);
    }
    const entries = Object.entries(value).map(([key, item]): [string, unknown] => {
      this.#size += key.length * LONGEST.character + 8;
      return [key, this.#at(step(key), item, depth)];
    });
    // fromEntries defines, so that __proto__ is a key like any other.
    return Object.hasOwn(value, TAG) ? { [TAG]: 'dict', items: entries } : Object.fromEntries(entries);
  }

  #at(place: string, value: unknown, depth: number): unknown {
    this.#path.push(place);
    const json = this.#value(value, depth + 1);
    this.#path.pop();
    return json;
  }

  #date(value: Date): unknown {
    const v = isoOf(value);
    if (v === undefined) throw this.#refuse('is not a date of the years 1 to 9999');
    return { [TAG]: 'datetime', v };
  }

  #tensor({ dtype, shape, data }: Tensor): unknown {
    const count = countOf(shape);
    if (typeof count === 'string') throw this.#refuse(count);
    if (count !== data.length) {
      throw this.#refuse(`has ${data.length} elements, and its shape [${shape.join(',')}] ${count}`);
    }
    this.#size += shape.length * LONGEST.number;
    if (dtype === 'string') {
      const values = Array.from<unknown, string>(data, (text, i) => {
        if (typeof text !== 'string') throw this.#refuse('is not a text', `.data[${i}]`);
        this.#size += text.length * LONGEST.character + 3;
        return text;
      });
      return { [TAG]: 'ndarray', dtype, shape, values };
    }
    if (!ArrayBuffer.isView(data) || data[Symbol.toStringTag] !== allocate(dtype, 0)[Symbol.toStringTag]) {
      throw this.#refuse(`its data is not an array of ${dtype}`);
    }
    const bytes = new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
    if (dtype === 'bool' && !areBooleans(bytes)) throw this.#refuse('has a bool that is neither 0 nor 1');
    return { [TAG]: 'ndarray', dtype, shape, b: this.#block(bytes) };
  }

  #block(bytes: Uint8Array): number {
    if (this.blocks.length === FRAME_LIMITS.blocks) {
      throw this.#refuse(`needs more than ${FRAME_LIMITS.blocks} blocks`);
    }
    if (this.#blockBytes + bytes.byteLength > FRAME_LIMITS.blockBytes) {
      throw this.#refuse(`needs more than ${FRAME_LIMITS.blockBytes} bytes, with what is sent beside it`);
    }
    this.#blockBytes += bytes.byteLength;
    return this.blocks.push(bytes) - 1;
  }

  #refuse(problem: string, place = ''): TypeError {
    return new TypeError(`${this.#path.join('')}${place}: ${problem}`);
  }
}

/** A key in a path: `.boxes`, or `['a b']`. */
function step(key: string): string {
  return /^[A-Za-z_]\w*$/.test(key) ? `.${key}` : `['${key}']`;
}

/** Python hashes the members of a set. */
export function isMember(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return true;
  if (isDate(value) || value instanceof Uint8Array) return true;
  return isTuple(value) && value.every(isMember);
}

export function areBooleans(bytes: Uint8Array): boolean {
  return bytes.every((byte) => byte <= 1);
}

/** @returns the elements of a shape, or what is wrong with it */
export function countOf(shape: readonly unknown[]): number | string {
  if (shape.length > VALUE_LIMITS.rank) {
    return `has ${shape.length} dimensions, over the limit of ${VALUE_LIMITS.rank}`;
  }
  let product = 1;
  for (const dim of shape) {
    if (!isCount(dim)) return `has a dimension of ${String(dim)}`;
    product *= Math.max(dim, 1);
    // At every step, and without the zeros: [1e9,1e9,0] has no element and is refused.
    if (product > FRAME_LIMITS.blockBytes)
      return `has a shape over the limit of ${FRAME_LIMITS.blockBytes} elements`;
  }
  return shape.includes(0) ? 0 : product;
}
