/**
 * Tells which service runs on a data folder and where, and deletes one safely. What a killed process left behind does
 * not count. Only a folder that we made is deleted, and of it only what we put there.
 */
import { mkdir, readdir, readFile, rename, rm, rmdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { badConfig } from '../lib/contract/errors.ts';
import { isAlive, type ProcessIdentity } from './process.ts';

/** Where one job is. */
export interface JobPlaces {
  readonly job: string;
  /** Version of the model. */
  readonly model: string;
  readonly http: string;
  readonly queueUrl: string;
  readonly deadLetterUrl: string;
  /** That the model was imported, and what to know of it. */
  readonly modelNotes?: readonly string[];
}

/** Where everything is; the first job's places are the service's own. */
export interface Addresses extends JobPlaces {
  /** All jobs, the first included. */
  readonly jobs: readonly JobPlaces[];
  readonly redisUrl: string;
  readonly redis: 'redis-server' | 'embedded';
  readonly redisVersion: string;
  readonly bucket: string;
  /** What the AWS SDK and the aws command line need. */
  readonly environment: Readonly<Record<string, string>>;
}

/** The options a service was started with, by their names on the command line. */
export type StartedWith = Readonly<Record<string, string | boolean | readonly string[]>>;

/** stack.json: there while a service is ready. */
export interface StackRecord extends ProcessIdentity, Addresses {
  /** ISO 8601. */
  readonly since: string;
  /** Its output, when it runs in the background. */
  readonly log?: string;
  readonly startedWith: StartedWith;
}

/** What runs on a folder. Without a record it is still starting, or already stopping. */
export interface Running {
  readonly process: ProcessIdentity;
  readonly record: StackRecord | undefined;
}

/** In the folder where a command is called. */
export const DEFAULT_DATA_DIR = '.cluster-serving';

const RECORD = 'stack.json';
/** The options of the last start; stays after a stop and after a start that failed. */
const OPTIONS = 'options.json';
const LOCK = 'lock.json';
const LOG = 'start.log';
const MARK = 'cluster-serving.txt';
const MARK_TEXT = 'Data of a local cluster-serving. `cluster-serving shutdown` deletes it.\n';
/** All that a service ever puts into its folder. */
const OURS = ['aws', 'imported', 'models', 'redis', RECORD, OPTIONS, LOCK, LOG, `${LOG}.1`, MARK];

export function logPath(dataDir: string): string {
  return join(dataDir, LOG);
}

/** Makes the folder if there is none. One that is new or empty is marked as ours, to be deleted one day. */
export async function claimFolder(dataDir: string): Promise<void> {
  try {
    await mkdir(dataDir, { recursive: true });
    if ((await readdir(dataDir)).length === 0) await writeFile(join(dataDir, MARK), MARK_TEXT);
  } catch (error) {
    const message = `the folder ${dataDir} cannot be used: ${(error as Error).message}`;
    throw badConfig(message, { cause: error });
  }
}

/** What runs on the folder now; files of a process that has ended count for nothing. */
export async function findRunning(dataDir: string): Promise<Running | undefined> {
  const record = await lastRecord(dataDir);
  if (record && (await isAlive(record))) return { process: record, record };
  const holder = await readJson<ProcessIdentity>(join(dataDir, LOCK));
  return holder && (await isAlive(holder)) ? { process: holder, record: undefined } : undefined;
}

/** The options of the last start or restart on this folder; undefined when there was none. */
export async function lastOptions(dataDir: string): Promise<StartedWith | undefined> {
  return (await lastRecord(dataDir))?.startedWith ?? readJson<StartedWith>(join(dataDir, OPTIONS));
}

/** Written before the start, which may fail: the next one shall not begin from nothing. */
export async function writeOptions(dataDir: string, startedWith: StartedWith): Promise<void> {
  await writeWhole(join(dataDir, OPTIONS), startedWith);
}

/** Of the service that runs, or of one that ended without a stop; undefined after a stop. */
async function lastRecord(dataDir: string): Promise<StackRecord | undefined> {
  return readJson<StackRecord>(join(dataDir, RECORD));
}

/** @returns takes it away again */
export async function writeRecord(dataDir: string, record: StackRecord): Promise<() => Promise<void>> {
  const path = join(dataDir, RECORD);
  await writeWhole(path, record);
  return () => rm(path, { force: true });
}

/** Renamed, so that nobody ever reads half of it. */
async function writeWhole(path: string, value: object): Promise<void> {
  const half = `${path}.${process.pid}`;
  await writeFile(half, `${JSON.stringify(value, null, 2)}\n`);
  await rename(half, path);
}

/** Takes away what a killed process left. */
export async function dropRecord(dataDir: string): Promise<void> {
  await rm(join(dataDir, RECORD), { force: true });
}

/** @throws bad_config when the folder is not ours to delete; undefined when there is none */
export async function assertDeletable(dataDir: string): Promise<readonly string[] | undefined> {
  const names = await readdir(dataDir).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return undefined;
    throw badConfig(`${dataDir} cannot be read: ${error.message}`, { cause: error });
  });
  if (names === undefined) return undefined;
  if (!names.includes(MARK)) {
    const ours = names.filter(isOurs).join(', ') || 'none';
    throw badConfig(
      `the folder ${dataDir} was not made by cluster-serving and is not deleted; its files there: ${ours}`,
    );
  }
  return names;
}

/**
 * Deletes what a service puts into its folder, and the folder when nothing else is in it.
 * @returns what is left in it
 */
export async function deleteFolder(dataDir: string): Promise<readonly string[]> {
  const names = (await assertDeletable(dataDir)) ?? [];
  // The mark goes last: a deletion that was cut short can be finished.
  const ours = names.filter((name) => isOurs(name) && name !== MARK);
  for (const name of ours) await rm(join(dataDir, name), { recursive: true, force: true });
  await rm(join(dataDir, MARK), { force: true });
  const left = await readdir(dataDir).catch(() => []);
  if (left.length === 0) await rmdir(dataDir).catch(() => undefined);
  return left;
}

function isOurs(name: string): boolean {
  // Half-written ones of a killed process: stack.json.123, lock.json.123.
  return OURS.includes(name) || /^(stack|lock|options)\.json\.\d+$/.test(name);
}

async function readJson<T>(path: string): Promise<T | undefined> {
  try {
    const value = JSON.parse(await readFile(path, 'utf8')) as unknown;
    return typeof value === 'object' && value !== null ? (value as T) : undefined;
  } catch {
    return undefined;
  }
}
