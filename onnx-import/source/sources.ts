/** Reads the files of a model as streams, because they are too large to be read whole: their sizes and SHA-256, or a copy. */
import { constants } from 'node:fs';
import { copyFile, mkdir, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { badModel } from '../../lib/contract/errors.ts';
import { digestFile } from '../../lib/registry/digest.ts';
import type { FoundModel } from './detect.ts';
import { assertWithin } from './mlflow.ts';

export interface FileFacts {
  /** Relative to its directory. */
  readonly path: string;
  readonly bytes: number;
  /** Hex. */
  readonly sha256: string;
}

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

/** @throws bad_model naming the file that cannot be copied */
export async function copySource({ directory, home, mlflow }: FoundModel, path: string, target: string) {
  const source = join(directory, path);
  await mkdir(dirname(target), { recursive: true });
  try {
    if (mlflow) await assertWithin(home, source);
    await copyFile(source, target, constants.COPYFILE_FICLONE);
  } catch (error) {
    throw badModel(`${source} cannot be copied: ${(error as Error).message}`, { cause: error });
  }
}
