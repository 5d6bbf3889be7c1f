/** Reads the image files whose paths are given as inputs. */
import { readFile } from 'node:fs/promises';
import { asError, badRequest } from '../lib/contract/errors.ts';

/** @throws bad_request; a bare string is a path, which is easily forgotten, so the error says so */
export async function readImageFile(path: string): Promise<Uint8Array> {
  try {
    return await readFile(path);
  } catch (error) {
    const { message } = asError(error);
    throw badRequest(`cannot read the image file (a text is a path): ${message}`, { cause: error });
  }
}
