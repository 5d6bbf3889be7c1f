/** Finds the entries of the first directory of a TIFF, which EXIF blocks are too. */
import { assertReaches, broken } from './refusal.ts';

export const SHORT = 3;
/** Bytes of a number of each type: BYTE, SHORT and LONG. */
const NUMBER_BYTES: ReadonlyMap<number, 1 | 2 | 4> = new Map([
  [1, 1],
  [SHORT, 2],
  [4, 4],
]);

interface Entry {
  readonly view: DataView;
  readonly little: boolean;
  readonly type: number;
  readonly count: number;
  /** Where the values stand, or, when they take more than 4 bytes, their offset. */
  readonly at: number;
}

interface Directory {
  readonly view: DataView;
  readonly little: boolean;
  /** Where its entries, of 12 bytes each, begin and should end. */
  readonly start: number;
  readonly end: number;
}

/** Undefined when there is none that can be read. Its end may be beyond the file's. */
export function tiffDirectory(tiff: Uint8Array): Directory | undefined {
  if (tiff.length < 14) return undefined;
  const view = new DataView(tiff.buffer, tiff.byteOffset, tiff.byteLength);
  const mark = view.getUint16(0);
  if (mark !== 0x4949 && mark !== 0x4d4d) return undefined;
  const little = mark === 0x4949;
  const start = view.getUint32(4, little) + 2;
  if (view.getUint16(2, little) !== 42 || start > tiff.length) return undefined;
  return { view, little, start, end: start + 12 * view.getUint16(start - 2, little) };
}

/** The first entry of a tag; undefined when there is none. */
export function tiffEntry(tiff: Uint8Array, tag: number): Entry | undefined {
  const directory = tiffDirectory(tiff);
  if (directory === undefined) return undefined;
  const { view, little, start, end } = directory;
  for (let at = start; at < end && at + 12 <= tiff.length; at += 12) {
    if (view.getUint16(at, little) !== tag) continue;
    return {
      view,
      little,
      type: view.getUint16(at + 2, little),
      count: view.getUint32(at + 4, little),
      at: at + 8,
    };
  }
  return undefined;
}

/**
 * The whole numbers of a tag; undefined when it is absent.
 * @param most how many there may be
 * @throws bad_input for another type or number of values, and for values beyond the file
 */
export function tiffNumbers(tiff: Uint8Array, tag: number, most: number): number[] | undefined {
  const entry = tiffEntry(tiff, tag);
  if (entry === undefined) return undefined;
  const { view, little, type, count } = entry;
  const bytes = NUMBER_BYTES.get(type);
  if (bytes === undefined || count === 0 || count > most) {
    throw broken(
      'TIFF',
      `its tag ${tag} holds ${count} values of type ${type}, not 1 to ${most} whole numbers`,
    );
  }
  const at = count * bytes > 4 ? view.getUint32(entry.at, little) : entry.at;
  assertReaches('TIFF', tiff, at + count * bytes);
  return Array.from({ length: count }, (_, index) => {
    const from = at + index * bytes;
    if (bytes === 1) return view.getUint8(from);
    return bytes === 2 ? view.getUint16(from, little) : view.getUint32(from, little);
  });
}
