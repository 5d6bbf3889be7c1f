/**
 * Builds the package `cluster-serving`: the SDK as ES modules and as CommonJS, each in its own folder with its
 * declarations, so that every way of importing it finds the matching types.
 */
import { cp, mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { build } from 'esbuild';
import { copyDeclarations } from './declarations.ts';
import {
  dependenciesOf,
  externalsOf,
  imported,
  type PackageParts,
  type PublishedManifest,
  type StagedPackage,
  sorted,
  stage,
  type Versions,
  type WorkspaceManifest,
} from './manifest.ts';

/** The oldest Node with every API it calls: AbortSignal.any came with 20.3. */
const TARGET = 'node20.3';
const TYPES = 'types/sdk/index.d.ts';

export async function buildSdk(parts: PackageParts): Promise<StagedPackage> {
  const { root, folder, declarations, manifests } = parts;
  await mkdir(folder, { recursive: true });
  const packages = new Set<string>();
  for (const format of ['esm', 'cjs'] as const) {
    const used = [
      ...(await bundle(root, join(folder, format), format)),
      ...(await copyDeclarations(declarations, join(folder, format, 'types'), 'sdk/index.d.ts')),
    ];
    for (const name of used) packages.add(name);
  }
  await writeFile(join(folder, 'cjs', 'package.json'), '{ "type": "commonjs" }\n');
  await cp(join(root, 'sdk', 'README.md'), join(folder, 'README.md'));
  await cp(join(root, 'LICENSE'), join(folder, 'LICENSE'));
  const versions = imported(packages, dependenciesOf(manifests, ['sdk', 'lib']));
  return stage(folder, manifestOf(manifests['sdk'] as WorkspaceManifest, versions));
}

/** @returns the external packages that it may load */
async function bundle(root: string, outdir: string, format: 'esm' | 'cjs'): Promise<Set<string>> {
  const { metafile } = await build({
    entryPoints: { index: 'sdk/index.ts' },
    absWorkingDir: root,
    outdir,
    chunkNames: 'chunks/[name]-[hash]',
    bundle: true,
    packages: 'external',
    // Keeps dynamic imports: S3 is loaded with the first large record. For CommonJS esbuild does that in one file.
    splitting: format === 'esm',
    platform: 'node',
    format,
    target: TARGET,
    metafile: true,
    logLevel: 'warning',
  });
  return externalsOf(metafile);
}

function manifestOf(workspace: WorkspaceManifest, versions: Versions): PublishedManifest {
  const { name, version, description, license, engines } = workspace;
  const entry = (format: string) => ({
    types: `./${format}/${TYPES}`,
    default: `./${format}/index.js`,
  });
  return {
    name,
    version,
    description,
    license,
    type: 'module',
    ...(engines && { engines }),
    main: './cjs/index.js',
    types: `./cjs/${TYPES}`,
    sideEffects: false,
    exports: {
      '.': { import: entry('esm'), require: entry('cjs') },
      './package.json': './package.json',
    },
    // A library accepts compatible versions, so that npm can choose.
    dependencies: sorted(Object.entries(versions).map(([wanted, exact]) => [wanted, `^${exact}`])),
  };
}
