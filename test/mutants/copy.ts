/**
 * Copies of the repository to break. Workspace links (node_modules/@cluster-serving) point into the copy; all other
 * packages are links to those of the checkout, which no mutant changes.
 */
import { execFile } from 'node:child_process';
import { constants } from 'node:fs';
import { access, copyFile, cp, mkdir, readdir, symlink } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';

const WORKSPACES = '@cluster-serving';

/**
 * @param root the checkout, uncommitted changes included
 * @param parent folder of all copies; tests find the shared reference data beside their copy, as beside the checkout
 */
export async function copyRepository(root: string, parent: string, name: string): Promise<string> {
  const copy = join(parent, name);
  const { stdout } = await promisify(execFile)(
    'git',
    ['ls-files', '-z', '--cached', '--others', '--exclude-standard'],
    { cwd: root, maxBuffer: 2 ** 24 },
  );
  for (const file of stdout.split('\0')) {
    // A file that was deleted and not yet committed is still listed.
    if (file === '' || !(await exists(join(root, file)))) continue;
    await mkdir(dirname(join(copy, file)), { recursive: true });
    await copyFile(join(root, file), join(copy, file), constants.COPYFILE_FICLONE);
  }
  await linkPackages(join(root, 'node_modules'), join(copy, 'node_modules'));
  return copy;
}

async function linkPackages(from: string, to: string): Promise<void> {
  await mkdir(to, { recursive: true });
  for (const entry of await readdir(from)) {
    if (entry === '.cache') continue;
    if (entry !== WORKSPACES) await symlink(join(from, entry), join(to, entry));
    else await cp(join(from, entry), join(to, entry), { recursive: true, verbatimSymlinks: true });
  }
}

/** Makes the shared reference data of the checkout, where there is any, that of the copies too. */
export async function linkShared(root: string, parent: string): Promise<void> {
  const shared = join(dirname(root), 'shared');
  if (await exists(shared)) await symlink(shared, join(parent, 'shared'));
}

async function exists(path: string): Promise<boolean> {
  return access(path).then(
    () => true,
    () => false,
  );
}
