/**
 * Makes of the ES modules that the bundler wrote for a function the files that Lambda loads: function.js with all that its
 * start needs, a file for each part that is loaded at first use, and index.mjs, which loads them. Node reads and compiles one
 * script faster than 41 modules, and V8 takes the code of a script from a cache (code-cache.ts), but not that of a module.
 * Saves 15 ms of processor time in a cold start of predict, and 6 more with the cache.
 */

import { readFile, rm, writeFile } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { type Metafile, transform } from 'esbuild';
import { present } from '../../../lib/contract/present.ts';

type Outputs = Metafile['outputs'];
export type Written = Pick<Outputs[string], 'bytes' | 'inputs'>;

/** Lambda's runtime client would take an index.js before index.mjs. */
export const START = 'function.js';
export const CACHE = 'function.cache';
/** Smaller parts are in START, although not all are needed there: a file takes longer to open than they have code. */
const SMALL_BYTES = 2_000;
/** As the bundler writes a dynamic import of another part. */
const LATE_IMPORT = /\bimport\(("\.\/[\w-]+\.js")\)/g;

/**
 * Loads parts as Node loads CommonJS, but several from one file. V8 refuses a cache of another Node, but looks neither for damage
 * nor for another script of the same length: the digest at the end of the cache is of both.
 */
const LOADER = `const { readFileSync } = process.getBuiltinModule('fs');
const { createHash } = process.getBuiltinModule('crypto');
const { Script, constants } = process.getBuiltinModule('vm');
const outside = process.getBuiltinModule('module').createRequire(import.meta.url);
const { dirname, url, resolve } = import.meta;
const parts = {}, loaded = {};
function read(file, cacheOf = () => undefined) {
  const filename = dirname + '/' + file;
  const code = readFileSync(filename);
  const importModuleDynamically = constants.USE_MAIN_CONTEXT_DEFAULT_LOADER;
  const options = { filename, cachedData: cacheOf(code), importModuleDynamically };
  Object.assign(parts, new Script(code.latin1Slice(), options).runInThisContext());
}
function cacheOf(code) {
  try {
    const file = readFileSync(dirname + '/${CACHE}');
    const cache = file.subarray(0, -32);
    const digest = createHash('sha256').update(code).update(cache).digest();
    return digest.equals(file.subarray(-32)) ? cache : undefined;
  } catch {}
}
function load(id) {
  if (loaded[id]) return loaded[id].exports;
  if (!/^\\.\\/[\\w-]+\\.js$/.test(id)) return outside(id);
  if (!parts[id]) read(id);
  const module = loaded[id] = { exports: {} };
  try {
    parts[id](module.exports, load, module, { url, resolve }, async (id) => load(id));
  } catch (error) {
    delete loaded[id];
    throw error;
  }
  return module.exports;
}
read('${START}', cacheOf);
`;

/**
 * @param metafile with paths relative to root
 * @param early entry points that are loaded so soon that they are in START
 * @param processes the names of the entry points beside the function, which become programs of their own
 * @returns the files that replace the bundler's, by path relative to root
 */
export async function joinModules(
  root: string,
  { outputs }: Metafile,
  { early, processes }: { readonly early: readonly string[]; readonly processes: readonly string[] },
): Promise<Record<string, Written>> {
  const paths = Object.keys(outputs);
  const start = present(
    paths.find((path) => basename(path) === START),
    'fitting element of paths',
  );
  const first = paths.filter((path) => early.includes(outputs[path]?.entryPoint ?? ''));
  const small = paths.filter((path) => present(outputs[path], path).bytes < SMALL_BYTES);
  const joined = new Set([
    ...[start, ...first].flatMap((path) => [...loadedAtStart(outputs, path)]),
    ...small,
  ]);
  const parts = new Map(
    await Promise.all(paths.map(async (path) => [path, await partOf(join(root, path))] as const)),
  );
  const written: Record<string, Written> = {};
  const write = async (path: string, text: string, from: readonly string[]) => {
    const inputs = Object.assign({}, ...from.map((each) => outputs[each]?.inputs)) as Written['inputs'];
    written[path] = { bytes: text.length, inputs };
    await writeFile(join(root, path), text);
  };
  const writeParts = (path: string, of: readonly string[]) =>
    write(path, `({${of.map((each) => parts.get(each)).join(',\n')}})\n`, of);
  for (const path of paths) await (joined.has(path) ? rm(join(root, path)) : writeParts(path, [path]));
  await writeParts(start, [...joined]);
  const folder = dirname(start);
  await write(
    join(folder, 'index.mjs'),
    `${LOADER}export const handler = await load('./${START}').handler;\n`,
    [],
  );
  for (const name of processes)
    await write(join(folder, `${name}.mjs`), `${LOADER}load('./${name}.js');\n`, []);
  return written;
}

/** A property of an object: the name of a part, and the function that is its code. */
async function partOf(file: string): Promise<string> {
  const text = (await readFile(file, 'utf8')).replaceAll(LATE_IMPORT, 'late($1)');
  const { code } = await transform(text, {
    format: 'cjs',
    platform: 'node',
    target: 'node24',
    minify: true,
    // Read as latin1, which needs no decoding.
    charset: 'ascii',
    legalComments: 'none',
    define: { 'import.meta.url': 'meta.url', 'import.meta.resolve': 'meta.resolve' },
  });
  // A function in parentheses is compiled at once, without a first look for its end.
  return `${JSON.stringify(`./${basename(file)}`)}:(function(exports,require,module,meta,late){${code}})`;
}

/** Paths of a part and those that it imports, and they import, without waiting for anything. */
export function loadedAtStart(outputs: Outputs, start: string): Set<string> {
  const loaded = new Set<string>();
  const load = (path: string) => {
    const output = outputs[path];
    if (!output || loaded.has(path)) return;
    loaded.add(path);
    for (const { path: next, kind } of output.imports) if (kind === 'import-statement') load(next);
  };
  load(start);
  return loaded;
}
