/**
 * `cluster-serving init <folder>` makes a project around the installed packages: settings, a model or a worker, a test and
 * a deployment. The texts are in template/; only what depends on the project is made here.
 */
import { mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { basename, dirname, join, relative, resolve } from 'node:path';
import { serviceName } from '../../lib/queue/names.ts';
import { type Installation, installation } from '../../local/machine/installation.ts';
import { unexpected, wrongUse } from '../command.ts';
import { interruptible } from '../interruption.ts';
import { EXIT, type Output } from '../output.ts';
import { quote } from '../wkr/production-script.ts';
import { deploymentOf } from './deployment.ts';
import { type Packages, packagesFor } from './packages.ts';
import { importedPart, type Part, samplePart, workerPart } from './parts.ts';

/** In the repository and in the package, from the folder with the sample. */
const TEMPLATE = join('cli', 'init', 'template');
/** In the texts of the template, what is replaced by the name of the project. */
const NAME = 'my-service';
/** Both a name for npm and one of a job. */
const VALID = /^[a-z0-9][a-z0-9_-]{0,59}$/;
/** npm installs no package into a project of its name, and none in a project of this one. */
const RESERVED = ['cluster-serving', 'node_modules'];
/** A word that a shell takes as it stands. */
const PLAIN = /^[\w./@:+-]+$/;
const SCRIPTS = {
  start: 'cluster-serving start',
  stop: 'cluster-serving stop',
  test: 'node --test test/service.js',
  doctor: 'cluster-serving doctor',
  package: 'serverless package',
  deploy: 'serverless deploy',
};

export interface ProjectRequest {
  /** As the user wrote it. */
  readonly folder: string;
  /** Default: that of the folder. */
  readonly name?: string | undefined;
  /** A file or a folder with a model, or its address in S3. Default: the sample. */
  readonly model?: string | undefined;
  readonly worker?: 'python' | 'typescript' | undefined;
}

/**
 * @param from the package of this command
 * @returns the exit code
 * @throws bad_config before anything is written, bad_model for a model that cannot be imported; then nothing is left behind
 */
export async function createProject(
  request: ProjectRequest,
  output: Output,
  from: Installation = installation(),
): Promise<number> {
  const folder = resolve(request.folder);
  const name = nameOf(request, folder);
  if (request.model !== undefined && request.worker !== undefined)
    throw wrongUse('init: --worker is code instead of a --model; give one of them');
  await assertEmpty(folder, request.folder);
  const packages = packagesFor(folder, from);
  return interruptible('the new project', output, async (signal) => {
    const made = await mkdir(folder, { recursive: true });
    try {
      const part = await partOf(request, folder, output, signal);
      const files = await filesOf(name, part, packages);
      for (const [path, text] of Object.entries(files)) {
        await mkdir(dirname(join(folder, path)), { recursive: true });
        await writeFile(join(folder, path), text);
      }
    } catch (error) {
      await removeWritten(folder, made);
      throw error;
    }
    const written = (await readdir(folder)).sort();
    const next = ['npm install', 'npm test', 'npm start'];
    if (relative('', folder) !== '')
      next.unshift(`cd ${PLAIN.test(request.folder) ? request.folder : quote(request.folder)}`);
    const { dependencies } = packages;
    const lines = [`wrote ${written.join(', ')}`, 'next:', ...next.map((line) => `  ${line}`)];
    output.answer({ folder, name, written, dependencies, next }, lines.join('\n'));
    return EXIT.ok;
  });
}

function nameOf({ name, folder: given }: ProjectRequest, folder: string): string {
  const found = name ?? basename(folder);
  if (VALID.test(found) && !RESERVED.includes(found)) return found;
  const expected = `a name of a package and a job: 1 to 60 small letters, digits, "-" or "_", starting with a letter or digit, and not ${RESERVED.join(' or ')}`;
  if (name !== undefined) throw unexpected('name', expected, found);
  throw wrongUse(`init ${given}: expected ${expected}, got ${JSON.stringify(found)}; --name gives another`);
}

/** @throws bad_config for a file, and for a folder with anything in it, hidden files included */
async function assertEmpty(folder: string, shown: string): Promise<void> {
  const names = await readdir(folder).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return [];
    throw wrongUse(`init ${shown}: this is not a folder that can be read: ${error.message}`);
  });
  if (names.length === 0) return;
  const some = names.slice(0, 3).join(', ');
  throw wrongUse(
    `init ${shown}: the folder is not empty (${some}${names.length > 3 ? ', …' : ''}); name one that is new or empty`,
  );
}

/** @param made the outermost folder that was made; undefined where the folder was there, and empty */
async function removeWritten(folder: string, made: string | undefined): Promise<void> {
  if (made !== undefined) return rm(made, { recursive: true, force: true });
  for (const name of await readdir(folder)) await rm(join(folder, name), { recursive: true, force: true });
}

async function partOf(
  { model, worker }: ProjectRequest,
  folder: string,
  output: Output,
  signal: AbortSignal,
): Promise<Part> {
  if (worker !== undefined) return workerPart(worker, template);
  return model === undefined ? samplePart(folder) : importedPart(model, folder, output, signal);
}

const template = (file: string) => readFile(join(installation().folder, TEMPLATE, file), 'utf8');

async function filesOf(name: string, part: Part, { dependencies, fromFolders }: Packages) {
  const { name: cli } = installation();
  const manifest = {
    name,
    private: true,
    type: 'module',
    scripts: SCRIPTS,
    dependencies,
    ...(part.devDependencies && { devDependencies: part.devDependencies }),
  };
  const named = async (file: string) => (await template(file)).replaceAll(NAME, name);
  const readme = (await named('README.md'))
    .replace('{{about}}', () => part.about)
    .replace('{{files}}', part.files.map(([path, about]) => `| \`${path}\` | ${about} |`).join('\n'))
    .replace('{{stack}}', `${serviceName(name)}-dev`)
    .replace('{{deploy}}', part.deploy ?? '');
  const npmrc = await template('npmrc');
  const tests = part.checks.reduce(
    (text, [from, to]) => text.replace(from, () => to),
    await named('service.js'),
  );
  return {
    'package.json': `${JSON.stringify(manifest, null, 2)}\n`,
    '.npmrc': fromFolders
      ? `${npmrc}# The packages are folders, which npm would only link.\ninstall-links=true\n`
      : npmrc,
    '.gitignore': await template('gitignore'),
    'README.md': readme,
    'config.yaml': configOf(name, part),
    'request.json': part.request,
    'serverless.yml': deploymentOf('serverless.yml', cli, `node_modules/${cli}`),
    'test/service.js': tests,
    ...part.sources,
  };
}

function configOf(name: string, { config }: Part): string {
  const { name: cli } = installation();
  return `# Settings of the job. node_modules/${cli}/docs/reference/config.md has all of them.\njobName: ${name}\n${config}`;
}
