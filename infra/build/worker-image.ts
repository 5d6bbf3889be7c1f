/**
 * Writes what the container image of a Python worker is built from: the bundles of predict and batch, the loop of
 * Python workers, the worker's own modules, and a Dockerfile. The base is AWS's image of Node 24: it has Lambda's
 * runtime, and Amazon Linux 2023 with glibc 2.34, for which onnxruntime and the wheels of numpy are built, on both
 * processors. Times and modes are fixed, so the same source gives the same layers of code.
 */

import { chmod, readdir, readFile, rm, stat, symlink, writeFile } from 'node:fs/promises';
import { basename, join, relative } from 'node:path';
import { badConfig } from '../../lib/contract/errors.ts';
import { elementAt, present } from '../../lib/contract/present.ts';
import { workerFile } from '../../lib/workers/command.ts';
import { copyFixed, type FunctionFolder, fix, RUN_WORKERS } from './function-folder.ts';

export { imagePython } from '../../lib/workers/deployment.ts';
export { IMAGE_FOLDER } from '../template/worker-code.ts';

export interface ImageRequest {
  readonly functions: readonly Pick<FunctionFolder, 'name' | 'folder'>[];
  /** Where it is written; what was there is removed. Absolute. */
  readonly folder: string;
  /** The class, with its module. */
  readonly worker: string;
  /** The folder of the worker's modules and its requirements.txt. Absolute. */
  readonly directory: string;
  /** The folder `modelPath`, which the bucket has. Absolute. */
  readonly modelDirectory: string;
  /** The package wkr_serving. Absolute. */
  readonly package: string;
  /** `python3.12` */
  readonly python: string;
}

/** Above this the worker lies among files that are not its own. Packaging is refused with `bad_config`. */
const MAX_FILES = 1_000;
const MAX_BYTES = 50_000_000;
const MAX_DEPTH = 16;
const REQUIREMENTS = 'requirements.txt';
const NODE_MODULES = 'node_modules';

/** @returns the worker's modules. @throws bad_config for a module without the class, too many files, or requirements without numpy's hash */
export async function writeImage(request: ImageRequest): Promise<string[]> {
  const { folder, worker, directory, python } = request;
  await assertClass(worker, directory);
  const modules = await modulesOf(request);
  await rm(folder, { recursive: true, force: true });
  const dist = join(folder, 'dist');
  const functions = request.functions.filter(({ name }) => RUN_WORKERS.includes(name));
  for (const [i, { name, folder: bundle }] of functions.entries()) {
    const target = join(dist, name);
    const first = elementAt(functions, 0, 'functions').name;
    const files = await filesOf(bundle, (path) => i === 0 || path !== NODE_MODULES);
    for (const file of files) await copyFixed(join(bundle, file), join(target, file));
    // onnxruntime's binaries are in the image once.
    if (i > 0) await symlink(join('..', first, NODE_MODULES), join(target, NODE_MODULES));
    for (const file of modules) await copyFixed(join(directory, file), join(target, 'worker', file));
  }
  for (const file of await filesOf(request.package, isCode))
    await copyFixed(join(request.package, file), join(dist, 'python', basename(request.package), file));
  await writeFixed(join(folder, REQUIREMENTS), await requirementsOf(directory));
  await writeFixed(join(folder, 'Dockerfile'), dockerfile(python));
  await writeFixed(join(folder, '.dockerignore'), `*\n!dist\n!${REQUIREMENTS}\n`);
  await makeReadable(folder);
  return modules;
}

/**
 * Lambda runs it with a user of its own, on a file system that can only be read but for /tmp; `USER` and `HOME` make
 * that so elsewhere. Modules are compiled with hashes instead of times, which differ from build to build.
 */
