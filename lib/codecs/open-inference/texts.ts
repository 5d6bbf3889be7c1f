/**
 * Reads and writes a binary BYTES tensor: each element is 4 bytes of length (little-endian) and that many bytes of UTF-8.
 * TextDecoder drops a leading byte order mark unless ignoreBOM is set.
 */
import { badInput } from '../../contract/errors.ts';
import { isPicture } from '../image/signatures.ts';
import { decodeUtf8 } from '../utf8.ts';

const LENGTH_BYTES = 4;
const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/** @throws bad_input when there are not `count` elements of UTF-8 text, to the last byte */
export function readTexts(bytes: Uint8Array, count: number): string[] {
  return readElements(bytes, count).map(decodeText);
}

/** The elements, where the first is an image file: some begin as a text may, but none is UTF-8 to its end. @throws bad_input */
export function readPictures(bytes: Uint8Array, count: number): readonly Uint8Array[] | undefined {
  return isPicture(bytes.subarray(LENGTH_BYTES)) ? picturesOf(readElements(bytes, count)) : undefined;
}

/** The elements, where the first is an image file. */
export function picturesOf(elements: readonly Uint8Array[]): readonly Uint8Array[] | undefined {
  const [first] = elements;
  return first !== undefined && isPicture(first) && decodeUtf8(first) === undefined ? elements : undefined;
}

/** The elements as views. @throws bad_input when there are not `count`, to the last byte */
function readElements(bytes: Uint8Array, count: number): Uint8Array[] {
  // Checked first, because a shape may promise 67 million elements.
  if (count * LENGTH_BYTES > bytes.byteLength) {
    throw badInput(`${count} BYTES elements do not fit into ${bytes.byteLength} bytes`);
  }
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const elements: Uint8Array[] = [];
  let at = 0;
  for (let index = 0; index < count; index++) {
    const start = at + LENGTH_BYTES;
    const end = start <= bytes.byteLength ? start + view.getUint32(at, true) : start;
    if (end > bytes.byteLength) {
      throw badInput(`BYTES element ${index} ends behind the ${bytes.byteLength} bytes`);
    }
    elements.push(bytes.subarray(start, end));
    at = end;
  }
  if (at === bytes.byteLength) return elements;
  throw badInput(`${count} BYTES elements take ${at} bytes, and ${bytes.byteLength} came`);
}

/** @param index of the element, for the error. @throws bad_input for invalid UTF-8 */
export function decodeText(bytes: Uint8Array, index: number): string {
  try {
    return utf8.decode(bytes);
  } catch {
    throw badInput(`BYTES element ${index} is not UTF-8 text`);
  }
}

/** The number of bytes that `writeTexts` writes. */
export function textsLength(texts: readonly string[]): number {
  let length = 0;
  for (const text of texts) length += LENGTH_BYTES + Buffer.byteLength(text);
  return length;
}

/** @returns the index after the written bytes */
export function writeTexts(texts: readonly string[], into: Buffer, start: number): number {
  let at = start;
  for (const text of texts) {
    const length = into.write(text, at + LENGTH_BYTES);
    into.writeUInt32LE(length, at);
    at += LENGTH_BYTES + length;
  }
  return at;
}
