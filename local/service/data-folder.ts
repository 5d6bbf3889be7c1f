/**
 * Finds which service runs on a data folder and where, and deletes a folder safely. Leftovers of a killed process are
 * ignored. Only a folder that a service created is deleted, and only its own files.
 */
import { existsSync } from 'node:fs';
import { chmod, mkdir, readdir, readFile, rename, rm, rmdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { asError, badConfig } from '../../lib/contract/errors.ts';
import type { Verification } from '../../lib/contract/verification.ts';
import { type Credentials, newCredentials } from '../aws/credentials.ts';
import { isAlive, type ProcessIdentity } from '../machine/process.ts';
import { newToken } from '../machine/token.ts';

/** The addresses of one job. */
export interface JobPlaces {
  readonly job: string;
  /** The version of the model. */
  readonly model: string;
  readonly http: string;
  readonly queueUrl: string;
  readonly deadLetterUrl: string;
  /** Notes about the import and the verification of the model. */
  readonly modelNotes: readonly string[];
  readonly verification?: Verification | undefined;
}

/** The addresses of all services. Those of the first job are at the top level. */
export interface Addresses extends JobPlaces {
  /** All jobs, including the first. */
  readonly jobs: readonly JobPlaces[];
  readonly redisUrl: string;
  /** Where the Open Inference Protocol is served over gRPC, as `host:port`; absent where it is not. */
  readonly grpc?: string;
  readonly redis: 'redis-server' | 'embedded';
  readonly redisVersion: string;
  readonly bucket: string;
  /** A curl command that calls the first job, with the token that the service made; absent where it made none. */
  readonly curl?: string;
  /** True if every job serves a worker, whose users need no AWS. Absent: false. */
  readonly isWorker?: boolean;
  /** Environment variables for AWS SDKs and the aws command line. */
  readonly environment: Readonly<Record<string, string>>;
}

/** How a shell reaches SQS and S3: for those who send records, and not for users of a worker. */
export function exportLines({
  isWorker,
  environment,
}: Pick<Addresses, 'isWorker' | 'environment'>): string[] {
  if (isWorker) return [];
  const lines = Object.entries(environment).map(([name, value]) => `    export ${name}=${value}`);
  return ['  for the AWS SDK and the aws command line:', ...lines];
}

/** The command-line options of a start, by name. */
export type StartedWith = Readonly<Record<string, string | boolean | readonly string[]>>;

/** The content of stack.json, which exists while a service is ready. */
export interface StackRecord extends ProcessIdentity, Addresses {
  /** ISO 8601. */
  readonly since: string;
  /** The path of its output when it runs in the background. */
  readonly log?: string;
  readonly startedWith: StartedWith;
}

/** The service on a folder. Without a record it is starting or stopping. */
export interface Running {
  readonly process: ProcessIdentity;
  readonly record: StackRecord | undefined;
}

/** Relative to the current directory. */
export const DEFAULT_DATA_DIR = '.cluster-serving';

const RECORD = 'stack.json';
/** The options of the last start. Kept after a stop and after a failed start. */
const OPTIONS = 'options.json';
const LOCK = 'lock.json';
const LOG = 'start.log';
const CREDENTIALS = 'credentials.json';
const TOKEN = 'token';
const MARK = 'cluster-serving.txt';
const MARK_TEXT = 'Data of a local cluster-serving. `cluster-serving shutdown` deletes it.\n';
const FOLDERS = ['aws', 'imported', 'models', 'redis'];
/** Copies of models, where a job has its model elsewhere. */
const COPIES = ['copied', 'hub'];
/** The progress and the reports of `model replay`. */
export const REPLAYS = 'replays';
/** All names that a service creates in its folder. */
const OURS = [
  ...FOLDERS,
  ...COPIES,
  REPLAYS,
  RECORD,
  OPTIONS,
  LOCK,
  LOG,
  `${LOG}.1`,
  CREDENTIALS,
  TOKEN,
  MARK,
];
/** For its user alone: credentials are also in the record and the log. */
const FOLDER_MODE = 0o700;
export const FILE_MODE = 0o600;

export function logPath(dataDir: string): string {
  return join(dataDir, LOG);
}

/** Creates the folder if it is missing. A new or empty folder is marked, so that it may be deleted later. */
export async function claimFolder(dataDir: string): Promise<void> {
  try {
    await mkdir(dataDir, { recursive: true, mode: FOLDER_MODE });
    if ((await readdir(dataDir)).length === 0) {
      await writeFile(join(dataDir, MARK), MARK_TEXT, { mode: FILE_MODE });
    }
  } catch (error) {
    const message = `the folder ${dataDir} cannot be used: ${asError(error).message}`;
    throw badConfig(message, { cause: error });
  }
}

/** Makes the service's own files accessible to its user alone, overriding their former modes. */
export async function protectFolder(dataDir: string, warn: (message: string) => void): Promise<void> {
  const options = { recursive: true, mode: FOLDER_MODE };
  for (const path of [dataDir, ...FOLDERS.map((name) => join(dataDir, name))]) await mkdir(path, options);
  const entries = await readdir(dataDir, { withFileTypes: true });
  const modes = entries
    .filter((entry) => OURS.includes(entry.name) && !entry.isSymbolicLink())
    .map((entry) => [join(dataDir, entry.name), entry.isDirectory() ? FOLDER_MODE : FILE_MODE] as const);
  const isOwn = entries.some(({ name }) => name === MARK);
  for (const [path, mode] of isOwn ? [[dataDir, FOLDER_MODE] as const, ...modes] : modes) {
    await chmod(path, mode).catch(({ message }: Error) => warn(`other users may read ${path}: ${message}`));
  }
}

/** The credentials of the folder's SQS and S3, made when they are first needed. @throws bad_config */
export async function credentialsOf(dataDir: string): Promise<Credentials> {
  const path = join(dataDir, CREDENTIALS);
  if (!existsSync(path)) await writeWhole(path, jsonOf(newCredentials()));
  const { accessKeyId, secretAccessKey } = (await readJson<Partial<Credentials>>(path)) ?? {};
  if (accessKeyId && secretAccessKey) return { accessKeyId, secretAccessKey };
  throw badConfig(`${path} holds no credentials; delete it, and the next start makes new ones`);
}

/** The path of the token that callers of the HTTP API must send, made when it is first needed. */
export async function tokenFileOf(dataDir: string): Promise<string> {
  const path = join(dataDir, TOKEN);
  if (!existsSync(path)) await writeWhole(path, `${newToken()}\n`);
  return path;
}

/** The service that runs on the folder now, ignoring files of a process that has ended. */
export async function findRunning(dataDir: string): Promise<Running | undefined> {
  const record = await lastRecord(dataDir);
  if (record && (await isAlive(record))) return { process: record, record };
  const holder = await readJson<ProcessIdentity>(join(dataDir, LOCK));
  return holder && (await isAlive(holder)) ? { process: holder, record: undefined } : undefined;
}

/** The options of the last start or restart; undefined when there was none. */
export async function lastOptions(dataDir: string): Promise<StartedWith | undefined> {
  return (await lastRecord(dataDir))?.startedWith ?? readJson<StartedWith>(join(dataDir, OPTIONS));
}

/** Written before the start, so that they are kept if it fails. */
export async function writeOptions(dataDir: string, startedWith: StartedWith): Promise<void> {
  await writeWhole(join(dataDir, OPTIONS), jsonOf(startedWith));
}

/**
 * The record of a service that runs or ended without a stop; undefined after a stop. The service may be of an earlier
 * version, whose record lacks what this one has.
 */
async function lastRecord(dataDir: string): Promise<StackRecord | undefined> {
  const record = await readJson<Partial<StackRecord>>(join(dataDir, RECORD));
  if (!record) return undefined;
  const startedWith = record.startedWith ?? (await readJson<StartedWith>(join(dataDir, OPTIONS))) ?? {};
  // Every version has written the other fields.
  return { jobs: [record], environment: {}, ...record, startedWith } as StackRecord;
}

/** @returns a function that removes the record */
export async function writeRecord(dataDir: string, record: StackRecord): Promise<() => Promise<void>> {
  const path = join(dataDir, RECORD);
  await writeWhole(path, jsonOf(record));
  return () => rm(path, { force: true });
}

/** Written to another name first, so that a reader never sees half of it. */
async function writeWhole(path: string, text: string): Promise<void> {
  const half = `${path}.${process.pid}`;
  await writeFile(half, text, { mode: FILE_MODE });
  await rename(half, path);
}

const jsonOf = (value: object) => `${JSON.stringify(value, null, 2)}\n`;

/** Removes the record of a killed process. */
export async function dropRecord(dataDir: string): Promise<void> {
  await rm(join(dataDir, RECORD), { force: true });
}

/**
 * @returns the names in the folder; undefined when it is missing. @throws bad_config when it was not created by a
 * service
 */
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
 * Deletes a service's files, and the folder if nothing else is in it.
 * @returns the names that remain
 */
export async function deleteFolder(dataDir: string): Promise<readonly string[]> {
  const names = (await assertDeletable(dataDir)) ?? [];
  // The mark is deleted last, so that an interrupted deletion can be repeated.
  const ours = names.filter((name) => isOurs(name) && name !== MARK);
  for (const name of ours) await rm(join(dataDir, name), { recursive: true, force: true });
  await rm(join(dataDir, MARK), { force: true });
  const left = await readdir(dataDir).catch(() => []);
  if (left.length === 0) await rmdir(dataDir).catch(() => undefined);
  return left;
}

function isOurs(name: string): boolean {
  // Temporary files of a killed process: stack.json.123, lock.json.123.
  return OURS.includes(name) || /^((stack|lock|options|credentials)\.json|token)\.\d+$/.test(name);
}

async function readJson<T>(path: string): Promise<T | undefined> {
  try {
    const value: unknown = JSON.parse(await readFile(path, 'utf8'));
    return typeof value === 'object' && value !== null ? (value as T) : undefined;
  } catch {
    return undefined;
  }
}
