/**
 * Builds the package `onnx-import`: the converters as ES modules with their declarations, and the command. It contains
 * onnxruntime as the package of the command line does, so that `npx onnx-import` downloads nothing but packages.
 */
import { cp, mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { build, type Metafile } from 'esbuild';
import { present } from '../../lib/contract/present.ts';
import { RUNTIME } from '../build/function-folder.ts';
import { copyDeclarations } from './declarations.ts';
import {
  compatible,
  dependenciesOf,
  externalsOf,
  imported,
  type PackageParts,
  type PublishedManifest,
  publishedBase,
  type StagedPackage,
  stage,
  type Versions,
  type WorkspaceManifest,
} from './manifest.ts';
import { bundleRuntime } from './runtime.ts';
import { copyScripts } from './scripts.ts';

const WORKSPACE = 'onnx-import';
/** The entries that can be imported. */
const ENTRIES = ['index', 'options', 'process', 'protobuf', 'inputs'] as const;
const TARGET = 'node20';
const TYPES = 'types';
/** Finds its WebAssembly by a path, which the bundler does not see. */
const BY_PATH = 'icodec';
const COPIED = ['README.md', 'CHANGELOG.md'];

export async function buildOnnxImport({
  root,
  folder,
  declarations,
  manifests,
}: PackageParts): Promise<StagedPackage> {
  await mkdir(folder, { recursive: true });
  const workspace = present(manifests[WORKSPACE], `manifest of ${WORKSPACE}`);
  const [metafile, binaries] = await Promise.all([
    bundle(root, join(folder, 'dist')),
    bundleRuntime(root, folder, workspace.version),
    copyScripts(join(root, WORKSPACE, 'bin'), join(folder, 'bin'), '../dist/main.mjs'),
    cp(join(root, 'LICENSE'), join(folder, 'LICENSE')),
    ...COPIED.map((name) => cp(join(root, WORKSPACE, name), join(folder, name))),
  ]);
  const packages = externalsOf(metafile).add(BY_PATH);
  for (const entry of ENTRIES) {
    const types = await copyDeclarations(declarations, join(folder, TYPES), `${WORKSPACE}/${entry}.d.ts`);
    for (const name of types) packages.add(name);
  }
  const versions = imported(packages, dependenciesOf(manifests, [WORKSPACE, 'lib']));
  return stage(folder, manifestOf(workspace, versions, binaries));
}

async function bundle(root: string, outdir: string): Promise<Metafile> {
  const entryPoints = Object.fromEntries(
    [...ENTRIES, 'main'].map((entry) => [entry, `${WORKSPACE}/${entry}.ts`]),
  );
  const { metafile } = await build({
    // Must be beside the chunk that starts it, so all lie in one folder.
    entryPoints: { ...entryPoints, 'model-process': `${WORKSPACE}/verify/process.ts` },
    absWorkingDir: root,
    outdir,
    outExtension: { '.js': '.mjs' },
    chunkNames: '[name]-[hash]',
    bundle: true,
    packages: 'external',
    // The bundler keeps a chunk of it that nothing loads.
    external: [join(root, 'lib/s3/client.ts')],
    splitting: true,
    platform: 'node',
    format: 'esm',
    target: TARGET,
    metafile: true,
    logLevel: 'warning',
  });
  return metafile;
}

function manifestOf(workspace: WorkspaceManifest, versions: Versions, binaries: Versions): PublishedManifest {
  const exportOf = (entry: string) => ({
    types: `./${TYPES}/${WORKSPACE}/${entry}.d.ts`,
    default: `./dist/${entry}.mjs`,
  });
  const own = Object.fromEntries(
    ENTRIES.map((entry) => [entry === 'index' ? '.' : `./${entry}`, exportOf(entry)]),
  );
  return {
    ...publishedBase(workspace),
    files: ['bin', 'dist', TYPES, ...COPIED],
    exports: { ...own, './package.json': './package.json' },
    // The contained onnxruntime has an exact version, for which a verification holds.
    dependencies: { ...compatible(versions), [RUNTIME]: present(versions[RUNTIME], RUNTIME) },
    optionalDependencies: binaries,
    bundleDependencies: [RUNTIME],
  };
}
