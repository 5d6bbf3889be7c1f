/**
 * Creates the serverless.yml for a user's own folder: that of the repository, with paths into the installed package.
 * The package must be installed in that folder or above it, because osls looks for the plugin from there.
 */
import { existsSync, realpathSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { dirname, join, relative, sep } from 'node:path';
import { ServingError } from '../lib/contract/errors.ts';
import { installation } from '../local/installation.ts';

/** @param folder absolute. @param file of the package. @throws bad_config where the package is not installed for that folder */
export async function deploymentText(folder: string, file: string): Promise<string> {
  const { folder: source, name, version } = installation();
  const installed = installedFor(folder, name, source);
  if (installed === undefined)
    throw new ServingError(
      'bad_config',
      `a deployment from ${folder} needs ${name} installed there: npm install ${name}`,
    );
  const path = relative(folder, installed).replaceAll(sep, '/');
  const text = await readFile(join(source, file), 'utf8');
  return `# Written by \`cluster-serving init\` of ${name} ${version}. After an update of the package write it anew
# with --force, or compare it with that package's own serverless.yml.
${rewritten(text, name, path)}`;
}

/** @param path of the package, relative to the folder of the file */
function rewritten(text: string, name: string, path: string): string {
  return text
    .replaceAll('${file(infra/', `\${file(${path}/infra/`)
    .replaceAll('./infra/plugin.mjs', `'${name}/infra/plugin.mjs'`)
    .replaceAll('docs/', `${path}/docs/`);
}

/** Where npm installed this package for that folder: in its node_modules or in one above. */
function installedFor(folder: string, name: string, source: string): string | undefined {
  const place = join(folder, 'node_modules', name);
  if (existsSync(place)) return realpathSync(place) === realpathSync(source) ? place : undefined;
  return dirname(folder) === folder ? undefined : installedFor(dirname(folder), name, source);
}
