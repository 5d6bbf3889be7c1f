/**
 * In: a path, or "-" for stdin. Out: its bytes, and whether they are an image or JSON.
 * Trap: a file's name says nothing reliable; its first bytes do.
 */
import { readFile, stat } from 'node:fs/promises';
import { buffer } from 'node:stream/consumers';
import { ServingError } from '../lib/contract/errors.ts';

/** Larger inputs are split by their owner: one JSON text has to fit into memory several times. */
const MAX_FILE_BYTES = 256 * 1024 * 1024;

/** @throws bad_request naming the file */
export async function readInput(path: string): Promise<Buffer> {
  if (path === '-') return limited('stdin', await buffer(process.stdin));
  try {
    const { size } = await stat(path);
    if (size > MAX_FILE_BYTES) throw tooLarge(path, size);
    return await readFile(path);
  } catch (error) {
    if (error instanceof ServingError) throw error;
    throw new ServingError('bad_request', `${path} cannot be read: ${(error as Error).message}`, {
      cause: error,
    });
  }
}

/** JSON texts begin with a bracket, after blanks; no image does. */
export function isJson(bytes: Uint8Array): boolean {
  return /^\s*[[{]/.test(Buffer.from(bytes.subarray(0, 1024)).toString('latin1'));
}

function limited(name: string, bytes: Buffer): Buffer {
  if (bytes.length > MAX_FILE_BYTES) throw tooLarge(name, bytes.length);
  return bytes;
}

function tooLarge(name: string, size: number): ServingError {
  return new ServingError('too_large', `${name}: ${size} bytes are over the limit of ${MAX_FILE_BYTES}`);
}
