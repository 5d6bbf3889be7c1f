/** In: names of files. Out: their sizes and SHA-256. Trap: models are large, so nothing is read whole. */
import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { join } from 'node:path';
import { ServingError } from '../lib/contract/errors.ts';
import type { FileFacts } from './passport.ts';

const READ_BYTES = 1024 * 1024;

/** @throws bad_model naming the file that cannot be read */
export async function fileFacts(directory: string, paths: readonly string[]): Promise<FileFacts[]> {
  const facts: FileFacts[] = [];
  for (const path of paths) {
    const hash = createHash('sha256');
    let bytes = 0;
    try {
      for await (const chunk of createReadStream(join(directory, path), { highWaterMark: READ_BYTES })) {
        bytes += (chunk as Buffer).length;
        hash.update(chunk as Buffer);
      }
    } catch (error) {
      const message = `${join(directory, path)} cannot be read: ${(error as Error).message}`;
      throw new ServingError('bad_model', message, { cause: error });
    }
    facts.push({ path, bytes, sha256: hash.digest('hex') });
  }
  return facts;
}
