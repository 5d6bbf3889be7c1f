/**
 * Slow artifacts that depend only on the sources are made once for all test files and runs: below node_modules/.cache,
 * in a folder whose name is a digest of the sources.
 */
import { existsSync } from 'node:fs';
import { mkdir, readdir, rename, rm, stat, utimes } from 'node:fs/promises';
import { dirname, join } from 'node:path';

/** Who makes touches it; what is untouched for so long was left by a process that was killed. */
const UNTOUCHED_MS = 120_000;
const TOUCH_MS = 5_000;
const PAUSE_MS = 100;

/**
 * A second process waits for the making of the first.
 * @param make fills the empty folder that it gets
 * @param oldMs from which age on what was made of other sources goes
 */
export async function makeOnce(
  folder: string,
  make: (partial: string) => Promise<void>,
  oldMs = 3_600_000,
): Promise<void> {
  await mkdir(dirname(folder), { recursive: true });
  while (!existsSync(folder)) {
    const partial = `${folder}.partial`;
    const isOurs = await mkdir(partial).then(
      () => true,
      () => false,
    );
    if (isOurs) await makeOurs(folder, partial, make, oldMs);
    else if (await isOlder(partial, UNTOUCHED_MS)) await rm(partial, { recursive: true, force: true });
    else await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
  }
}

async function makeOurs(
  folder: string,
  partial: string,
  make: (partial: string) => Promise<void>,
  oldMs: number,
): Promise<void> {
  for (const name of await readdir(dirname(folder))) {
    const path = join(dirname(folder), name);
    if (path !== partial && (await isOlder(path, oldMs))) await rm(path, { recursive: true, force: true });
  }
  const touching = setInterval(() => {
    const now = new Date();
    void utimes(partial, now, now).catch(() => undefined);
  }, TOUCH_MS);
  try {
    await make(partial);
    await rename(partial, folder);
  } catch (error) {
    await rm(partial, { recursive: true, force: true });
    throw error;
  } finally {
    clearInterval(touching);
  }
}

async function isOlder(path: string, ms: number): Promise<boolean> {
  const found = await stat(path).catch(() => undefined);
  return found !== undefined && Date.now() - found.mtimeMs > ms;
}
