/**
 * Copies the bundled functions of the published package to dist/<function>/ of the service, as a build of the
 * checkout writes them. onnxruntime's binaries come from the onnxruntime-node in the package.
 */
import { readdir, readFile } from 'node:fs/promises';
import { join, relative } from 'node:path';
import {
  addRuntime,
  copyFixed,
  type FolderContents,
  type FunctionFolder,
  type FunctionName,
  type FunctionsRequest,
  makeFolders,
  type Processor,
  type ResultStore,
} from './function-folder.ts';

export type PrebuiltContents = Readonly<Record<FunctionName, FolderContents>>;

/** Describes the bundles for a processor. */
export const CONTENTS = 'contents.json';

/** Relative to the package. */
export function prebuiltFolder(processor: Processor, results: ResultStore = 'redis'): string {
  return join('functions', results === 'redis' ? processor : `${processor}-${results}`);
}

export async function copyFunctions(request: FunctionsRequest): Promise<FunctionFolder[]> {
  const { root, processor, results } = request;
  const source = join(root, prebuiltFolder(processor, results));
  const contents = JSON.parse(await readFile(join(source, CONTENTS), 'utf8')) as PrebuiltContents;
  return makeFolders(request, async (name, folder) => {
    for (const file of await filesOf(join(source, name)))
      await copyFixed(join(source, name, file), join(folder, file));
    if (contents[name].usesRuntime) await addRuntime(folder, root, processor);
    return { name, folder, contents: contents[name] };
  });
}

async function filesOf(folder: string): Promise<string[]> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  return entries
    .filter((entry) => entry.isFile())
    .map((entry) => relative(folder, join(entry.parentPath, entry.name)));
}
