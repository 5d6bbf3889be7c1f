/** Computes the size and SHA-256 of files as streams, because models are too large to be read whole. */
import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import { badModel } from '../lib/contract/errors.ts';
import { digestFile } from '../lib/registry/download.ts';
import type { FileFacts } from './import-report.ts';

/** @throws bad_model naming the file that cannot be read */
export async function fileFacts(directory: string, paths: readonly string[]): Promise<FileFacts[]> {
  const facts: FileFacts[] = [];
  for (const path of paths) {
    const file = join(directory, path);
    try {
      facts.push({ path, bytes: (await stat(file)).size, sha256: await digestFile(file, 'sha256') });
    } catch (error) {
      throw badModel(`${file} cannot be read: ${(error as Error).message}`, { cause: error });
    }
  }
  return facts;
}
