/** Says how package.json of a new project names our packages: as the ones of the running command were installed. */
import { existsSync, readFileSync, statSync } from 'node:fs';
import { dirname, join, relative, resolve, sep } from 'node:path';
import { ServingError } from '../../lib/contract/errors.ts';
import type { Installation } from '../../local/machine/installation.ts';

const SDK = 'cluster-serving';
const FILE = 'file:';

export interface Packages {
  /** Goes into `dependencies`. */
  readonly dependencies: Readonly<Record<string, string>>;
  /** True if npm must be asked to copy folders; it links them otherwise. */
  readonly fromFolders: boolean;
}

/**
 * @param project absolute
 * @param installation the package of this command
 * @throws bad_config where the packages that belong to it cannot be found
 */
export function packagesFor(project: string, installation: Installation): Packages {
  const { folder, name, version } = installation;
  const installed = installedSpecs(folder, name) ?? builtSpecs(folder, name);
  const own = installed(name) ?? version;
  const sdk = installed(SDK) ?? (own === version ? version : undefined);
  if (sdk === undefined)
    throw new ServingError(
      'bad_config',
      `${name} was installed from ${own}; a project needs ${SDK}, too, and it is not installed beside it: npm install <its archive>`,
    );
  const specs = Object.entries({ [name]: own, [SDK]: sdk });
  return {
    dependencies: Object.fromEntries(specs.map(([key, spec]) => [key, specFrom(project, spec)])),
    fromFolders: specs.some(
      ([, spec]) => spec.startsWith(FILE) && statSync(spec.slice(FILE.length)).isDirectory(),
    ),
  };
}

/**
 * Reads the package.json above node_modules for a package that is not a version of the registry: the address of an
 * archive, or the absolute path of a file. Undefined for code outside node_modules.
 */
function installedSpecs(folder: string, name: string): ((of: string) => string | undefined) | undefined {
  const home = resolve(folder, '..', ...name.split('/').map(() => '..'));
  if (join(home, 'node_modules', name) !== folder) return undefined;
  const manifest = join(home, 'package.json');
  const { dependencies, devDependencies, optionalDependencies } = (
    existsSync(manifest) ? JSON.parse(readFileSync(manifest, 'utf8')) : {}
  ) as Readonly<Record<string, Readonly<Record<string, string>> | undefined>>;
  const all = { ...optionalDependencies, ...devDependencies, ...dependencies };
  return (of) => {
    const spec = all[of];
    if (spec === undefined || !/^(file:|https?:)/.test(spec)) return undefined;
    return spec.startsWith(FILE) ? fileSpec(of, resolve(home, spec.slice(FILE.length))) : spec;
  };
}

/** In the repository, what `npm run build:packages` wrote; and of a package that is linked, the folder itself. */
function builtSpecs(folder: string, name: string): (of: string) => string {
  const place = [join(folder, 'dist', 'packages'), dirname(folder)].find((each) =>
    existsSync(join(each, 'sdk', 'package.json')),
  );
  return (of) => fileSpec(of, join(place ?? join(folder, 'dist', 'packages'), of === name ? 'cli' : 'sdk'));
}

function fileSpec(name: string, path: string): string {
  if (existsSync(path)) return `${FILE}${path}`;
  throw new ServingError(
    'bad_config',
    `a project needs the package ${name}, and ${path} is not there; \`npm run build:packages\` in the repository writes it`,
  );
}

/** A file by its path from the project. */
function specFrom(project: string, spec: string): string {
  return spec.startsWith(FILE)
    ? `${FILE}${relative(project, spec.slice(FILE.length)).replaceAll(sep, '/')}`
    : spec;
}
