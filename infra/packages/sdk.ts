/**
 * Builds the package `cluster-serving`: the SDK as ES modules and as CommonJS, each in its own folder with its
 * declarations, so that every way of importing it finds the matching types.
 */

import { cp, mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { build } from 'esbuild';
import { present } from '../../lib/contract/present.ts';
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

/** The oldest Node with every API it calls: AbortSignal.any came with 20.3. */
const TARGET = 'node20.3';
/** The entries that can be imported: the client, the parts of a worker in TypeScript, and the client of workers. */
const ENTRIES = ['index', 'worker', 'worker-client'] as const;
/** The entry for browsers, Deno and Workers: one file, without a module of Node. */
const HTTP = 'http';

export async function buildSdk(parts: PackageParts): Promise<StagedPackage> {
  const { root, folder, declarations, manifests } = parts;
  await mkdir(folder, { recursive: true });
  const packages = new Set<string>();
  for (const format of ['esm', 'cjs'] as const) {
    const used = [...(await bundle(root, join(folder, format), format))];
    await bundleHttp(root, join(folder, format), format);
    const types = join(folder, format, 'types');
    for (const entry of [...ENTRIES, HTTP])
      used.push(...(await copyDeclarations(declarations, types, `sdk/${entry}.d.ts`)));
    for (const name of used) packages.add(name);
  }
  await writeFile(join(folder, 'cjs', 'package.json'), '{ "type": "commonjs" }\n');
  await cp(join(root, 'sdk', 'README.md'), join(folder, 'README.md'));
  await cp(join(root, 'LICENSE'), join(folder, 'LICENSE'));
  const workspace = present(manifests['sdk'], 'manifest of sdk');
  for (const peer of Object.keys(workspace.peerDependencies ?? {})) packages.delete(peer);
  return stage(folder, manifestOf(workspace, imported(packages, dependenciesOf(manifests, ['sdk', 'lib']))));
}

/** @returns the external packages that it may load */
async function bundle(root: string, outdir: string, format: 'esm' | 'cjs'): Promise<Set<string>> {
  const { metafile } = await build({
    entryPoints: Object.fromEntries(ENTRIES.map((entry) => [entry, `sdk/${entry}.ts`])),
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

/** Fails for an import that is not of this repository. */
export async function bundleHttp(
  root: string,
  outdir: string,
  format: 'esm' | 'cjs',
  minify = false,
): Promise<void> {
  await build({
    entryPoints: { [HTTP]: `sdk/${HTTP}.ts` },
    absWorkingDir: root,
    outdir,
    bundle: true,
    platform: 'browser',
    format,
    minify,
    target: 'es2022',
    logLevel: 'warning',
  });
}

function manifestOf(workspace: WorkspaceManifest, versions: Versions): PublishedManifest {
  const { peerDependencies, peerDependenciesMeta } = workspace;
  const typesOf = (format: string, entry: string) => `./${format}/types/sdk/${entry}.d.ts`;
  const importOf = (entry: string) => {
    const of = (format: string) => ({ types: typesOf(format, entry), default: `./${format}/${entry}.js` });
    return { import: of('esm'), require: of('cjs') };
  };
  return {
    ...publishedBase(workspace),
    main: './cjs/index.js',
    types: typesOf('cjs', 'index'),
    sideEffects: false,
    exports: {
      '.': importOf('index'),
      './http': importOf(HTTP),
      './worker': importOf('worker'),
      './worker-client': importOf('worker-client'),
      './package.json': './package.json',
    },
    // For a `moduleResolution` of TypeScript that knows no exports.
    typesVersions: {
      '*': Object.fromEntries(
        [HTTP, 'worker', 'worker-client'].map((entry) => [entry, [typesOf('cjs', entry)]]),
      ),
    },
    dependencies: compatible(versions),
    ...(peerDependencies && { peerDependencies: compatible(peerDependencies), peerDependenciesMeta }),
  };
}
