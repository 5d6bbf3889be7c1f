/**
 * Builds the package.json of a published package from those of its workspaces. The manifests of the workspaces refer
 * to TypeScript, which the checkout runs unbuilt, so two manifests have the same name.
 */
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Metafile } from 'esbuild';

export type Versions = Readonly<Record<string, string>>;

export interface WorkspaceManifest {
  readonly name: string;
  readonly version: string;
  readonly description: string;
  readonly license: string;
  readonly engines?: { readonly node: string };
  readonly bin?: Versions;
  readonly dependencies?: Versions;
  readonly optionalDependencies?: Versions;
  readonly peerDependencies?: Versions;
  readonly peerDependenciesMeta?: Readonly<Record<string, { readonly optional: boolean }>>;
}

/** By folder. */
export type Manifests = Readonly<Record<string, WorkspaceManifest>>;

export interface PublishedManifest extends WorkspaceManifest {
  readonly type: 'module';
  readonly main?: string;
  readonly types?: string;
  readonly sideEffects?: false;
  readonly files?: readonly string[];
  readonly publishConfig?: { readonly access: 'public' };
  readonly exports: Readonly<Record<string, unknown>>;
  readonly typesVersions?: Readonly<Record<string, Readonly<Record<string, readonly string[]>>>>;
  readonly dependencies: Versions;
  readonly bundleDependencies?: readonly string[];
}

export interface PackageParts {
  /** The checkout, absolute. */
  readonly root: string;
  /** The target folder of the package, absolute. */
  readonly folder: string;
  /** The folder with the declarations from tsc, absolute. */
  readonly declarations: string;
  readonly manifests: Manifests;
}

export interface StagedPackage {
  /** Absolute. */
  readonly folder: string;
  readonly manifest: PublishedManifest;
}

export async function readManifests(root: string): Promise<Manifests> {
  const read = async (folder: string) =>
    JSON.parse(await readFile(join(root, folder, 'package.json'), 'utf8')) as WorkspaceManifest;
  const { workspaces } = (await read('.')) as WorkspaceManifest & { workspaces: readonly string[] };
  return Object.fromEntries(
    await Promise.all(workspaces.map(async (folder) => [folder, await read(folder)] as const)),
  );
}

/** The fields that every published package has from its workspace. */
export function publishedBase({ name, version, description, license, engines, bin }: WorkspaceManifest) {
  return {
    name,
    version,
    description,
    license,
    type: 'module',
    ...(engines && { engines }),
    publishConfig: { access: 'public' },
    ...(bin && { bin }),
  } as const;
}

export async function stage(folder: string, manifest: PublishedManifest): Promise<StagedPackage> {
  await writeFile(join(folder, 'package.json'), `${JSON.stringify(manifest, null, 2)}\n`);
  return { folder, manifest };
}

/** The dependencies of these workspaces, except on one another. */
export function dependenciesOf(
  manifests: Manifests,
  folders: readonly string[],
  kind: 'dependencies' | 'optionalDependencies' = 'dependencies',
): Versions {
  const own = new Set(Object.values(manifests).map(({ name }) => name));
  const all = folders.flatMap((folder) => Object.entries(manifests[folder]?.[kind] ?? {}));
  return sorted(all.filter(([name]) => !own.has(name)));
}

/** Selects the imported packages from `versions`. @throws when one is missing */
export function imported(names: Iterable<string>, versions: Versions): Versions {
  const found = [...new Set(names)].map((name) => {
    const version = versions[name];
    if (version === undefined) throw new Error(`${name} is imported and in no package.json`);
    return [name, version] as const;
  });
  return sorted(found);
}

export function sorted(entries: readonly (readonly [string, string])[]): Versions {
  return Object.fromEntries(entries.toSorted(([a], [b]) => (a < b ? -1 : 1)));
}

/** The external packages that a build may load, dynamic imports included, as the bundler reports them. */
export function externalsOf({ outputs }: Metafile): Set<string> {
  const imports = Object.values(outputs).flatMap((output) => output.imports);
  return new Set(
    imports
      .filter(({ external, path }) => external && !path.startsWith('node:'))
      .map(({ path }) => packageName(path)),
  );
}

export function packageName(specifier: string): string {
  return specifier
    .split('/')
    .slice(0, specifier.startsWith('@') ? 2 : 1)
    .join('/');
}

/** A library accepts compatible versions, so that npm can choose. */
export const compatible = (versions: Versions) =>
  sorted(Object.entries(versions).map(([name, exact]) => [name, `^${exact}`]));
