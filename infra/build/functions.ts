/**
 * Bundles each function of the checkout into dist/<function>/: index.mjs and the files that it loads (joined.ts). The
 * same source gives the same bytes: paths are relative to the project, modes and times are fixed, and a former build
 * is removed.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { readFile, rm } from 'node:fs/promises';
import { builtinModules, createRequire } from 'node:module';
import { basename, dirname, join, relative } from 'node:path';
import { type BuildOptions, build, type Metafile, type Plugin } from 'esbuild';
import { lambdaNode, writeCodeCache } from './code-cache.ts';
import {
  addRuntime,
  BINDING,
  copyFixed,
  type FolderContents,
  FUNCTIONS,
  type FunctionFolder,
  type FunctionName,
  type FunctionsRequest,
  fix,
  partOf,
  RUN_WORKERS,
} from './function-folder.ts';
import { joinModules, START, type Written } from './joined.ts';
import { runtimeBinding } from './runtime-binding.ts';

export { FUNCTIONS, type FunctionName };

export interface BuildRequest extends FunctionsRequest {
  /** False omits onnxruntime's binaries. Default true. */
  readonly withRuntime?: boolean;
}

export interface Bundle extends FunctionFolder {
  /** The bundle's inputs and what imports them, with paths relative to root. */
  readonly metafile: Metafile;
}

const OWN = 'our own';

/** Owners of a decoder in WebAssembly, which lies beside their bundles, and the code of the package that goes with it. */
const DECODERS: Readonly<
  Record<string, { readonly wasm: string; readonly code?: readonly [string, string] }>
> = {
  'lib/codecs/image/libjpeg.ts': { wasm: '@cornerstonejs/codec-libjpeg-turbo-8bit/decodewasm' },
  // Its code is a module, which the name has to say where no package.json does.
  'lib/codecs/image/webp/decode.ts': { wasm: 'icodec/webp-dec.wasm', code: ['webp-dec.js', 'webp-dec.mjs'] },
};

/** Entry points that are imported late, but before each first answer. */
const EARLY = ['lib/compose/onnx.ts'];
/** The separate processes of a function, which are built next to its bundle. */
const PROCESSES: Readonly<Partial<Record<FunctionName, readonly { in: string; out: string }[]>>> = {
  batch: [{ in: 'lib/compose/isolated-process.ts', out: 'isolated-process' }],
};
/** Built apart: where it shared code with a function, every job would load that code from more files. */
const WORKER_LOOP = {
  entryPoints: [{ in: 'lib/workers/loop.ts', out: 'worker-loop' }],
  splitting: false,
  outExtension: { '.js': '.mjs' },
  // CommonJS in the bundle loads the binding with `require`, which ES modules do not have.
  banner: { js: "const require=process.getBuiltinModule('module').createRequire(import.meta.url);" },
};

export async function buildFunctions(request: BuildRequest): Promise<Bundle[]> {
  return Promise.all(FUNCTIONS.map((name) => buildFunction(name, request)));
}

async function buildFunction(name: FunctionName, request: BuildRequest): Promise<Bundle> {
  const { root, processor, outFolder = 'dist', withRuntime = true } = request;
  const folder = join(root, outFolder, name);
  await rm(folder, { recursive: true, force: true });
  const options = { ...bundleOptions(name, request), outdir: folder };
  const { metafile } = await build(options);
  const processes = (PROCESSES[name] ?? []).map(({ out }) => out);
  const written = await joinModules(root, metafile, { early: EARLY, processes });
  if (RUN_WORKERS.includes(name)) {
    const loop = await build({ ...options, ...WORKER_LOOP });
    Object.assign(metafile.inputs, loop.metafile.inputs);
    for (const all of [metafile.outputs, written]) Object.assign(all, loop.metafile.outputs);
  }
  for (const path of Object.keys(written)) await fix(join(root, path));
  // Dependencies of lib may not be hoisted by npm.
  const lib = join(root, 'lib');
  for (const [owner, { wasm, code }] of Object.entries(DECODERS)) {
    if (!Object.hasOwn(metafile.inputs, owner)) continue;
    const decoder = createRequire(join(lib, 'package.json')).resolve(wasm);
    await copyFixed(decoder, join(folder, basename(decoder)));
    if (code) await copyFixed(join(dirname(decoder), code[0]), join(folder, code[1]));
  }
  const contents = contentsOf(metafile, written, relative(root, folder));
  const node = contents.usesRuntime ? lambdaNode(processor) : undefined;
  if (node) await fix(await writeCodeCache(node, folder));
  if (contents.usesRuntime && withRuntime) await addRuntime(folder, lib, processor);
  return { name, folder, contents, metafile };
}

