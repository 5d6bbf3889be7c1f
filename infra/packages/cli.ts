/**
 * Builds `@cluster-serving/cli`: the commands and the local service as JavaScript, the deployment (the osls plugin,
 * the parts of the stack, the bundled functions), the digits sample and the documents.
 */

import { cp, mkdir, writeFile } from 'node:fs/promises';
import { join, relative } from 'node:path';
import { build, type Metafile } from 'esbuild';
import { writePage } from '../../console/build.ts';
import { present } from '../../lib/contract/present.ts';
import { type Processor, type ResultStore, RUNTIME } from '../build/function-folder.ts';
import { buildFunctions } from '../build/functions.ts';
import { CONTENTS, prebuiltFolder } from '../build/prebuilt.ts';
import { copyDeclarations } from './declarations.ts';
import { licensesOf } from './licenses.ts';
import {
  dependenciesOf,
  externalsOf,
  imported,
  type Manifests,
  type PackageParts,
  type PublishedManifest,
  publishedBase,
  type StagedPackage,
  stage,
  type Versions,
} from './manifest.ts';
import { bundleRuntime } from './runtime.ts';
import { copyScripts } from './scripts.ts';

/** The workspaces that are bundled into it. */
const WORKSPACES = [
  'cli',
  'embedded-redis',
  'functions',
  'infra',
  'lib',
  'local',
  'onnx-import',
  'release',
  'sdk',
];
/** Only the checkout bundles functions and the page; the package contains them. */
const CHECKOUT_ONLY = new Set(['esbuild']);
const PROCESSORS: readonly Processor[] = ['x64', 'arm64'];
const STORES: readonly ResultStore[] = ['redis', 'dynamodb'];
/** osls may run on this version, the commands need a newer one. */
const TARGET = 'node20';
const TYPES = 'types';
/** The modules that infra/load.cjs loads. */
const LOADED = [
  'account/advice',
  'template/config',
  'template/conventions',
  'account/deployed-stack',
  'account/targets',
  'publish',
  'template/shared-redis',
  'template/stage-parameters',
  'build/prebuilt',
  'build/sizes',
  'build/worker',
  'build/worker-image',
];
/** From the sample, only what a start without a config needs is copied. */
const COPIED = [
  'LICENSE',
  'CHANGELOG.md',
  'SECURITY.md',
  'docs',
  'examples/digits/README.md',
  'examples/digits/config.yaml',
  'examples/digits/labels.json',
  'examples/digits/images',
  'examples/digits/model',
  'cli/init/template',
  'python/wkr_serving',
  'infra/config.cjs',
  'infra/load.cjs',
  'infra/plugin.mjs',
  'infra/stack',
  // A deployment from a user's folder refers to them, and doctor reads the default parameters.
  'serverless.yml',
  'shared-redis.yml',
];

export async function buildCli({
  root,
  folder,
  declarations,
  manifests,
}: PackageParts): Promise<StagedPackage> {
  await mkdir(folder, { recursive: true });
  const { version } = present(manifests['cli'], 'manifest of cli');
  const [metafile, binaries] = await Promise.all([
    bundle(root, folder),
    bundleRuntime(root, folder, version),
    copyScripts(join(root, 'cli', 'bin'), join(folder, 'bin'), '../cli.mjs'),
    bundleFunctions(root, folder),
    cp(join(root, 'cli', 'README.md'), join(folder, 'README.md')),
    ...COPIED.map((path) => cp(join(root, path), join(folder, path), { recursive: true, filter: isShipped })),
  ]);
  const types = await copyDeclarations(declarations, join(folder, TYPES), 'cli/main.d.ts');
  const manifest = manifestOf(manifests, binaries);
  // Throws if an import is not declared.
  const names = [...externalsOf(metafile), ...types].filter((name) => !CHECKOUT_ONLY.has(name));
  imported(names, manifest.dependencies);
  return stage(folder, manifest);
}

/** Neither what writes the documents, which is source, nor what Python compiles. */
function isShipped(path: string): boolean {
  return !path.endsWith('.ts') && !path.endsWith('__pycache__');
}

async function bundle(root: string, folder: string): Promise<Metafile> {
  const { metafile } = await build({
    entryPoints: {
      cli: 'cli/main.ts',
      // Must be next to the chunk that starts it.
      'chunks/isolated-process': 'lib/compose/isolated-process.ts',
      'chunks/model-process': 'release/process.ts',
      'chunks/worker-loop': 'lib/workers/loop.ts',
      ...Object.fromEntries(LOADED.map((name) => [`infra/${name}`, `infra/${name}.ts`])),
    },
    absWorkingDir: root,
    outdir: folder,
    outExtension: { '.js': '.mjs' },
    chunkNames: 'chunks/[name]-[hash]',
    bundle: true,
    packages: 'external',
    // Each command loads only its own part.
    splitting: true,
    platform: 'node',
    format: 'esm',
    target: TARGET,
    metafile: true,
    logLevel: 'warning',
  });
  return metafile;
}

/** The page of the console, and the functions for both processors and both stores, without onnxruntime's binaries but with licenses. */
async function bundleFunctions(root: string, folder: string): Promise<void> {
  const metafiles = [await writePage(root, folder)];
  for (const [processor, results] of PROCESSORS.flatMap((one) =>
    STORES.map((store) => [one, store] as const),
  )) {
    const target = join(folder, prebuiltFolder(processor, results));
    const request = { root, processor, results, outFolder: relative(root, target), withRuntime: false };
    const bundles = await buildFunctions(request);
    metafiles.push(...bundles.map(({ metafile }) => metafile));
    const contents = Object.fromEntries(bundles.map((made) => [made.name, made.contents]));
    await writeFile(join(target, CONTENTS), `${JSON.stringify(contents, null, 1)}\n`);
  }
  await writeFile(join(folder, 'functions', 'THIRD-PARTY-LICENSES.txt'), await licensesOf(metafiles, root));
}

/** Pins the exact versions that were tested. */
function manifestOf(manifests: Manifests, binaries: Versions): PublishedManifest {
  const all = Object.entries(dependenciesOf(manifests, WORKSPACES));
  const optional = { ...binaries, ...dependenciesOf(manifests, WORKSPACES, 'optionalDependencies') };
  return {
    ...publishedBase(present(manifests['cli'], 'manifest of cli')),
    exports: {
      '.': { types: `./${TYPES}/cli/main.d.ts`, default: './cli.mjs' },
      './infra/plugin.mjs': './infra/plugin.mjs',
      './package.json': './package.json',
    },
    dependencies: Object.fromEntries(all.filter(([wanted]) => !CHECKOUT_ONLY.has(wanted))),
    optionalDependencies: optional,
    bundleDependencies: [RUNTIME],
  };
}
