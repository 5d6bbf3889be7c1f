/** Runs the bench at a commit, in a work tree of its own with the packages of that commit. */
import { execFile, execFileSync } from 'node:child_process';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import type { Report } from '../report.ts';

const run = promisify(execFile);
const INSTALL_MS = 600_000;
const OUTPUT_BYTES = 64 * 1024 * 1024;

export interface BenchRun {
  readonly scenarios: readonly string[];
  /** Only cases whose name contains it. */
  readonly only: string;
  readonly isQuick: boolean;
  readonly limitMs: number;
}

/** Runs it in a folder. @throws Error with the end of what it printed */
export async function benchIn(
  folder: string,
  { scenarios, only, isQuick, limitMs }: BenchRun,
): Promise<Report> {
  const made = await mkdtemp(join(tmpdir(), 'cluster-serving-nightly-'));
  const file = join(made, 'run.json');
  const options = [...(only === '' ? [] : ['--case', only]), ...(isQuick ? ['--quick'] : [])];
  try {
    const args = ['--expose-gc', 'bench/run.ts', ...scenarios, ...options, '--json', file];
    await run(process.execPath, args, { cwd: folder, timeout: limitMs, maxBuffer: OUTPUT_BYTES });
    return JSON.parse(await readFile(file, 'utf8'));
  } finally {
    await rm(made, { recursive: true, force: true });
  }
}

/** @returns undefined when it cannot be installed, or the bench of that commit fails */
export async function benchAt(root: string, commit: string, asked: BenchRun): Promise<Report | undefined> {
  const folder = await mkdtemp(join(tmpdir(), 'cluster-serving-commit-'));
  const git = (...args: string[]) => run('git', args, { cwd: root });
  try {
    await git('worktree', 'add', '--detach', '--force', folder, commit);
    await run('npm', ['ci', '--prefer-offline', '--no-audit', '--no-fund'], {
      cwd: folder,
      timeout: INSTALL_MS,
    });
    return await benchIn(folder, asked);
  } catch (error) {
    console.error(`${commit}: ${String(error).slice(0, 500)}`);
    return undefined;
  } finally {
    await git('worktree', 'remove', '--force', folder).catch(() => undefined);
    await rm(folder, { recursive: true, force: true });
  }
}

/** The commits after one up to HEAD along its first parents, the oldest first. @throws Error when it is not among their ancestors */
export function commitsSince(root: string, commit: string): string[] {
  const git = (...args: string[]) => execFileSync('git', args, { cwd: root, encoding: 'utf8' });
  git('merge-base', '--is-ancestor', commit, 'HEAD');
  return git('rev-list', '--first-parent', '--reverse', `${commit}..HEAD`).split('\n').filter(Boolean);
}

/** `1234abcd lib: what changed`. */
export function nameOf(root: string, commit: string): string {
  return execFileSync('git', ['log', '-1', '--format=%h %s', commit], { cwd: root, encoding: 'utf8' }).trim();
}
