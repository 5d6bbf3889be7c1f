/**
 * Finds the folder that this code was installed into, and reads its version.
 * The same code runs from the repository (local/, below a package.json of its own) and bundled (below the one of the
 * published package), so nothing lies at a fixed relative path; the digits sample is in the top folder of both.
 */
import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { ServingError } from '../lib/contract/errors.ts';

interface Installation {
  /** Holds docs/, examples/ and serverless.yml. Absolute. */
  readonly folder: string;
  /** Name of the package that users install. */
  readonly name: string;
  readonly version: string;
  /** The script behind the command `cluster-serving`, absolute. */
  readonly command: string;
}

const SAMPLE_CONFIG = join('examples', 'digits', 'config.yaml');
const COMMAND = 'cluster-serving';

export function installation(): Installation {
  const folder = packageFolder();
  // The published package has the commands at its top, the repository in a workspace.
  const home = [folder, join(folder, 'cli')].find((place) => readManifest(place)?.bin?.[COMMAND]);
  const { name, version, bin } = (home === undefined ? undefined : readManifest(home)) ?? {};
  const script = bin?.[COMMAND];
  if (home === undefined || name === undefined || version === undefined || script === undefined)
    throw new ServingError('internal', `no package.json of ${folder} has a bin ${COMMAND}`);
  return { folder, name, version, command: join(home, script) };
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
