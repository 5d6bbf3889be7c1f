/**
 * Reads shared test data from beside the repository, or skips the test with the reason. The data is not part of the
 * project; CI has it.
 */
import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import type { TestContext } from 'node:test';
import { fileURLToPath } from 'node:url';

const SHARED = new URL('../../../shared/', import.meta.url);

/** The absolute path, whether or not it exists. */
export function sharedPath(path: string): string {
  return fileURLToPath(new URL(path, SHARED));
}

export async function fixture(t: TestContext, path: string): Promise<Buffer | undefined> {
  const file = sharedPath(path);
  if (!existsSync(file)) {
    t.skip(`needs ../shared/${path}, which is not on this machine`);
    return undefined;
  }
  return readFile(file);
}
