/**
 * In: the project's folder and a processor. Out: dist/<function>/ with index.mjs and the files it loads at run time.
 * Trap: onnxruntime-node unpacks to 294 MB, over Lambda's 250; only the files named below go along (46 MB). Same
 * input, same bytes: paths are relative to the project, modes and times are fixed, nothing stays from a former build.
 */
import { chmod, copyFile, mkdir, readFile, rm, utimes } from 'node:fs/promises';
import { builtinModules, createRequire } from 'node:module';
import { basename, dirname, join } from 'node:path';
import { type BuildOptions, build, type Metafile, type Plugin } from 'esbuild';

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
/** The file that asks for the binding, and how. */
const RUNTIME_LOADER = /onnxruntime-node\/dist\/binding\.js$/;
const RUNTIME_BINDING =
  'require(`../bin/napi-v6/${process.platform}/${process.arch}/onnxruntime_binding.node`)';
const BINDING = 'onnxruntime_binding.node';
/** The binding finds its library in its own folder. */
const RUNTIME_BINARIES = [BINDING, 'libonnxruntime.so.1'];

const JPEG_READER = 'lib/codecs/image/libjpeg.ts';
const JPEG_WASM = '@cornerstonejs/codec-libjpeg-turbo-8bit/decodewasm';

/** What a function starts as a process of its own, by its name beside the bundle. */
const PROCESSES: Readonly<Record<FunctionName, readonly { in: string; out: string }[]>> = {
  batch: [{ in: 'lib/compose/isolated-process.ts', out: 'isolated-process' }],
  'dead-letter': [],
  predict: [],
  predictions: [],
  status: [],
};

/** CommonJS inside the bundle asks for the binding with `require`, which an ES module does not have. */
const REQUIRE = "const require=process.getBuiltinModule('module').createRequire(import.meta.url);";

const FIXED_TIME = new Date('2000-01-01T00:00:00Z');

export async function buildFunctions(request: BuildRequest): Promise<Bundle[]> {
  return Promise.all(FUNCTIONS.map((name) => buildFunction(name, request)));
}

async function buildFunction(name: FunctionName, request: BuildRequest): Promise<Bundle> {
  const { root, processor, outFolder = 'dist' } = request;
  const folder = join(root, outFolder, name);
  await rm(folder, { recursive: true, force: true });
  const { metafile } = await build({ ...bundleOptions(name, request), outdir: folder });
  for (const output of Object.keys(metafile.outputs)) await fix(join(root, output));
  for (const companion of await companions(metafile, root, processor)) await copyFixed(companion, folder);
  return { name, folder, metafile };
}

function bundleOptions(name: FunctionName, { root, processor }: BuildRequest) {
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
    // What is imported on demand becomes a file of its own, read when it is needed.
    splitting: true,
    minify: true,
    legalComments: 'none',
    banner: { js: REQUIRE },
    plugins: [nodeModules, browsersOnly, runtimeBinding(processor)],
    metafile: true,
    logLevel: 'warning',
  } as const satisfies BuildOptions;
}

const NODE_MODULES = new Set(builtinModules.flatMap((name) => [name, `node:${name}`]));

/**
 * An import of Node's own modules asks for every one of their names, and some are loaded when they are asked for: `http`
 * brings undici for its WebSocket, `fs` its streams. Taken as objects they bring what is used.
 */
const nodeModules: Plugin = {
  name: 'node-modules',
  setup(bundler) {
    const namespace = 'node-modules';
    bundler.onResolve({ filter: /^[a-z]/ }, ({ path }) =>
      NODE_MODULES.has(path) ? { path, namespace } : undefined,
    );
    bundler.onLoad({ filter: /./, namespace }, ({ path }) => ({
      contents: `module.exports = process.getBuiltinModule(${JSON.stringify(path)});`,
    }));
  },
};

/** What the AWS SDK loads in a browser to tell which one it is: 7 kB zipped, which no function ever reads. */
const browsersOnly: Plugin = {
  name: 'browsers-only',
  setup(bundler) {
    const namespace = 'browsers-only';
    bundler.onResolve({ filter: /^bowser$/ }, ({ path }) => ({ path, namespace }));
    bundler.onLoad({ filter: /./, namespace }, () => ({ contents: 'export const parse = undefined;' }));
  },
};

/** onnxruntime's own scripts are bundled: 25 files less to find and read. Its binaries lie beside the bundle. */
function runtimeBinding(processor: Processor): Plugin {
  const path = `./${runtimeFolder(processor)}/${BINDING}`;
  return {
    name: 'runtime-binding',
    setup(bundler) {
      bundler.onLoad({ filter: RUNTIME_LOADER }, async ({ path: file }) => {
        const text = await readFile(file, 'utf8');
        if (!text.includes(RUNTIME_BINDING)) throw new Error(`${file} asks for its binding in another way`);
        return { contents: text.replace(RUNTIME_BINDING, `require(${JSON.stringify(path)})`) };
      });
      bundler.onResolve({ filter: /\.node$/ }, () => ({ path, external: true }));
    },
  };
}

/** Relative to the bundle: where the package has it. */
function runtimeFolder(processor: Processor): string {
  return `node_modules/${RUNTIME}/bin/napi-v6/linux/${processor}`;
}

/** A file beside the bundle: where it comes from (absolute) and where it goes (relative to the bundle). */
interface Companion {
  readonly source: string;
  readonly target: string;
}

/** What a bundle opens by path at run time, read off the bundle itself. */
async function companions(metafile: Metafile, root: string, processor: Processor): Promise<Companion[]> {
  // They are dependencies of lib, which npm need not have hoisted.
  const require = createRequire(join(root, 'lib', 'package.json'));
  const found: Companion[] = [];
  if (Object.hasOwn(metafile.inputs, JPEG_READER)) {
    const source = require.resolve(JPEG_WASM);
    found.push({ source, target: basename(source) });
  }
  const outputs = Object.values(metafile.outputs);
  if (outputs.some(({ imports }) => imports.some(({ path }) => path.endsWith(BINDING)))) {
    const folder = runtimeFolder(processor);
    const source = join(dirname(require.resolve(`${RUNTIME}/package.json`)), '..', '..', folder);
    found.push(
      ...RUNTIME_BINARIES.map((name) => ({ source: join(source, name), target: join(folder, name) })),
    );
  }
  return found;
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
