/** Has a file that only Python reads exported by the framework that wrote it, in an environment that is thrown away. */
import { mkdir, mkdtemp, open, readdir, rename, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, join, resolve } from 'node:path';
import { badModel, type ServingError } from '../../lib/contract/errors.ts';
import { bytesBelow, type Failure, PythonEnvironment } from './environment.ts';
import { RECIPES, type Recipe } from './recipes.ts';

const INSTALL_MS = 30 * 60_000;
const EXPORT_MS = 15 * 60_000;
const MAX_EXPORTED_BYTES = 16 * 2 ** 30;
/** In which the version of scikit-learn is looked for. */
const HEAD_BYTES = 64 * 1024 * 1024;

/** A file with the recipe for it. */
export interface Exportable {
  readonly file: string;
  readonly recipe: Recipe;
  readonly packages: readonly string[];
}

export interface ExportOptions {
  /** Default: python3. */
  readonly python?: string | undefined;
  readonly signal?: AbortSignal | undefined;
  readonly onStage?: ((text: string) => void) | undefined;
}

/** What an exporter made. */
export interface Exported {
  readonly directory: string;
  /** What the framework answers; undefined where nothing could be asked. */
  readonly reference: string | undefined;
  /** For the import report. */
  readonly note: string;
}

/** The one file of a directory that has a recipe. @throws bad_model where there is none, or several */
export async function exportable(path: string): Promise<Exportable> {
  const place = resolve(path);
  const isDirectory = (await stat(place)).isDirectory();
  const names = isDirectory ? await readdir(place) : [basename(place)];
  const fitting = names.flatMap((name) => {
    const recipe = RECIPES.find(({ files }) => files.test(name));
    return recipe ? [{ name, recipe }] : [];
  });
  const [first, ...more] = fitting;
  const titles = [...new Set(RECIPES.map(({ title }) => title))].join(', ');
  if (!first || more.length > 0)
    throw badModel(
      `--with-python: expected one file of ${titles}; found ${fitting.map(({ name }) => name).join(', ') || 'none'} in ${place}`,
    );
  const file = isDirectory ? join(place, first.name) : place;
  return { file, recipe: first.recipe, packages: await packagesOf(first.recipe, file) };
}

/** With the version that a pickle of scikit-learn names: another one may answer otherwise. */
async function packagesOf({ packages }: Recipe, file: string): Promise<string[]> {
  const found = packages.some((name) => name.includes('{')) ? await versionIn(file) : undefined;
  return packages.map((name) => name.replace(/\{\w+\|([^}]+)\}/, (_, usual: string) => found ?? usual));
}

async function versionIn(file: string): Promise<string | undefined> {
  const handle = await open(file);
  try {
    const { buffer, bytesRead } = await handle.read({
      buffer: Buffer.alloc(Math.min(HEAD_BYTES, (await handle.stat()).size)),
    });
    const text = buffer.subarray(0, bytesRead).toString('latin1');
    return /_sklearn_version[^\d]{1,12}(\d+\.\d+(?:\.\d+)*)/.exec(text)?.[1];
  } finally {
    await handle.close();
  }
}

/**
 * Calls `work` with what the exporter made, which is removed afterwards.
 * @throws bad_model with the commands to run by hand where Python or its packages cannot be had here
 */
export async function withExport<T>(
  exported: Exportable,
  options: ExportOptions,
  work: (made: Exported) => Promise<T>,
): Promise<T> {
  const folder = await mkdtemp(join(tmpdir(), 'onnx-import-python-'));
  try {
    return await work(await exportIn(folder, exported, options));
  } finally {
    await rm(folder, { recursive: true, force: true, maxRetries: 3 });
  }
}

async function exportIn(
  folder: string,
  { file, recipe, packages }: Exportable,
  { python = 'python3', signal, onStage }: ExportOptions,
): Promise<Exported> {
  const environment = new PythonEnvironment(folder, recipe.diskGB, signal);
  onStage?.(`installing ${packages.join(' ')}`);
  const missing = await environment.install(python, packages, INSTALL_MS);
  if (missing) throw failed(missing, file, { recipe, packages });
  const out = join(folder, 'exported');
  await mkdir(out);
  onStage?.(`exporting ${basename(file)}`);
  const broken = await environment.script(
    recipe.script,
    [file, out],
    `exporting ${basename(file)}`,
    EXPORT_MS,
  );
  if (broken) throw badModel(`${file}: ${broken.what} failed:\n${broken.printed}`);
  await assertSize(out);
  const reference = join(out, 'reference');
  const isAsked = (await readdir(out)).includes('reference');
  const target = join(folder, 'reference');
  if (isAsked) await rename(reference, target);
  const note = `${basename(file)} was exported in Python by ${packages.join(', ')}${isAsked ? ', and its answers there are the reference' : '; its answers there were not compared'}`;
  return { directory: out, reference: isAsked ? target : undefined, note };
}

async function assertSize(folder: string): Promise<void> {
  const bytes = await bytesBelow(folder);
  if (bytes > MAX_EXPORTED_BYTES)
    throw badModel(`the exporter made ${bytes} bytes, over ${MAX_EXPORTED_BYTES}`);
}

/** What to run elsewhere. */
export function commands(
  file: string,
  { recipe, packages }: Pick<Exportable, 'packages' | 'recipe'>,
): string {
  return [
    'python3 -m venv env',
    `env/bin/pip install ${packages.map((name) => `"${name}"`).join(' ')}`,
    'mkdir exported',
    `env/bin/python - ${JSON.stringify(file)} exported <<'END'`,
    recipe.script.trim(),
    'END',
  ].join('\n');
}

function failed(
  { what, printed }: Failure,
  file: string,
  exported: Pick<Exportable, 'packages' | 'recipe'>,
): ServingError {
  return badModel(
    `${file}: ${what} failed:\n${printed}\nWhere Python and its packages can be had, run these lines, then import the folder "exported":\n${commands(file, exported)}`,
  );
}
