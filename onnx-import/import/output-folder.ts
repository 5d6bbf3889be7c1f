/**
 * Creates a working folder next to an import's output, which then replaces the output at once. Only what an import
 * wrote is ever replaced or deleted.
 */
import { createHash, randomBytes } from 'node:crypto';
import { mkdir, readdir, readFile, rename, rm, stat } from 'node:fs/promises';
import { hostname } from 'node:os';
import { basename, dirname, join, relative, resolve, sep } from 'node:path';
import { badConfig } from '../../lib/contract/errors.ts';
import { isAlive } from '../../lib/registry/download-folder.ts';
import { unreadable } from '../../lib/registry/onnx-file.ts';
import { isReportFile, REPORT_FILE, reportPath } from '../report/report-file.ts';

/** Where an import goes. */
export interface Output {
  readonly out: string;
  /** Allows other files in it, which stay. Default false. */
  readonly force?: boolean | undefined;
  /** First parts of paths that are the import's own, beside what its report lists. Default: none. */
  readonly own?: readonly string[] | undefined;
}

/**
 * @param source the model's directory, absolute
 * @throws bad_config when `out` and the source contain each other, `out` is not a directory, or it holds other files
 */
export async function assertOutput({ out, force, own }: Output, source: string): Promise<void> {
  const target = resolve(out);
  if (isWithin(target, source) || isWithin(source, target)) {
    throw badConfig(`--out ${target}: expected a directory apart from the model's own, ${source}`);
  }
  const names = await namesIn(target);
  const foreign = await foreignFiles(target, names, own);
  if (foreign.length === 0) return;
  const models = foreign.filter((name) => name.endsWith('.onnx') && name !== 'model.onnx');
  if (models.length > 0) throw badConfig(`--out ${target} holds another model, ${models.join(', ')}`);
  if (!force) {
    throw badConfig(
      `--out ${target} is not empty, and not of an import: ${foreign.slice(0, 5).join(', ')}; --force adds the model to it`,
    );
  }
}

async function namesIn(target: string): Promise<string[]> {
  try {
    return await readdir(target);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT') return [];
    const file = code === 'ENOTDIR' ? await fileAbove(target) : undefined;
    const why = file === undefined ? unreadable(error, target) : `${file} is a file`;
    throw badConfig(`--out ${target} cannot be used: ${why}`);
  }
}

/** The files that no import wrote. */
async function foreignFiles(
  target: string,
  names: readonly string[],
  own: readonly string[] = [],
): Promise<string[]> {
  const listed = [...(await listedFiles(target)), ...own];
  const isOurs = (name: string) => isReportFile(name) || listed.includes(name);
  return names.includes(REPORT_FILE) ? names.filter((name) => !isOurs(name)) : [...names];
}

/** First parts of the paths the import report lists. */
async function listedFiles(target: string): Promise<string[]> {
  try {
    const importReport = JSON.parse(await readFile(reportPath(target), 'utf8')) as {
      converter: { name: unknown };
      model: { files: readonly { path: string }[] };
    };
    if (importReport.converter.name !== 'onnx-import') return [];
    return importReport.model.files.map(({ path }) => path.split('/')[0] as string);
  } catch {
    return [];
  }
}

function isWithin(path: string, folder: string): boolean {
  const way = relative(folder, path);
  return way === '' || !(way === '..' || way.startsWith(`..${sep}`));
}

/**
 * After this time the folder of another machine, whose processes cannot be checked, is abandoned. An import takes
 * minutes at most.
 */
const ABANDONED_MS = 24 * 3_600_000;

/** Four hex digits that identify this machine: a process id only counts on its own machine. */
const MACHINE = createHash('sha256').update(hostname()).digest('hex').slice(0, 4);

/** @returns its path, in the folder that `out` will be in */
export async function temporaryBeside(out: string): Promise<string> {
  const target = resolve(out);
  const prefix = `.${basename(target)}.partial-`;
  try {
    await mkdir(dirname(target), { recursive: true });
    await removeAbandoned(target, prefix);
    const name = `${prefix}${process.pid}-${MACHINE}${randomBytes(4).toString('hex')}`;
    const folder = join(dirname(target), name);
    await mkdir(folder);
    return folder;
  } catch (error) {
    const { code, path = target } = error as NodeJS.ErrnoException;
    const inTheWay = code === 'ENOTDIR' || code === 'EEXIST' ? await fileAbove(path) : undefined;
    const why = inTheWay === undefined ? unreadable(error, target) : `${inTheWay} is a file`;
    throw badConfig(`--out ${target} cannot be made: ${why}`);
  }
}

/** The part of a path that is a file. */
async function fileAbove(path: string): Promise<string | undefined> {
  for (let at = path; ; at = dirname(at)) {
    const found = await stat(at).catch(() => undefined);
    if (found) return found.isDirectory() ? undefined : at;
    if (at === dirname(at)) return undefined;
  }
}

/** Removes what killed imports into the same output left behind. */
async function removeAbandoned(target: string, prefix: string): Promise<void> {
  const parent = dirname(target);
  for (const name of await readdir(parent)) {
    if (!name.startsWith(prefix)) continue;
    const [, pid, machine, before] =
      /^(?:(\d{1,10})-)?([0-9a-f]{4})[0-9a-f]{8}(-before)?$/.exec(name.slice(prefix.length)) ?? [];
    if (machine === undefined) continue;
    const path = join(parent, name);
    const found = await stat(path).catch(() => undefined);
    const isEnded = pid !== undefined && machine === MACHINE && !isAlive(Number(pid));
    if (!found || !(isEnded || Date.now() - found.mtimeMs > ABANDONED_MS)) continue;
    // The import was killed between two renames, so this folder holds the only copy.
    const isOnly = before !== undefined && !(await stat(target).catch(() => undefined));
    if (isOnly) await rename(path, target);
    else await rm(path, { recursive: true, force: true });
  }
}

/** Moves the finished folder to the output. @returns the output's path */
export async function takeOver(folder: string, { out, own }: Output): Promise<string> {
  const target = resolve(out);
  const names = await namesIn(target);
  const foreign = await foreignFiles(target, names, own);
  if (foreign.length > 0) {
    // The import report last: it says that the others are there.
    const made = (await readdir(folder)).sort(
      (a, b) => Number(a === REPORT_FILE) - Number(b === REPORT_FILE),
    );
    for (const name of made) await replace(join(folder, name), join(target, name));
    return target;
  }
  const before = `${folder}-before`;
  const isThere = await stat(target).catch(() => undefined);
  if (isThere) await rename(target, before);
  await rename(folder, target);
  if (isThere) await rm(before, { recursive: true, force: true });
  return target;
}

async function replace(from: string, to: string): Promise<void> {
  const isFolder = (await stat(from)).isDirectory();
  if (isFolder) await rm(to, { recursive: true, force: true });
  await rename(from, to);
}
