/**
 * `npm run build:package`. In: the project. Out: dist/package, which can be published or packed as it is: the SDK and
 * the command line as JavaScript, declarations, a package.json of its own.
 * Trap: Node strips no types below node_modules, so an installed package must not hold TypeScript that runs; and the
 * repository's package.json points at TypeScript, which its own README and tests run unbuilt. Hence two manifests.
 */
import { execFile } from 'node:child_process';
import { chmod, cp, mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { dirname, join, relative, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { build, type Metafile } from 'esbuild';

export interface PackageRequest {
  /** The folder with package.json, absolute. */
  readonly root: string;
  /** Relative to root, or absolute. Replaced. Default "dist/package". */
  readonly outFolder?: string;
}

export interface StagedPackage {
  /** Absolute. */
  readonly folder: string;
  readonly manifest: Manifest;
}

type Versions = Readonly<Record<string, string>>;

interface Manifest {
  readonly name: string;
  readonly version: string;
  readonly description: string;
  readonly license: string;
  readonly type: 'module';
  readonly engines: { readonly node: string };
  readonly exports: Readonly<Record<string, unknown>>;
  readonly bin: Readonly<Record<string, string>>;
  /** What the SDK loads. */
  readonly dependencies: Versions;
  /** What only the local service loads: `npm install --omit=optional` is enough for the SDK. */
  readonly optionalDependencies: Versions;
}

interface RepositoryManifest extends Omit<Manifest, 'dependencies' | 'optionalDependencies'> {
  readonly workspaces: readonly string[];
  readonly dependencies?: Versions;
  readonly devDependencies: Versions;
}

const SDK = 'sdk.mjs';
const CLI = 'cli.mjs';
const TYPES = 'types';
const NODE = '>=24';
/** Beside the code. Of the sample, what a start without a config serves. */
const COPIED = [
  'README.md',
  'LICENSE',
  'CHANGELOG.md',
  'docs',
  'examples/digits/README.md',
  'examples/digits/config.yaml',
  'examples/digits/labels.json',
  'examples/digits/images',
  'examples/digits/model',
];

export async function buildPackage({
  root,
  outFolder = 'dist/package',
}: PackageRequest): Promise<StagedPackage> {
  const folder = resolve(root, outFolder);
  await rm(folder, { recursive: true, force: true });
  const [metafile] = await Promise.all([
    bundle(root, folder),
    declare(root, join(folder, TYPES)),
    copyScripts(join(root, 'cli', 'bin'), join(folder, 'bin')),
    ...COPIED.map((path) => cp(join(root, path), join(folder, path), { recursive: true })),
  ]);
  const read = async (place: string) =>
    JSON.parse(await readFile(join(root, place, 'package.json'), 'utf8')) as RepositoryManifest;
  const repository = await read('.');
  const parts = await Promise.all(repository.workspaces.map(read));
  const versions = Object.assign({}, ...parts.map((part) => part.dependencies)) as Versions;
  const manifest = manifestOf(
    { ...repository, bin: (await read('cli')).bin },
    versions,
    packagesOf(metafile, root, folder),
  );
  await writeFile(join(folder, 'package.json'), `${JSON.stringify(manifest, null, 2)}\n`);
  return { folder, manifest };
}

async function bundle(root: string, folder: string): Promise<Metafile> {
  const { metafile } = await build({
    // The fence's process is looked for beside the chunk that starts it.
    entryPoints: {
      sdk: 'sdk/index.ts',
      cli: 'cli/main.ts',
      'chunks/isolated-process': 'lib/compose/isolated-process.ts',
    },
    absWorkingDir: root,
    outdir: folder,
    outExtension: { '.js': '.mjs' },
    chunkNames: 'chunks/[name]-[hash]',
    bundle: true,
    packages: 'external',
    // What is imported on demand stays so: the SDK loads S3 with the first large record, a command its own part.
    splitting: true,
    platform: 'node',
    format: 'esm',
    target: 'node24',
    metafile: true,
    logLevel: 'warning',
  });
  return metafile;
}

/** Declarations of the SDK and of what they refer to, and no others. */
async function declare(root: string, folder: string): Promise<void> {
  const require = createRequire(join(root, 'package.json'));
  const compiler = join(dirname(require.resolve('typescript/package.json')), 'bin', 'tsc');
  const project = join(root, 'infra', 'build', 'package.tsconfig.json');
  try {
    await promisify(execFile)(process.execPath, [compiler, '-p', project, '--outDir', folder]);
  } catch (error) {
    const { stdout, message } = error as Error & { stdout?: string };
    throw new Error(`the declarations cannot be made: ${stdout || message}`, { cause: error });
  }
  const kept = new Set<string>();
  await keepDeclaration(folder, 'sdk/index.d.ts', kept);
  for (const name of await readdir(folder, { recursive: true })) {
    if (name.endsWith('.d.ts') && !kept.has(name)) await rm(join(folder, name));
  }
}

/**
 * Rewrites the paths of a declaration: `./x.ts` names a file that is not there, and compilers before 5.0 refuse the
 * ending; `./x.js` is what all of them read as x.d.ts.
 */
async function keepDeclaration(folder: string, file: string, kept: Set<string>): Promise<void> {
  if (kept.has(file)) return;
  kept.add(file);
  const text = await readFile(join(folder, file), 'utf8');
  const found: string[] = [];
  const rewritten = text.replaceAll(
    /(from |import\()(['"])(\.{1,2}\/[^'"]+)\.ts\2/g,
    (_, before, quote, path) => {
      found.push(join(dirname(file), `${path}.d.ts`));
      return `${before}${quote}${path}.js${quote}`;
    },
  );
  await writeFile(join(folder, file), rewritten);
  for (const next of found) await keepDeclaration(folder, next, kept);
}

/** The commands' scripts, which load the bundle in place of the source. */
async function copyScripts(from: string, to: string): Promise<void> {
  await mkdir(to, { recursive: true });
  for (const name of await readdir(from)) {
    const text = await readFile(join(from, name), 'utf8');
    const path = join(to, name);
    await writeFile(path, text.replace("'../main.ts'", `'../${CLI}'`));
    if (text.startsWith('#!')) await chmod(path, 0o755);
  }
}

interface Packages {
  readonly sdk: ReadonlySet<string>;
  readonly cli: ReadonlySet<string>;
}

/** The outside packages each bundle may load, on demand included: the bundler's own account of it. */
function packagesOf(metafile: Metafile, root: string, folder: string): Packages {
  const reach = (entry: string) => {
    const seen = new Set<string>();
    const names = new Set<string>();
    const visit = (output: string) => {
      if (seen.has(output)) return;
      seen.add(output);
      for (const { path, external } of metafile.outputs[output]?.imports ?? []) {
        if (!external) visit(path);
        else if (!path.startsWith('node:')) names.add(packageName(path));
      }
    };
    visit(relative(root, join(folder, entry)));
    return names;
  };
  return { sdk: reach(SDK), cli: reach(CLI) };
}

function packageName(specifier: string): string {
  return specifier
    .split('/')
    .slice(0, specifier.startsWith('@') ? 2 : 1)
    .join('/');
}

function manifestOf(repository: RepositoryManifest, versions: Versions, { sdk, cli }: Packages): Manifest {
  const { version, description, license, devDependencies } = repository;
  const versionOf = (wanted: string) => {
    const found = versions[wanted] ?? devDependencies[wanted];
    if (found === undefined) throw new Error(`${wanted} is imported and not in package.json`);
    return found;
  };
  // A library lets its user's npm choose among compatible versions; the local service runs with what it was tested.
  const shared = [...sdk].sort().map((wanted) => [wanted, `^${versionOf(wanted)}`]);
  const own = [...cli].filter((wanted) => !sdk.has(wanted)).sort();
  return {
    name: 'cluster-serving',
    version,
    description,
    license,
    type: 'module',
    engines: { node: NODE },
    exports: {
      '.': { types: `./${TYPES}/sdk/index.d.ts`, default: `./${SDK}` },
      './package.json': './package.json',
    },
    bin: repository.bin,
    dependencies: Object.fromEntries(shared) as Versions,
    optionalDependencies: Object.fromEntries(own.map((wanted) => [wanted, versionOf(wanted)])),
  };
}

if (import.meta.main) {
  const root = fileURLToPath(new URL('../..', import.meta.url));
  const { folder, manifest } = await buildPackage({ root });
  console.log(`${manifest.name} ${manifest.version} is in ${relative(process.cwd(), folder)}`);
}
