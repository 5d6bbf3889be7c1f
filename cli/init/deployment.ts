/**
 * Writes the serverless.yml of a user's folder. It refers to the parts of the one in this package, so an update of the
 * package needs no new one. osls looks for the package from that folder, so it must be installed there or above.
 */
import { existsSync, realpathSync } from 'node:fs';
import { dirname, join, relative, sep } from 'node:path';
import { ServingError } from '../../lib/contract/errors.ts';
import { installation } from '../../local/machine/installation.ts';

/** The parts that each file takes from that of the package with its name. */
const PARTS = {
  'serverless.yml': ['provider', 'package', 'functions', 'resources'],
  'shared-redis.yml': ['provider', 'resources'],
} as const;

export type DeploymentFile = keyof typeof PARTS;

/** @param folder absolute. @throws bad_config where the package is not installed for that folder */
export function deploymentText(folder: string, file: DeploymentFile): string {
  const { folder: source, name } = installation();
  const installed = installedFor(folder, name, source);
  if (installed !== undefined)
    return deploymentOf(file, name, relative(folder, installed).replaceAll(sep, '/'));
  throw new ServingError(
    'bad_config',
    `a deployment from ${folder} needs ${name} installed there: npm install ${name}`,
  );
}

/** @param path of the package `name`, relative to the folder of the file, with `/` */
export function deploymentOf(file: DeploymentFile, name: string, path: string): string {
  const isShared = file === 'shared-redis.yml';
  const page = `${path}/docs/how-to/${isShared ? 'share-a-redis' : 'deploy'}.md`;
  const imported = (from: string, part: string) => `\${file(${path}/${from}):${part}}`;
  return `# Deploys ${isShared ? 'a Redis for several jobs' : 'what config.yaml says'}, as the installed ${name} does it. To change more than parameters,
# replace a line below by the part of that name in ${path}/${file}.
service: ${isShared ? 'shared-redis' : imported('infra/config.cjs', 'service')}
configValidationMode: error
plugins: ${isShared ? '[]' : `['${name}/infra/plugin.mjs']`}

# Parameters with another value than their default, here and in one stage. They are explained in
# ${page}
params:
  default: {}
  prod: {}

custom:
  settings: ${imported('infra/config.cjs', isShared ? 'sharedRedis' : 'settings')}
${PARTS[file].map((part) => `${part}: ${imported(file, part)}\n`).join('')}`;
}

/** Where npm installed this package for that folder: in its node_modules or in one above. */
function installedFor(folder: string, name: string, source: string): string | undefined {
  const place = join(folder, 'node_modules', name);
  if (existsSync(place)) return realpathSync(place) === realpathSync(source) ? place : undefined;
  return dirname(folder) === folder ? undefined : installedFor(dirname(folder), name, source);
}