/** @param folder as the metafile's paths begin */
function contentsOf(
  { outputs }: Metafile,
  written: Readonly<Record<string, Written>>,
  folder: string,
): FolderContents {
  const parts = Object.entries(written).map(([path, { bytes, inputs }]) => {
    const sums: Record<string, number> = {};
    const add = (part: string, count: number) => {
      sums[part] = (sums[part] ?? 0) + count;
      return count;
    };
    const named = Object.entries(inputs).map(([input, { bytesInOutput }]) =>
      add(input.includes('node_modules/') ? partOf(input) : OWN, bytesInOutput),
    );
    // The bundler's own code.
    add(OWN, bytes - named.reduce((sum, count) => sum + count, 0));
    return [relative(folder, path), sums] as const;
  });
  const imports = Object.values(outputs).flatMap((output) => output.imports);
  return {
    parts: Object.fromEntries(parts),
    usesRuntime: imports.some(({ path }) => path.endsWith(BINDING)),
  };
}

function bundleOptions(name: FunctionName, { root, processor }: FunctionsRequest) {
  return {
    entryPoints: [{ in: `functions/${name}.ts`, out: basename(START, '.js') }, ...(PROCESSES[name] ?? [])],
    absWorkingDir: root,
    bundle: true,
    platform: 'node',
    format: 'esm',
    target: 'node24',
    // ES modules before CommonJS: 653 KB instead of 845, because unused parts of the AWS SDK are dropped.
    mainFields: ['module', 'main'],
    // Dynamic imports become separate files, read when needed.
    splitting: true,
    minify: true,
    legalComments: 'none',
    plugins: [
      nodeModules,
      unused,
      shortened(root),
      runtimeBinding({ processor, up: './', from: join(root, 'lib') }),
    ],
    metafile: true,
    logLevel: 'warning',
  } as const satisfies BuildOptions;
}

const NODE_MODULES = new Set(builtinModules.flatMap((name) => [name, `node:${name}`]));

const nodeModule = (name: string) => `module.exports = process.getBuiltinModule(${name});`;

/** Loaded when one of its exports is asked for. The bundler copies own properties, and has the others from the prototype. */
const lateModule = (name: string) => `
  const load = () => process.getBuiltinModule(${name});
  const get = (_, key) => key === '__esModule' ? undefined : load()[key];
  module.exports = Object.setPrototypeOf((...values) => load()(...values), new Proxy({}, { get }));`;

/** The disk on the way to a first answer, asked at once: threads for it take longer to start, and the module loads 12 others. */
const filePromises = (name: string) => `${lateModule(name)}
  const fs = process.getBuiltinModule('fs');
  for (const name of ['mkdir', 'mkdtemp', 'readdir', 'readFile', 'rename', 'rm', 'stat'])
    module.exports[name] = async (...values) => fs[name + 'Sync'](...values);`;

/** Modules that most cold starts import and do not use; together they take 5 ms. */
const LATE_MODULES: Readonly<Record<string, typeof lateModule>> = {
  assert: lateModule,
  'fs/promises': filePromises,
  https: lateModule,
  'timers/promises': lateModule,
  tls: lateModule,
  zlib: lateModule,
};

/**
 * An import of a Node module reads all its exports, and some load more: `http` loads undici for its WebSocket, `fs`
 * its streams. As objects they load only what is used.
 */
const nodeModules: Plugin = {
  name: 'node-modules',
  setup(bundler) {
    const namespace = 'node-modules';
    bundler.onResolve({ filter: /^[a-z]/ }, ({ path }) =>
      NODE_MODULES.has(path) ? { path, namespace } : undefined,
    );
    bundler.onLoad({ filter: /./, namespace }, ({ path }) => ({
      contents: (LATE_MODULES[path.replace('node:', '')] ?? nodeModule)(JSON.stringify(path)),
    }));
  },
};

