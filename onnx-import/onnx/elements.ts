/** The numbers of a tensor in an ONNX file: its raw bytes, or the list of its type. */
import { widenHalves } from '../graph/halves.ts';
import { bytesOf, numberOf, numbersOf } from '../wire/message.ts';
import type { Message } from '../wire/table.ts';

interface Elements {
  /** Bytes of one. */
  readonly width: number;
  readonly read: (raw: ArrayBuffer) => ArrayLike<number | bigint>;
  /** The field with those that are no raw bytes. */
  readonly list?: string;
}

/** By ONNX's number of the type. */
const ELEMENTS: Readonly<Record<number, Elements>> = {
  1: { width: 4, read: (raw) => new Float32Array(raw), list: 'floats' },
  2: { width: 1, read: (raw) => new Uint8Array(raw), list: 'ints' },
  3: { width: 1, read: (raw) => new Int8Array(raw), list: 'ints' },
  6: { width: 4, read: (raw) => new Int32Array(raw), list: 'ints' },
  7: { width: 8, read: (raw) => new BigInt64Array(raw), list: 'longs' },
  9: { width: 1, read: (raw) => new Uint8Array(raw), list: 'ints' },
  // Its list has bits.
  10: { width: 2, read: (raw) => widenHalves(new Uint16Array(raw), 'half') },
  11: { width: 8, read: (raw) => new Float64Array(raw), list: 'doubles' },
};
/** The value of `location` for weights in another file. */
const EXTERNAL = 1;

/** Undefined for another type, for weights in another file and for bytes of another length. */
export function elementsOf(tensor: Message): ArrayLike<number | bigint> | undefined {
  const elements = ELEMENTS[numberOf(tensor, 'type')];
  if (elements === undefined || numberOf(tensor, 'location') === EXTERNAL) return undefined;
  const { width, read, list } = elements;
  const raw = bytesOf(tensor, 'raw');
  if (raw.length === 0) return list === undefined ? undefined : numbersOf(tensor, list);
  // A copy begins where a typed array may.
  return raw.length % width === 0 ? read(raw.slice().buffer) : undefined;
}
