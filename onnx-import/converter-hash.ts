/**
 * Hashes the converters' own code, so that imports of an older converter are not reused. The version in package.json
 * does not change with a fix in a checkout. The code is the chunks beside this one in the installed package, and the
 * sources when a deployment has bundled this file.
 */
import { createHash } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const MAX_FILES = 2_000;

let known: Promise<string> | undefined;

/** Computed once per process. */
export function converterHash(): Promise<string> {
  known ??= hashOfCode(fileURLToPath(import.meta.url));
  return known;
}

async function hashOfCode(here: string): Promise<string> {
  const sources = join(dirname(here), '..', 'onnx-import');
  const names = await codeIn(sources, '.ts');
  return names.includes('converter-hash.ts')
    ? hashOf(sources, names)
    : hashOf(dirname(here), await codeIn(dirname(here), '.mjs'));
}

/** Sorted paths relative to the folder; empty when there is no such folder. */
async function codeIn(folder: string, ending: string): Promise<string[]> {
  const names = await readdir(folder, { recursive: true }).catch(() => []);
  return names
    .filter((name) => name.endsWith(ending))
    .sort()
    .slice(0, MAX_FILES);
}

/** @param names relative to the folder. Exported for its test */
export async function hashOf(folder: string, names: readonly string[]): Promise<string> {
  const hash = createHash('sha256');
  for (const name of names) {
    const code = await readFile(join(folder, name));
    hash.update(`${name} ${code.length}\n`).update(code);
  }
  return hash.digest('hex').slice(0, 16);
}
