/**
 * Bundles each function of the checkout into dist/<function>/: index.mjs and the files that it loads (joined.ts). The
 * same source gives the same bytes: paths are relative to the project, modes and times are fixed, and a former build
 * is removed.
 */
import { createRequire } from 'node:module';
import { basename, dirname, join, relative } from 'node:path';
import { type BuildOptions, build, type Metafile, type Plugin } from 'esbuild';
import { lambdaNode, writeCodeCache } from './cold-start/code-cache.ts';
import { joinModules, START, type Written } from './cold-start/joined.ts';
import { lateModules } from './cold-start/late-modules.ts';
import { runtimeBinding } from './cold-start/runtime-binding.ts';
import { shortened } from './cold-start/shortened.ts';
import { unused } from './cold-start/unused.ts';
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
  makeFolders,
  partOf,
  RUN_WORKERS,
} from './function-folder.ts';

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
/** Functions that are not in `functions`. */
const ENTRIES: Readonly<Partial<Record<FunctionName, string>>> = { trials: 'release/trial/handler.ts' };
/** The separate processes of a function, which are built next to its bundle. */
const ISOLATED = [{ in: 'lib/compose/isolated-process.ts', out: 'isolated-process' }];
const PROCESSES: Readonly<Partial<Record<FunctionName, readonly { in: string; out: string }[]>>> = {
  batch: ISOLATED,
  jobs: ISOLATED,
};
/** In place of lib/compose/store.ts where results are in DynamoDB. */
const TABLE_STORE = 'lib/compose/table-store.ts';
const COMPOSE = /[\\/]lib[\\/]compose$/;
/** Built apart: where it shared code with a function, every job would load that code from more files. */
const WORKER_LOOP = {
  entryPoints: [{ in: 'lib/workers/loop.ts', out: 'worker-loop' }],
  splitting: false,
  outExtension: { '.js': '.mjs' },
  // CommonJS in the bundle loads the binding with `require`, which ES modules do not have.
  banner: { js: "const require=process.getBuiltinModule('module').createRequire(import.meta.url);" },
};

export async function buildFunctions(request: BuildRequest): Promise<Bundle[]> {
  return makeFolders(request, (name, folder) => buildFunction(name, folder, request));
}

async function buildFunction(name: FunctionName, folder: string, request: BuildRequest): Promise<Bundle> {
  const { root, processor, withRuntime = true } = request;
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

/** A bundle has one store of results. @param path of its module */
function resultsIn(path: string): Plugin {
  return {
    name: 'results',
    setup(bundler) {
      bundler.onResolve({ filter: /^\.\/store\.ts$/ }, ({ resolveDir }) =>
        COMPOSE.test(resolveDir) ? { path } : undefined,
      );
    },
  };
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

function bundleOptions(name: FunctionName, { root, processor, results = 'redis' }: FunctionsRequest) {
  return {
    entryPoints: [
      { in: ENTRIES[name] ?? `functions/${name}.ts`, out: basename(START, '.js') },
      ...(PROCESSES[name] ?? []),
    ],
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
      lateModules,
      ...(results === 'redis' ? [] : [resultsIn(join(root, TABLE_STORE))]),
      unused,
      shortened(root),
      runtimeBinding({ processor, up: './', from: join(root, 'lib') }),
    ],
    metafile: true,
    logLevel: 'warning',
  } as const satisfies BuildOptions;
}
