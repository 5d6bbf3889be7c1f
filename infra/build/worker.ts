/** Bundles a job's worker and its packages into the functions that run it, as worker/<module>.mjs. */

import { join } from 'node:path';
import type { build } from 'esbuild';
import { badConfig } from '../../lib/contract/errors.ts';
import { present } from '../../lib/contract/present.ts';
import { workerFile } from '../../lib/workers/command.ts';
import { type RuntimePlace, runtimeBinding } from './cold-start/runtime-binding.ts';
import { type FunctionFolder, fix, RUN_WORKERS } from './function-folder.ts';

export interface WorkerRequest extends Omit<RuntimePlace, 'up'> {
  readonly worker: string;
  readonly directory: string;
  readonly build: typeof build;
}

/** CommonJS in the bundle needs `require`; the user's own code may declare the name. */
const REQUIRE = "globalThis.require??=process.getBuiltinModule('module').createRequire(import.meta.url);";

/** @throws bad_config for code that cannot be bundled, or without the class */
export async function addWorker(
  functions: readonly Pick<FunctionFolder, 'name' | 'folder'>[],
  { worker, directory, build: run, ...runtime }: WorkerRequest,
): Promise<void> {
  const modules = worker.split('.');
  const kind = present(modules.pop(), 'class name');
  const source = workerFile(worker, directory);
  for (const { folder } of functions.filter(({ name }) => RUN_WORKERS.includes(name))) {
    const outfile = `${join(folder, 'worker', ...modules)}.mjs`;
    const { metafile } = await run({
      entryPoints: [source],
      outfile,
      absWorkingDir: directory,
      bundle: true,
      platform: 'node',
      format: 'esm',
      target: 'node24',
      minify: true,
      keepNames: true,
      banner: { js: REQUIRE },
      plugins: [runtimeBinding({ ...runtime, up: '../'.repeat(modules.length) })],
      metafile: true,
      logLevel: 'silent',
    }).catch((error: Error) => {
      throw badConfig(`worker.class: ${source}: ${error.message}`, { cause: error });
    });
    if (!Object.values(metafile.outputs).some(({ exports }) => exports.includes(kind))) {
      throw badConfig(`worker.class: ${source} exports no class ${kind}; it is to be an ES module`);
    }
    await fix(outfile);
  }
}
