/**
 * In: nothing. Out: the folder this code was installed into, and what its package.json says.
 * Trap: the same code runs from the repository (local/, cli/) and bundled (cli.mjs and its chunks), so nothing can be
 * found by a fixed relative path; the nearest package.json above is the one fixed point.
 */
import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { ServingError } from '../lib/contract/errors.ts';

export interface Installation {
  /** Absolute. */
  readonly folder: string;
  readonly version: string;
  /** The script behind the command `cluster-serving`, absolute. */
  readonly command: string;
}

export function installation(): Installation {
  const folder = packageFolder();
  const { version, bin } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')) as {
    version: string;
    bin: Readonly<Record<string, string>>;
  };
  return { folder, version, command: join(folder, bin['cluster-serving'] as string) };
}

export function packageFolder(): string {
  for (let folder = dirname(fileURLToPath(import.meta.url)); ; folder = dirname(folder)) {
    if (existsSync(join(folder, 'package.json'))) return folder;
    if (folder === dirname(folder)) throw new ServingError('internal', 'there is no package.json above us');
  }
}
