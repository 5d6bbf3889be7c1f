/**
 * Runs the test files that its globs name, as `npm test` does. Most of a small file's time is loading what it tests, so files
 * of some folders share a process, one after another: they leave nothing behind in `process.env` or in globals, and have
 * no `beforeEach` outside a `describe`. Every other file has a process of its own. What waits for processes starts first,
 * so that nothing long is left at the end.
 */
import { globSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join, sep } from 'node:path';
import { run } from 'node:test';
import { spec } from 'node:test/reporters';
import { fileURLToPath, pathToFileURL } from 'node:url';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
/** Ignored by git. */
const MADE = join(ROOT, 'node_modules', '.cache', 'tests');
const CONCURRENCY = 4;

/** Folders below test/ whose files run in one process, by its name. */
const TOGETHER: Readonly<Record<string, readonly string[]>> = {
  'convert-import': ['convert/import'],
  'convert-caffe': ['convert/caffe'],
  'convert-tensorflow': ['convert/tensorflow'],
  'convert-graphs': ['convert/batching', 'convert/pytorch', 'convert/trees'],
  'convert-others': ['convert/bigdl', 'convert/openvino'],
  'lib-codecs': ['lib/codecs'],
  'lib-http': ['lib/compose', 'lib/http', 'lib/inference', 'lib/metrics', 'lib/openapi'],
  'lib-pipeline': ['lib/config', 'lib/contract', 'lib/pipeline', 'lib/queue', 'lib/text'],
  'lib-redis': ['lib/redis'],
  'lib-s3': ['lib/registry', 'lib/s3'],
};

/** What a file leaves behind for the next one. */
const LEAVES =
  /\b(useAws|clientOptions)\(|\bprocess\.env(\.\w+|\[[^\]]+\]) \??=[^=]|delete process\.env|\bglobalThis\.\w+ = |^(before|after)Each\(/m;

/** Those with the most time first. */
const FIRST = ['workers', 'cli', 'e2e', 'convert', 'lib'];

const isIn = (file: string, folder: string) => file.startsWith(`test/${folder}/`);

function testFiles(globs: readonly string[]): string[] {
  const found = new Set(globs.flatMap((glob) => globSync(glob, { cwd: ROOT })));
  if (found.size === 0) throw new Error(`no test files: ${globs.join(' ') || 'expected globs as arguments'}`);
  return [...found].map((file) => file.split(sep).join('/')).sort();
}

/** The path of a script that loads these files. */
function together(name: string, files: readonly string[]): string {
  const path = join(MADE, `${name}.mjs`);
  const imports = files.map((file) => `import ${JSON.stringify(pathToFileURL(join(ROOT, file)).href)};\n`);
  writeFileSync(path, imports.join(''));
  return path;
}

/** What each process runs, in the order of their starts. */
function processes(): string[] {
  mkdirSync(MADE, { recursive: true });
  const left = new Set(testFiles(process.argv.slice(2)));
  const made = Object.entries(TOGETHER).flatMap(([name, folders]) => {
    const files = [...left].filter(
      (file) =>
        folders.some((folder) => isIn(file, folder)) && !LEAVES.test(readFileSync(join(ROOT, file), 'utf8')),
    );
    for (const file of files) left.delete(file);
    return files.length === 0 ? [] : [{ at: `test/${folders[0]}/`, path: together(name, files) }];
  });
  const all = [...made, ...[...left].map((file) => ({ at: file, path: join(ROOT, file) }))];
  const place = ({ at }: { readonly at: string }) => {
    const found = FIRST.findIndex((folder) => isIn(at, folder));
    return found < 0 ? FIRST.length : found;
  };
  return all.sort((a, b) => place(a) - place(b)).map(({ path }) => path);
}

run({ files: processes(), concurrency: CONCURRENCY, cwd: ROOT })
  .on('test:fail', () => {
    process.exitCode = 1;
  })
  .compose(new spec())
  .pipe(process.stdout);
