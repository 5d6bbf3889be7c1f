/**
 * Bundles the programs of a deployment into one script, which each process evaluates for itself: a process has its own
 * modules, and all that reaches the outside (clocks, randomness, network, disk, processes) is passed in.
 */
import { readFile } from 'node:fs/promises';
import { join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import vm from 'node:vm';
import { build, context, type OutputFile, type Plugin } from 'esbuild';

const ROOT = fileURLToPath(new URL('../../..', import.meta.url));

/** A change of one source file. */
export interface Patch {
  /** From the root of the repository. */
  readonly file: string;
  /** Occurs exactly once. */
  readonly find: string;
  readonly replace: string;
}

/** Packages in whose place a process gets a model: see process.ts. */
const MODELLED = [
  '@aws-sdk/client-s3',
  '@aws-sdk/client-sqs',
  '@aws-sdk/lib-storage',
  'onnxruntime-node',
  'wasmoon',
];
/** Evaluated once for all processes, because that takes as long as everything else: see shared.ts. */
const SHARED = 'ioredis';
/** Packages that no simulated record needs. */
const UNUSED = [
  '@huggingface/tokenizers',
  '@cornerstonejs/codec-libjpeg-turbo-8bit',
  'icodec',
  'yaml',
  'sharp',
];

/** The names that a process passes to the script, in this order. */
export const PASSED = [
  'require',
  'process',
  'Date',
  'Math',
  'performance',
  'setTimeout',
  'clearTimeout',
  'setInterval',
  'clearInterval',
  'setImmediate',
  'clearImmediate',
  'crypto',
  'fetch',
  'AbortSignal',
  'console',
] as const;

type Program = () => Promise<Readonly<Record<string, unknown>>>;
export type Programs = Readonly<Record<string, Program>>;
export type Evaluate = (...passed: unknown[]) => Programs;

/** @param planted the faults of the build that runs */
function patching(planted: () => readonly Patch[], root: string): Plugin {
  const used = new Set<Patch>();
  return {
    name: 'patches',
    setup(plugin) {
      plugin.onStart(() => used.clear());
      plugin.onLoad({ filter: /\.ts$/ }, async ({ path }) => {
        const file = relative(root, path);
        const own = planted().filter((patch) => patch.file === file);
        if (own.length === 0) return undefined;
        let contents = await readFile(path, 'utf8');
        for (const patch of own) {
          const pieces = contents.split(patch.find);
          if (pieces.length !== 2)
            throw new Error(
              `${file}: the text to replace occurs ${pieces.length - 1} times, expected once:\n${patch.find}`,
            );
          contents = pieces.join(patch.replace);
          used.add(patch);
        }
        return { contents, loader: 'ts' };
      });
      plugin.onEnd(() => {
        const unused = planted().find((patch) => !used.has(patch));
        if (unused) throw new Error(`${unused.file} is not part of the simulation`);
      });
    },
  };
}

/** Bundles the programs of a checkout with one set of faults after another, and parses what they share once. */
export interface Bundler {
  /** One at a time. @param patches faults that are planted */
  programs(patches?: readonly Patch[]): Promise<Evaluate>;
  /** Until then it keeps the process alive. */
  close(): Promise<void>;
}

/** @param root of the sources. Default: this checkout */
export async function openBundler(root = ROOT): Promise<Bundler> {
  let planted: readonly Patch[] = [];
  const building = await context({
    absWorkingDir: root,
    entryPoints: [join(root, 'test/simulation/programs/programs.ts')],
    bundle: true,
    write: false,
    format: 'cjs',
    platform: 'node',
    target: 'node24',
    external: [...MODELLED, ...UNUSED, SHARED],
    supported: { 'dynamic-import': false },
    define: { 'import.meta.url': JSON.stringify('file:///simulated/program.mjs') },
    logLevel: 'error',
    plugins: [patching(() => planted, root)],
  });
  return {
    async programs(patches = []) {
      planted = patches;
      const { outputFiles } = await building.rebuild();
      const evaluate = compile(outputFiles, 'simulated-programs.cjs');
      return (...passed) => {
        const { PROGRAMS } = evaluate(...passed) as { readonly PROGRAMS?: Programs };
        if (!PROGRAMS) throw new Error('the bundle exports no programs');
        return PROGRAMS;
      };
    },
    close: () => building.dispose(),
  };
}

/**
 * @param patches faults that are planted
 * @param root of the sources. Default: this checkout
 */
export async function bundlePrograms(patches: readonly Patch[] = [], root = ROOT): Promise<Evaluate> {
  const bundler = await openBundler(root);
  try {
    return await bundler.programs(patches);
  } finally {
    await bundler.close();
  }
}

/** The client of Redis, with what it reaches passed in. */
export async function bundleShared(): Promise<(...passed: unknown[]) => unknown> {
  const { outputFiles } = await build({
    absWorkingDir: ROOT,
    entryPoints: [SHARED],
    bundle: true,
    write: false,
    format: 'cjs',
    platform: 'node',
    target: 'node24',
    logLevel: 'error',
  });
  return compile(outputFiles, 'simulated-ioredis.cjs');
}

/** Returns a function that evaluates the script with the values it is given, each time from the start, and returns its exports. */
function compile(outputFiles: readonly OutputFile[], filename: string): (...passed: unknown[]) => unknown {
  const [file] = outputFiles;
  if (!file) throw new Error('nothing was bundled');
  const parameters = ['exports', 'module', ...PASSED].join(', ');
  const script = new vm.Script(`(function (${parameters}) {${file.text}\n})`, { filename });
  const define = script.runInThisContext();
  return (...passed) => {
    const module: { exports: unknown } = { exports: {} };
    define(module.exports, module, ...passed);
    return module.exports;
  };
}
