/**
 * Finds the folder that this code was installed to, and its version. The code runs from the repository (in local/,
 * below its own package.json) and bundled (below that of the published package), so no relative path is fixed; the
 * digits sample is in the top folder of both.
 */
import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { ServingError } from '../../lib/contract/errors.ts';

export interface Installation {
  /** The absolute folder with docs/, examples/ and serverless.yml. */
  readonly folder: string;
  /** The name of the package that users install. */
  readonly name: string;
  readonly version: string;
  /** The script behind the command `cluster-serving`, absolute. */
  readonly command: string;
}

const SAMPLE_CONFIG = join('examples', 'digits', 'config.yaml');
const COMMAND = 'cluster-serving';

/** @param folder of the package. @throws internal when it has no command */
export function installation(folder = packageFolder()): Installation {
  // The commands are at the top of the published package, and in a workspace of the repository.
  const home = [folder, join(folder, 'cli')].find((place) => readManifest(place)?.bin?.[COMMAND]);
  const { name, version, bin } = (home === undefined ? undefined : readManifest(home)) ?? {};
  const script = bin?.[COMMAND];
  if (home === undefined || name === undefined || version === undefined || script === undefined)
    throw new ServingError('internal', `no package.json of ${folder} has a bin ${COMMAND}`);
  return { folder, name, version, command: join(home, script) };
}

/** The settings of the digits sample, absolute. */
export function sampleConfig(): string {
  return join(packageFolder(), SAMPLE_CONFIG);
}

export function packageFolder(): string {
  for (let folder = dirname(fileURLToPath(import.meta.url)); ; folder = dirname(folder)) {
    if (existsSync(join(folder, SAMPLE_CONFIG))) return folder;
    if (folder === dirname(folder)) throw new ServingError('internal', 'there is no sample above us');
  }
}

interface Manifest {
  readonly name?: string;
  readonly version?: string;
  readonly bin?: Readonly<Record<string, string>>;
}

function readManifest(folder: string): Manifest | undefined {
  const path = join(folder, 'package.json');
  return existsSync(path) ? (JSON.parse(readFileSync(path, 'utf8')) as Manifest) : undefined;
}
