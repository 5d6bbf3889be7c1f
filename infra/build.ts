/**
 * In: the project's folder and a processor. Out: dist/<function>/ with index.mjs and the files it loads at run time.
 * Trap: onnxruntime-node unpacks to 294 MB, over Lambda's 250; only the files named below go along (46 MB). Same
 * input, same bytes: paths are relative to the project, modes and times are fixed, nothing stays from a former build.
 */
import { chmod, copyFile, mkdir, readdir, rm, utimes } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { basename, dirname, join } from 'node:path';
import { type BuildOptions, build, type Metafile } from 'esbuild';

/** The files of functions/ that Lambda is given; serverless.yml deploys `predictions` twice. */
export const FUNCTIONS = ['batch', 'dead-letter', 'predict', 'predictions', 'status'] as const;

export type FunctionName = (typeof FUNCTIONS)[number];
export type Processor = 'x64' | 'arm64';

export interface BuildRequest {
  /** The folder with serverless.yml, absolute. */
  readonly root: string;
  readonly processor: Processor;
  /** Relative to root. Default "dist". */
  readonly outFolder?: string;
}

export interface Bundle {
  readonly name: FunctionName;
  /** Absolute. */
  readonly folder: string;
  /** What is inside and who asked for it; its paths are relative to root. */
  readonly metafile: Metafile;
}

const RUNTIME = 'onnxruntime-node';
const RUNTIME_COMMON = 'onnxruntime-common';
const RUNTIME_FILE = /^package\.json$|\.js$|\.node$|\.so\.1$/;

const JPEG_READER = 'lib/codecs/image-libjpeg.ts';
const JPEG_WASM = '@cornerstonejs/codec-libjpeg-turbo-8bit/decodewasm';

/** What a function starts as a process of its own, by its name beside the bundle. */
const PROCESSES: Readonly<Record<FunctionName, readonly { in: string; out: string }[]>> = {
  batch: [{ in: 'lib/model/fence-child.ts', out: 'fence-child' }],
  'dead-letter': [],
  predict: [],
  predictions: [],
  status: [],
};

/** CommonJS inside the bundle asks for Node's own modules with `require`, which an ES module does not have. */
const REQUIRE =
  "import{createRequire as __createRequire}from'node:module';const require=__createRequire(import.meta.url);";

const FIXED_TIME = new Date('2000-01-01T00:00:00Z');

export async function buildFunctions(request: BuildRequest): Promise<Bundle[]> {
  return Promise.all(FUNCTIONS.map((name) => buildFunction(name, request)));
}

async function buildFunction(name: FunctionName, request: BuildRequest): Promise<Bundle> {
  const { root, processor, outFolder = 'dist' } = request;
  const folder = join(root, outFolder, name);
  await rm(folder, { recursive: true, force: true });
  const { metafile } = await build({ ...bundleOptions(name, root), outdir: folder });
  for (const output of Object.keys(metafile.outputs)) await fix(join(root, output));
  for (const companion of await companions(metafile, root, processor)) await copyFixed(companion, folder);
  return { name, folder, metafile };
}

function bundleOptions(name: FunctionName, root: string) {
  return {
    entryPoints: [{ in: `functions/${name}.ts`, out: 'index' }, ...PROCESSES[name]],
    outExtension: { '.js': '.mjs' },
    absWorkingDir: root,
    bundle: true,
    platform: 'node',
    format: 'esm',
    target: 'node24',
    // ES modules before CommonJS: 653 KB instead of 845, because the AWS SDK's unused parts fall away.
    mainFields: ['module', 'main'],
    // What is imported on demand becomes a file of its own: 30 ms less to start predictions, 20 the others.
    splitting: true,
    minify: true,
    legalComments: 'none',
    banner: { js: REQUIRE },
    external: [RUNTIME],
    metafile: true,
    logLevel: 'warning',
  } as const satisfies BuildOptions;
}

/** A file beside the bundle: where it comes from (absolute) and where it goes (relative to the bundle). */
interface Companion {
  readonly source: string;
  readonly target: string;
}

/** What a bundle opens by path at run time, read off the bundle itself. */
async function companions(metafile: Metafile, root: string, processor: Processor): Promise<Companion[]> {
  const require = createRequire(join(root, 'package.json'));
  const found: Companion[] = [];
  if (Object.hasOwn(metafile.inputs, JPEG_READER)) {
    const source = require.resolve(JPEG_WASM);
    found.push({ source, target: basename(source) });
  }
  const outputs = Object.values(metafile.outputs);
  if (outputs.some(({ imports }) => imports.some(({ path }) => path === RUNTIME))) {
    found.push(...(await runtimeFiles(require, processor)));
  }
  return found;
}

/** All that `import 'onnxruntime-node'` opens on Linux. The binding finds its library in its own folder. */
async function runtimeFiles(require: NodeJS.Require, processor: Processor): Promise<Companion[]> {
  const runtime = dirname(require.resolve(`${RUNTIME}/package.json`));
  // Its package.json is not exported; its entry is dist/cjs/index.js.
  const entry = createRequire(join(runtime, 'package.json')).resolve(RUNTIME_COMMON);
  const common = dirname(dirname(dirname(entry)));
  const binaries = `bin/napi-v6/linux/${processor}`;
  return [
    ...(await filesOf(runtime, ['.', 'dist', binaries])).map(inModules(RUNTIME, runtime)),
    ...(await filesOf(common, ['.', 'dist/cjs'])).map(inModules(RUNTIME_COMMON, common)),
  ];
}

function inModules(name: string, folder: string): (file: string) => Companion {
  return (file) => ({ source: join(folder, file), target: join('node_modules', name, file) });
}

/** Scripts, package.json and binaries of these folders, without what lies deeper; no types, no source maps. */
async function filesOf(root: string, folders: readonly string[]): Promise<string[]> {
  const found = folders.map(async (folder) => {
    const names = await readdir(join(root, folder));
    return names.filter((name) => RUNTIME_FILE.test(name)).map((name) => join(folder, name));
  });
  return (await Promise.all(found)).flat();
}

async function copyFixed({ source, target }: Companion, folder: string): Promise<void> {
  const path = join(folder, target);
  await mkdir(dirname(path), { recursive: true });
  await copyFile(source, path);
  await fix(path);
}

async function fix(path: string): Promise<void> {
  await chmod(path, 0o644);
  await utimes(path, FIXED_TIME, FIXED_TIME);
}
