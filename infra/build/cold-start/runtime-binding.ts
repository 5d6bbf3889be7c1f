/** Bundles onnxruntime's scripts, which saves finding and reading 25 files. Its binaries stay outside. */
import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import type { Plugin } from 'esbuild';
import { BINDING, type Processor, RUNTIME, runtimeFolder } from '../function-folder.ts';

/** The file that loads the binding, and its code for that. */
const RUNTIME_LOADER = /onnxruntime-node\/dist\/binding\.js$/;
export const RUNTIME_BINDING =
  'require(`../bin/napi-v6/${process.platform}/${process.arch}/onnxruntime_binding.node`)';

export interface RuntimePlace {
  readonly processor: Processor;
  /** From the bundle to the function's folder: `./`, `../`. */
  readonly up: string;
  /** A folder from which the deployed onnxruntime-node is imported, whichever version a worker has. */
  readonly from: string;
}

export function runtimeBinding({ processor, up, from }: RuntimePlace): Plugin {
  const path = `${up}${runtimeFolder(processor)}/${BINDING}`;
  return {
    name: `runtime-binding ${path}`,
    setup(bundler) {
      bundler.onLoad({ filter: RUNTIME_LOADER }, async ({ path: file }) => {
        const text = await readFile(file, 'utf8');
        if (!text.includes(RUNTIME_BINDING)) throw new Error(`${file} asks for its binding in another way`);
        return { contents: text.replace(RUNTIME_BINDING, `require(${JSON.stringify(path)})`) };
      });
      bundler.onResolve({ filter: /^onnxruntime-node$/ }, () => ({
        path: createRequire(join(from, 'package.json')).resolve(RUNTIME),
      }));
      bundler.onResolve({ filter: /\.node$/ }, ({ importer }) =>
        RUNTIME_LOADER.test(importer) ? { path, external: true } : undefined,
      );
    },
  };
}
