/**
 * Extracts `lib` and `functions` of ae017ae from the history of this repository into a temporary folder. It is not below
 * node_modules, where Node does not strip types; a symbolic link in it leads to the project's packages.
 */
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdtemp, rm, symlink } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { OLD_COMMIT } from './old-code.ts';

const PROJECT = fileURLToPath(new URL('../..', import.meta.url));
const MOST_BYTES = 64 * 1024 * 1024;

export interface Checkout {
  readonly root: string;
  remove(): Promise<void>;
}

/** Why the checkout cannot be made: a shallow clone or a source archive has no history. */
export function missingHistory(): string | undefined {
  const { status } = spawnSync('git', ['cat-file', '-e', `${OLD_COMMIT}^{commit}`], { cwd: PROJECT });
  if (status === 0) return undefined;
  return `needs commit ${OLD_COMMIT} in the history of this repository (git fetch --unshallow)`;
}

export async function oldCheckout(): Promise<Checkout> {
  const root = await mkdtemp(join(tmpdir(), `cs-${OLD_COMMIT}-`));
  const paths = ['lib', 'functions', 'package.json'];
  const tar = execFileSync('git', ['archive', '--format=tar', OLD_COMMIT, ...paths], {
    cwd: PROJECT,
    maxBuffer: MOST_BYTES,
  });
  execFileSync('tar', ['-x', '-C', root], { input: tar });
  await symlink(join(PROJECT, 'node_modules'), join(root, 'node_modules'));
  return { root, remove: () => rm(root, { recursive: true, force: true }) };
}
