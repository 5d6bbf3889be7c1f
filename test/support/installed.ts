/**
 * The packages as a user has them: built, packed by npm, and unpacked into an empty folder's node_modules.
 * No registry is asked: what a manifest names is linked from the checkout's node_modules, and nothing else, so a package
 * that it forgets is not found. test/infra/packages/install.deploy.test.ts has npm itself install them.
 */
import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { copyFile, mkdir, readdir, readFile, rename, symlink, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import type { Packages } from '../../infra/packages/build.ts';
import type { PublishedManifest } from '../../infra/packages/manifest.ts';
import { childEnvironment } from './environment.ts';
import { makeOnce } from './kept.ts';
import { MADE_ONCE } from './packaging.ts';
import { ROOT } from './start.ts';

const execute = promisify(execFile);
const MAX_BUFFER = 16 * 1024 * 1024;

export interface Archives {
  /** Paths of what `npm pack` wrote. */
  readonly sdk: string;
  readonly cli: string;
  readonly onnxImport: string;
  /** The folder of what was packed, with a folder for each package. */
  readonly staged: string;
}

const STAGED = join(ROOT, 'test', 'support', 'staged.ts');
const KEPT = join(ROOT, 'node_modules', '.cache', 'packed');
/** They take 300 MB. */
const OLD_MS = 600_000;
/** At the top of the checkout, what the packages are not made of. */
const APART = new Set(['.cluster-serving', '.git', '.serverless', 'bench', 'dist', 'test']);
/** The lock file identifies an installation. */
const NOWHERE = new Set(['node_modules', '__pycache__']);

/** Into `folder`, absolute. Built once for the same content of the checkout. */
export async function packPackages(folder: string): Promise<Archives> {
  const kept = join(KEPT, await stateOfCheckout());
  await makeOnce(kept, makePacked, OLD_MS);
  const copied = async (name: string) => {
    await copyFile(join(kept, name), join(folder, name));
    return join(folder, name);
  };
  return {
    sdk: await copied('sdk.tgz'),
    cli: await copied('cli.tgz'),
    onnxImport: await copied('onnxImport.tgz'),
    staged: join(kept, 'staged'),
  };
}

async function makePacked(folder: string): Promise<void> {
  const env = childEnvironment(MADE_ONCE);
  const built = await execute(process.execPath, [STAGED, join(folder, 'staged')], { env });
  const packages = JSON.parse(built.stdout) as Packages;
  for (const [name, { folder: from }] of Object.entries(packages)) {
    const words = ['pack', from, '--silent', '--offline'];
    const { stdout } = await execute('npm', words, { cwd: folder, env });
    await rename(join(folder, stdout.trim()), join(folder, `${name}.tgz`));
  }
}

/** A digest of the files that the packages can be made of, of what is installed, and of this Node. */
async function stateOfCheckout(): Promise<string> {
  const digest = createHash('sha256').update(process.version);
  digest.update(await readFile(join(ROOT, 'node_modules', '.package-lock.json')));
  const add = async (folder: string, apart: ReadonlySet<string>): Promise<void> => {
    const entries = await readdir(folder, { withFileTypes: true });
    for (const entry of entries.toSorted((a, b) => (a.name < b.name ? -1 : 1))) {
      const path = join(folder, entry.name);
      if (apart.has(entry.name) || NOWHERE.has(entry.name)) continue;
      if (entry.isDirectory()) await add(path, NOWHERE);
      else if (entry.isFile()) digest.update(`${path}\n`).update(await readFile(path));
    }
  };
  await add(ROOT, APART);
  return digest.digest('hex');
}

export interface Installed {
  /** The user's folder, absolute. */
  readonly folder: string;
  /** The package in it, absolute. */
  readonly path: string;
  readonly manifest: PublishedManifest;
  /** Links packages that the installation left out. */
  link(names: readonly string[]): Promise<void>;
  /** `npx <words>` in the user's folder. */
  npx(...words: string[]): Promise<{ readonly stdout: string; readonly stderr: string }>;
}

/** @param without dependencies that are not installed */
export async function install(
  archive: string,
  folder: string,
  without: readonly string[] = [],
): Promise<Installed> {
  const unpacked = join(folder, 'unpacked');
  await mkdir(unpacked, { recursive: true });
  await execute('tar', ['-xzf', archive, '-C', unpacked, '--strip-components=1']);
  const manifest = JSON.parse(await readFile(join(unpacked, 'package.json'), 'utf8')) as PublishedManifest;
  const path = join(folder, 'node_modules', manifest.name);
  await mkdir(dirname(path), { recursive: true });
  await rename(unpacked, path);
  await writeFile(join(folder, 'package.json'), '{ "private": true }\n');
  await linkBins(folder, path);
  const link = async (names: readonly string[]) => {
    for (const name of names) {
      const place = join(folder, 'node_modules', name);
      await mkdir(dirname(place), { recursive: true });
      await symlink(join(ROOT, 'node_modules', name), place);
      await linkBins(folder, place);
    }
  };
  const wanted = { ...manifest.dependencies, ...manifest.optionalDependencies };
  const there = new Set(await readdir(join(ROOT, 'node_modules')));
  const bundled = new Set(manifest.bundleDependencies);
  // An optional one is of one system only.
  const found = Object.keys(wanted).filter(
    (name) => !bundled.has(name) && (name in manifest.dependencies || there.has(name)),
  );
  await link(found.filter((name) => !without.includes(name)));
  const npx = (...words: string[]) =>
    execute('npx', ['--offline', '--no', '--', ...words], {
      cwd: folder,
      // Warnings of npm itself on this machine do not come from the command.
      env: childEnvironment({ npm_config_loglevel: 'error' }),
      maxBuffer: MAX_BUFFER,
    });
  return { folder, path, manifest, link, npx };
}

const UNREACHABLE = /ENOTFOUND|ECONNREFUSED|EAI_AGAIN|ETIMEDOUT|ENETUNREACH/;

/** By default npm waits more than a minute before it asks again for each optional package of a registry that it cannot reach. */
const SOON = { npm_config_fetch_retry_mintimeout: '500', npm_config_fetch_retry_maxtimeout: '1000' };

/** npm's own answer to `npm install <archives>` in an empty folder; false where the registry cannot be reached. */
export async function npmInstall(
  folder: string,
  words: readonly string[],
  environment: Readonly<Record<string, string>> = {},
): Promise<boolean> {
  await writeFile(join(folder, 'package.json'), '{ "private": true }\n');
  const env = childEnvironment({ ...SOON, npm_config_loglevel: 'error', ...environment });
  const parameters = ['install', ...words, '--prefer-offline', '--no-audit'];
  try {
    await execute('npm', parameters, { cwd: folder, env, maxBuffer: MAX_BUFFER });
    return true;
  } catch (error) {
    if (UNREACHABLE.test(String(Object(error).stderr))) return false;
    throw error;
  }
}

/** As npm does for every package at the top of node_modules. */
async function linkBins(folder: string, path: string): Promise<void> {
  const { name, bin = {} } = JSON.parse(await readFile(join(path, 'package.json'), 'utf8')) as {
    name: string;
    bin?: string | Record<string, string>;
  };
  const bins = join(folder, 'node_modules', '.bin');
  await mkdir(bins, { recursive: true });
  for (const [command, script] of Object.entries(typeof bin === 'string' ? { [name]: bin } : bin))
    await symlink(join(path, script), join(bins, command));
}

/** A Node on this machine that is older than 24 and new enough for the SDK; undefined where there is none. */
export async function olderNode(): Promise<string | undefined> {
  for (const path of ['/usr/bin/node', '/usr/local/bin/node']) {
    const version = await execute(path, ['--version']).then(
      ({ stdout }) => stdout,
      () => '',
    );
    if (/^v2[0-3]\./.test(version)) return path;
  }
  return undefined;
}
