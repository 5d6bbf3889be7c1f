/** Runs command lines and returns their output and exit code, in folders whose service ends with the test. */
import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtemp, readdir, realpath, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { untilGone } from '../../local/machine/process.ts';
import { findRunning } from '../../local/service/data-folder.ts';
import { childEnvironment } from '../support/environment.ts';
import type { Hooks } from '../support/runner.ts';

export const ROOT = fileURLToPath(new URL('../..', import.meta.url));
export const IMAGES = join(ROOT, 'examples', 'digits', 'images');
export const MODEL = join(ROOT, 'examples', 'digits', 'model');

export interface Ran {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

export interface RunOptions {
  readonly cwd?: string;
  readonly stdin?: string;
  readonly env?: Readonly<Record<string, string>>;
  /** Script of cli/bin, default cluster-serving. */
  readonly script?: string;
  /** Gets the process, to stop it. */
  readonly onStart?: (child: ChildProcess) => void;
}

/** Runs `cluster-serving <args>` without a terminal and without any account of this machine. */
export async function cli(args: readonly string[], options: RunOptions = {}): Promise<Ran> {
  const { cwd, stdin = '', env = {}, script = 'cluster-serving', onStart } = options;
  const child = spawn(process.execPath, [join(ROOT, 'cli', 'bin', `${script}.mjs`), ...args], {
    cwd,
    env: childEnvironment(env),
  });
  const code = new Promise<number | null>((resolve) => {
    child.once('close', resolve);
  });
  child.stdin.end(stdin);
  onStart?.(child);
  const [stdout, stderr] = await Promise.all([text(child.stdout), text(child.stderr)]);
  return { code: await code, stdout, stderr };
}

/** With the one JSON document that `--json` promises. */
export interface CliAnswer<T> extends Ran {
  readonly json: T;
}

export async function cliJson(
  args: readonly string[],
  options: RunOptions = {},
): Promise<CliAnswer<unknown>> {
  return jsonOf(await cli([...args, '--json'], options));
}

/** @throws when stdout is anything else than one JSON document */
export function jsonOf(ran: Ran): CliAnswer<unknown> {
  try {
    return { ...ran, json: JSON.parse(ran.stdout) as unknown };
  } catch (error) {
    throw new Error(`not one JSON document: ${ran.stdout.slice(0, 2000)}\n${ran.stderr}`, { cause: error });
  }
}

/** For a suite's `before`: what it opened goes also when it fails, for then no `after` runs. */
export function cleaningUp(cleanups: readonly (() => Promise<void>)[], work: () => Promise<void>) {
  return async () => {
    try {
      await work();
    } catch (error) {
      for (const cleanup of cleanups) await cleanup();
      throw error;
    }
  };
}

/** A folder to be called in; what runs on its .cluster-serving is gone after the test, however it went. */
export async function serviceFolder(hooks: Hooks): Promise<string> {
  const folder = await realpath(await mkdtemp(join(tmpdir(), 'cs-cli-')));
  hooks.after(async () => {
    const names = (await readdir(folder)).filter((name) => name.startsWith('.cluster-serving'));
    for (const name of names) {
      const running = await findRunning(join(folder, name));
      if (!running || running.process.pid === process.pid) continue;
      process.kill(running.process.pid, 'SIGKILL');
      await untilGone(running.process, 5_000);
    }
    await rm(folder, { recursive: true, force: true });
  });
  return folder;
}
