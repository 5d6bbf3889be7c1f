/**
 * In: a path under the shared data that lies beside the repository. Out: its bytes, or a skipped test that says why.
 * None of it belongs to the project; CI has it.
 */
import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import type { TestContext } from 'node:test';
import { fileURLToPath } from 'node:url';

const SHARED = new URL('../../../shared/', import.meta.url);

/** Absolute path, whether it is there or not. */
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
