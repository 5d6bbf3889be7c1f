/**
 * The values that travel between clients, the service and workers, in both languages. Where JavaScript has no type of its
 * own for one, it is here. Classes are recognized by a brand, because the worker's code and the service may have been
 * built into different packages.
 */
import type { Tensor } from './tensor.ts';

export type WorkerValue =
  | null
  | boolean
  | string
  /** NaN, infinities and -0 are kept. */
  | number
  /** A whole number beyond ±(2^53 − 1). One within arrives as a number. */
  | bigint
  /** bytes in Python. */
  | Uint8Array
  /** datetime in Python. One that is passed on unchanged keeps its microseconds and its time zone. */
  | Date
  /** ndarray in Python. */
  | Tensor
  | EncodedImage
  | Tuple
  /** The members are scalars, bytes, dates, and tuples of those. */
  | ReadonlySet<WorkerValue>
  | readonly WorkerValue[]
  | { readonly [key: string]: WorkerValue };

const TUPLE = Symbol.for('cluster-serving.Tuple');
const IMAGE = Symbol.for('cluster-serving.EncodedImage');

/** A Python tuple: an array that stays a tuple when it is sent. What its methods make of it are plain arrays. */
export class Tuple extends Array<WorkerValue> {
  static override get [Symbol.species](): ArrayConstructor {
    return Array;
  }

  get [TUPLE](): true {
    return true;
  }
}

/** A JPEG, PNG, WebP, BMP, GIF or TIFF image, not decoded. */
export class EncodedImage {
  readonly bytes: Uint8Array;

  constructor(bytes: Uint8Array) {
    this.bytes = bytes;
  }

  get [IMAGE](): true {
    return true;
  }
}

export function isTuple(value: object): value is Tuple {
  return TUPLE in value;
}

export function isEncodedImage(value: unknown): value is EncodedImage {
  return typeof value === 'object' && value !== null && IMAGE in value;
}
