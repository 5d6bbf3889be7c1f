/**
 * Runs `serverless package` in a copy of the project in a temp folder, because osls writes dist/ and .serverless/
 * into the project, where another process may do the same. Packaging must work without network and credentials, so it
 * gets neither, if the machine allows taking the network away.
 */
import { execFile, spawnSync } from 'node:child_process';
import { mkdir, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import type { Template } from './template.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const COPIED = [
  'onnx-import',
  'examples/digits',
  'functions',
  'infra',
  'lib',
  'package.json',
  'python',
  'release',
  'serverless.yml',
  'shared-redis.yml',
];
const execute = promisify(execFile);
const SERVERLESS = join(ROOT, 'node_modules', 'serverless', 'bin', 'serverless.js');
const MAX_SECONDS = 600;
/** Variables of osls: what all packages have in common is made once for all tests. */
export const MADE_ONCE = { NODE_OPTIONS: `--import=${new URL('once.mjs', import.meta.url).href}` } as const;

export interface PackageRequest {
  /** Content of config.yaml. */
  readonly config?: string;
  /** Other files, by name, such as a worker. */
  readonly files?: Readonly<Record<string, string>>;
  readonly options?: readonly string[];
  /** The Node that runs osls. Default: this one. */
  readonly node?: string;
  /** True: osls reuses nothing. */
  readonly isPlain?: boolean;
}

export interface Artifacts {
  /** The project. */
  readonly folder: string;
  /** Path of a function's archive. */
  archive(functionName: string): string;
  template(): Promise<Template>;
}

/** The artifacts of a copy of the project. */
export interface Packaged extends Artifacts {
  readonly exitCode: number;
  readonly output: string;
  remove(): Promise<void>;
}

export async function packageProject(request: PackageRequest = {}): Promise<Packaged> {
  const folder = await copyProject();
  if (request.config !== undefined) await writeFile(join(folder, 'config.yaml'), request.config);
  for (const [name, text] of Object.entries(request.files ?? {})) {
    await mkdir(dirname(join(folder, name)), { recursive: true });
    await writeFile(join(folder, name), text);
  }
  const command = [request.node ?? process.execPath, SERVERLESS, 'package', ...(request.options ?? [])];
  const result = await run([...withoutNetwork(), ...command], folder, request.isPlain ? {} : MADE_ONCE);
  return { ...result, ...packagedIn(folder), remove: () => removeProject(folder) };
}

/** The files that `serverless package` wrote into a folder. */
export function packagedIn(folder: string): Artifacts {
  return {
    folder,
    archive: (functionName) => join(folder, '.serverless', `${functionName}.zip`),
    template: async () =>
      JSON.parse(
        await readFile(join(folder, '.serverless', 'cloudformation-template-update-stack.json'), 'utf8'),
      ) as Template,
  };
}

/**
 * Into a new temp folder, without a config.yaml. node_modules lie above it, where osls finds packages, but does not look
 * at each of their files for every archive. In test/infra/packages/packages.deploy.test.ts they lie as in a checkout.
 */
export async function copyProject(): Promise<string> {
  const parent = await mkdtemp(join(tmpdir(), 'cluster-serving-package-'));
  const folder = join(parent, 'project');
  // Node's own takes three times the processor time for files that are so small.
  for (const [place, names] of Map.groupBy(COPIED, dirname)) {
    await mkdir(join(folder, place), { recursive: true });
    await execute('cp', ['-R', ...names, join(folder, place)], { cwd: ROOT });
  }
  await symlink(join(ROOT, 'node_modules'), join(parent, 'node_modules'));
  return folder;
}

export async function removeProject(folder: string): Promise<void> {
  await rm(dirname(folder), { recursive: true, force: true });
}

/** osls in a copy of the project, with the network and these variables and no others. */
export function runServerless(
  folder: string,
  parameters: readonly string[],
  variables: Readonly<Record<string, string>>,
) {
  return run([process.execPath, SERVERLESS, ...parameters], folder, { ...MADE_ONCE, ...variables });
}

/** The command that takes the network away: Linux namespaces, as root or as a user. Empty where neither is allowed. */
export function withoutNetwork(): readonly string[] {
  const commands = [
    ['unshare', '--net'],
    ['unshare', '--net', '--map-root-user'],
  ];
  return commands.find(([command, ...rest]) => works(command as string, [...rest, 'true'])) ?? [];
}

function works(command: string, parameters: readonly string[]): boolean {
  return spawnSync(command, parameters, { stdio: 'ignore' }).status === 0;
}

function run(
  [command, ...parameters]: readonly string[],
  cwd: string,
  variables: Readonly<Record<string, string>> = {},
) {
  // Only PATH and HOME: no AWS_*, NODE_PATH or NODE_OPTIONS of the tests' user.
  const env = { PATH: process.env['PATH'], HOME: cwd, ...variables };
  return new Promise<{ exitCode: number; output: string }>((resolve) => {
    const options = { cwd, env, timeout: MAX_SECONDS * 1000, maxBuffer: 16 * 1024 * 1024 };
    execFile(command as string, parameters, options, (error, stdout, stderr) => {
      const exitCode = typeof error?.code === 'number' ? error.code : error ? -1 : 0;
      resolve({ exitCode, output: `${stdout}${stderr}` });
    });
  });
}
