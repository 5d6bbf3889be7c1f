/**
 * Finds the other services of this user: those in data folders beside one, and on Linux those of any folder, by the
 * command lines of processes.
 */
import { readdir, readFile, readlink, stat } from 'node:fs/promises';
import { basename, dirname, join, resolve } from 'node:path';
import { DEFAULT_DATA_DIR, findRunning, type StackRecord } from './data-folder.ts';

export interface Service {
  readonly dataDir: string;
  readonly record: StackRecord;
}

/** Those that are ready, by their folders, without the one of `dataDir`. */
export async function otherServices(dataDir: string): Promise<Service[]> {
  const folders = new Set([...(await foldersBeside(dataDir)), ...(await foldersOfProcesses())]);
  folders.delete(dataDir);
  const found = await Promise.all(
    [...folders].toSorted().map(async (folder) => {
      const record = (await findRunning(folder))?.record;
      return record ? [{ dataDir: folder, record }] : [];
    }),
  );
  return found.flat();
}

/** The folder of a job that is started beside others. */
export function folderBeside(dataDir: string, job: string): string {
  return `${dataDir}-${job}`;
}

async function foldersBeside(dataDir: string): Promise<string[]> {
  const parent = dirname(dataDir);
  const names = await readdir(parent).catch(() => []);
  return names.filter((name) => name.startsWith(DEFAULT_DATA_DIR)).map((name) => join(parent, name));
}

/** A folder of another user may say anything, so these are left out. */
async function foldersOfProcesses(): Promise<string[]> {
  const names = await readdir('/proc').catch(() => []);
  const folders = names.map(async (pid) => {
    if (!/^\d+$/.test(pid) || (await stat(`/proc/${pid}`)).uid !== process.getuid?.()) return undefined;
    const args = (await readFile(`/proc/${pid}/cmdline`, 'utf8')).split('\0');
    const isService =
      args.includes('start') && args.some((arg) => basename(arg).startsWith('cluster-serving'));
    if (!isService || !args.includes('--foreground')) return undefined;
    const at = args.findIndex((arg) => arg.startsWith('--data-dir'));
    const said = args[at]?.split('=')[1] ?? args[at + 1];
    return resolve(await readlink(`/proc/${pid}/cwd`), at === -1 || !said ? DEFAULT_DATA_DIR : said);
  });
  // Processes end meanwhile.
  const read = await Promise.all(folders.map((folder) => folder.catch(() => undefined)));
  return read.filter((folder) => folder !== undefined);
}
