/** Creates a directory with the given files and removes it after the test. */
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import type { TestContext } from 'node:test';

export async function folderOf(
  t: TestContext,
  files: Readonly<Record<string, string | Uint8Array>>,
): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'cs-convert-'));
  t.after(() => rm(folder, { recursive: true, force: true }));
  for (const [name, content] of Object.entries(files)) {
    await mkdir(dirname(join(folder, name)), { recursive: true });
    await writeFile(join(folder, name), content);
  }
  return folder;
}