function dockerfile(python: string): string {
  return `# Written by \`serverless package\`, which overwrites changes. One image for two functions, each with its own command.
# A digest makes a build repeatable: --build-arg BASE=public.ecr.aws/lambda/nodejs:24@sha256:...
ARG BASE=public.ecr.aws/lambda/nodejs:24
FROM \${BASE}
RUN dnf install -y ${python} ${python}-pip && dnf clean all \\
  && mkdir -p /opt/python && ln -s /usr/bin/${python} /opt/python/python3
ENV PATH=/opt/python:\${PATH} HOME=/tmp PYTHONDONTWRITEBYTECODE=1
COPY ${REQUIREMENTS} \${LAMBDA_TASK_ROOT}/${REQUIREMENTS}
RUN python3 -m pip install --no-cache-dir -r \${LAMBDA_TASK_ROOT}/${REQUIREMENTS}
COPY dist \${LAMBDA_TASK_ROOT}/dist
RUN python3 -m compileall -q --invalidation-mode unchecked-hash \${LAMBDA_TASK_ROOT}/dist
USER 10001:10001
CMD ["dist/predict/index.handler"]
`;
}

/** The module may import the class, so only its name is looked for. */
async function assertClass(worker: string, directory: string): Promise<void> {
  const name = present(worker.split('.').at(-1), 'class name');
  const file = workerFile(worker, directory);
  const text = await readFile(file, 'utf8');
  if (!new RegExp(`\\b${name}\\b|\\bimport +\\*`).test(text))
    throw badConfig(`worker.class: ${file} has no class ${name}`);
}

/** The *.py of the folder and those below it, relative to it, without virtual environments and what begins with a dot. */
async function modulesOf({ directory, modelDirectory, package: ours }: ImageRequest): Promise<string[]> {
  const modules = (
    await filesOf(directory, async (path, isFolder) => {
      if (!isFolder) return path.endsWith('.py');
      const full = join(directory, path);
      if ([modelDirectory, ours].includes(full) || basename(path).startsWith('.') || !isCode(path))
        return false;
      return !(await readdir(full)).includes('pyvenv.cfg');
    })
  ).sort();
  const sizes = await Promise.all(modules.map(async (file) => (await stat(join(directory, file))).size));
  const bytes = sizes.reduce((sum, size) => sum + size, 0);
  if (modules.length <= MAX_FILES && bytes <= MAX_BYTES) return modules;
  const most = `${MAX_FILES} files and ${MAX_BYTES} bytes`;
  throw badConfig(
    `worker.class: ${directory} has ${modules.length} Python files of ${bytes} bytes, over ${most}: give the worker and its config a folder of their own`,
  );
}

function isCode(path: string): boolean {
  return !['__pycache__', NODE_MODULES].includes(basename(path));
}

async function requirementsOf(directory: string): Promise<string> {
  const path = join(directory, REQUIREMENTS);
  const text = await readFile(path, 'utf8').catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return '';
    throw badConfig(`${path} cannot be read: ${error.message}`, { cause: error });
  });
  if (/^\s*numpy(?![\w.-])/im.test(text)) return text;
  if (text.includes('--hash')) throw badConfig(`${path}: add numpy with its hash, which every worker needs`);
  return `${text}${text === '' || text.endsWith('\n') ? '' : '\n'}numpy\n`;
}

type Wanted = (path: string, isFolder: boolean) => boolean | Promise<boolean>;

/** Links to files are followed, those to folders are not. @returns paths relative to `root` */
async function filesOf(root: string, isWanted: Wanted, folder = root, depth = 0): Promise<string[]> {
  if (depth > MAX_DEPTH) throw badConfig(`${folder} lies ${depth} folders below ${root}, over ${MAX_DEPTH}`);
  const files: string[] = [];
  for (const entry of await readdir(folder, { withFileTypes: true })) {
    const full = join(folder, entry.name);
    const path = relative(root, full);
    if (!(await isWanted(path, entry.isDirectory()))) continue;
    if (entry.isDirectory()) files.push(...(await filesOf(root, isWanted, full, depth + 1)));
    else if ((await stat(full)).isFile()) files.push(path);
  }
  return files;
}

async function writeFixed(path: string, text: string): Promise<void> {
  await writeFile(path, text);
  await fix(path);
}

/** Independent of the umask while packaging: Lambda's user is none of this machine. */
async function makeReadable(folder: string): Promise<void> {
  await chmod(folder, 0o755);
  for (const entry of await readdir(folder, { withFileTypes: true }))
    if (entry.isDirectory()) await makeReadable(join(folder, entry.name));
}
