/**
 * `npm run build:packages`: writes the publishable packages to dist/packages, ready for `npm pack`: `cluster-serving`,
 * the SDK, `onnx-import`, `@cluster-serving/cli`, everything else, and binaries for systems other than Linux. They contain
 * JavaScript, because Node strips no types below node_modules.
 */
import { rm } from 'node:fs/promises';
import { join, relative, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { buildCli } from './cli.ts';
import { emitDeclarations } from './declarations.ts';
import { readManifests, type StagedPackage } from './manifest.ts';
import { buildOnnxImport } from './onnx-import.ts';
import { buildSdk } from './sdk.ts';

export interface PackagesRequest {
  /** The checkout, absolute. */
  readonly root: string;
  /** Relative to root, or absolute. Replaced. Default "dist/packages". */
  readonly outFolder?: string;
}

export interface Packages {
  readonly sdk: StagedPackage;
  readonly cli: StagedPackage;
  readonly onnxImport: StagedPackage;
}

export async function buildPackages({
  root,
  outFolder = 'dist/packages',
}: PackagesRequest): Promise<Packages> {
  const folder = resolve(root, outFolder);
  await rm(folder, { recursive: true, force: true });
  const manifests = await readManifests(root);
  const declarations = join(folder, 'types');
  await emitDeclarations(root, declarations);
  const parts = { root, declarations, manifests };
  const [sdk, cli] = await Promise.all([
    buildSdk({ ...parts, folder: join(folder, 'sdk') }),
    buildCli({ ...parts, folder: join(folder, 'cli') }),
  ]);
  // After the command line: both write the binaries of other systems.
  const onnxImport = await buildOnnxImport({ ...parts, folder: join(folder, 'onnx-import') });
  await rm(declarations, { recursive: true });
  return { sdk, cli, onnxImport };
}

if (import.meta.main) {
  const root = fileURLToPath(new URL('../..', import.meta.url));
  for (const { folder, manifest } of Object.values(await buildPackages({ root }))) {
    console.log(`${manifest.name} ${manifest.version} is in ${relative(process.cwd(), folder)}`);
  }
}
