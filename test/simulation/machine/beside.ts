/** The sources of another commit, beside the checkout, so that environments of two releases run side by side. */
import { execFileSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, renameSync, rmSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const ROOT = fileURLToPath(new URL('../../..', import.meta.url));
const PROGRAMS = 'test/simulation/programs';
const FOLDERS = ['lib', 'functions', 'sdk', 'local', 'embedded-redis', 'package.json', 'tsconfig.json'];

/** @returns the folder of its sources, with the programs of this checkout */
export function sourcesOf(ref: string): string {
  const commit = execFileSync('git', ['rev-parse', '--verify', `${ref}^{commit}`], {
    cwd: ROOT,
    encoding: 'utf8',
  }).trim();
  const folder = join(ROOT, 'node_modules', '.cache', 'simulation', commit);
  if (!existsSync(folder)) {
    const partial = `${folder}.partial`;
    rmSync(partial, { recursive: true, force: true });
    mkdirSync(partial, { recursive: true });
    const archive = execFileSync('git', ['archive', commit, ...FOLDERS], { cwd: ROOT, maxBuffer: 2 ** 29 });
    execFileSync('tar', ['-x', '-C', partial], { input: archive });
    symlinkSync(join(ROOT, 'node_modules'), join(partial, 'node_modules'));
    renameSync(partial, folder);
  }
  rmSync(join(folder, PROGRAMS), { recursive: true, force: true });
  cpSync(join(ROOT, PROGRAMS), join(folder, PROGRAMS), { recursive: true });
  return folder;
}
