/** The decoders' error for a picture that they refuse. */
import { badInput, ServingError } from '../../contract/errors.ts';

/** A bad_input: the file is cut, damaged or contradicts itself. */
export function broken(format: string, why: string): ServingError {
  return badInput(`broken ${format}: ${why}`);
}

/** @throws bad_input when the file has fewer than `end` bytes */
export function assertReaches(format: string, bytes: Uint8Array, end: number): void {
  if (end > bytes.length) throw broken(format, `it ends at byte ${bytes.length}, ${end} are needed`);
}

export function tooLong(format: string, expected: number): ServingError {
  return broken(format, `its image data is longer than the ${expected} bytes its header promises`);
}

export function tooShort(format: string, actual: number, expected: number): ServingError {
  return broken(format, `its image data is ${actual} bytes, its header promises ${expected}`);
}

/** An unsupported_media_type: a kind of the format that is not decoded. */
export function unsupported(what: string, expected: string): ServingError {
  return new ServingError('unsupported_media_type', `${what} is not supported, expected ${expected}`);
}