/** Packages that no function uses, with their replacements. */
const UNUSED: Readonly<Record<string, string>> = {
  // The AWS SDK's detection of browsers: 7 kB zipped.
  bowser: 'export const parse = undefined;',
  // Reads DEBUG and detects colours each time that ioredis is loaded.
  debug: 'exports.default = () => Object.assign(() => undefined, { enabled: false });',
  // The client of clusters in ioredis, which names itself only; lib/redis/cluster takes its place.
  './cluster': 'exports.default = undefined;',
};

const unused: Plugin = {
  name: 'unused',
  setup(bundler) {
    const namespace = 'unused';
    const filter = new RegExp(`^(${Object.keys(UNUSED).join('|').replaceAll('.', '\\.')})$`);
    bundler.onResolve({ filter }, ({ path }) => ({ path, namespace }));
    bundler.onLoad({ filter: /./, namespace }, ({ path }) => ({ contents: UNUSED[path] ?? '' }));
  },
};

interface Shortening {
  /** Matches the path of a file. */
  readonly filter: RegExp;
  readonly shorten: (text: string, root: string) => string;
}

/** Files of the AWS SDK of which the functions use little. Together they were 67 of 244 kB zipped, in more files. */
const SHORTENED: readonly Shortening[] = [
  {
    // Lambda passes credentials in variables, which are the first that the SDK's chain of ways to sign in looks at.
    filter: /credential-provider-node[\\/]dist-es[\\/]index\.js$/,
    shorten: () => "export { fromEnv as defaultProvider } from '@aws-sdk/credential-provider-env';",
  },
  {
    // For S3 Select only.
    filter: /core[\\/]dist-es[\\/]submodules[\\/]event-streams[\\/]index\.js$/,
    shorten: () =>
      'export const resolveEventStreamSerdeConfig = (config) => config, eventStreamSerdeProvider = undefined, EventStreamSerde = undefined;',
  },
  {
    // A computed key could run code, so the bundler would keep every operation that has one.
    filter: /@aws-sdk[\\/].*[\\/]schemas_0\.js$/,
    shorten: (text) => {
      // Packaging runs on Node 20 too, where iterators have no `map`.
      const names = new Map(
        Array.from(text.matchAll(/^const (\w+) = ("[^"]*");$/gm), ([, name, value]) => [name, value]),
      );
      return text.replaceAll(/\[(_\w+)\]:/g, (key, name: string) => `${names.get(name) ?? key}:`);
    },
  },
  {
    // ioredis makes two methods of each of the 301 commands, at every start.
    filter: /@ioredis[\\/]commands[\\/]built[\\/]commands\.json$/,
    shorten(text, root) {
      const lib = join(root, 'lib');
      const ioredis = dirname(createRequire(join(lib, 'package.json')).resolve(REDIS_CLIENT));
      const words = new Set([...wordsIn(join(lib, 'redis'), '.ts'), ...wordsIn(ioredis, '.js')]);
      return JSON.stringify(
        Object.fromEntries(Object.entries(JSON.parse(text)).filter(([name]) => words.has(name))),
      );
    },
  },
  {
    // The clients ask for their version.
    filter: /@aws-sdk[\\/][^\\/]+[\\/]package\.json$/,
    shorten: (text) => JSON.stringify({ version: (JSON.parse(text) as { version: string }).version }),
  },
];

const REDIS_CLIENT = 'ioredis';

/** A command that is called, or named in a text, is among the words of the code. */
function wordsIn(folder: string, extension: string): string[] {
  const files = readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter((file) =>
    file.endsWith(extension),
  );
  return files.flatMap((file) => readFileSync(join(folder, file), 'utf8').match(/\b[a-z]+\b/g) ?? []);
}

const shortened = (root: string): Plugin => ({
  name: 'shortened',
  setup(bundler) {
    for (const { filter, shorten } of SHORTENED) {
      bundler.onLoad({ filter }, async ({ path }) => ({
        contents: shorten(await readFile(path, 'utf8'), root),
        loader: path.endsWith('.json') ? 'json' : 'js',
      }));
    }
  },
});
