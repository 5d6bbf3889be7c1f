/**
 * Syncs the log of a redis-server to disk at most two seconds after it was written. With `appendfsync everysec` Redis
 * may delay writes for two seconds during a sync and still answer, so a killed process would lose acknowledged
 * results. With `appendfsync no` every write reaches the operating system before its answer, and any process may sync
 * the file.
 */
import { type FileHandle, open, readdir } from 'node:fs/promises';
import { join } from 'node:path';

const EVERY_MS = 1_000;
/** Redis 7 has a folder for the log, Redis 6 a file. */
const LOG_FOLDERS = ['appendonlydir', '.'];
const LOG_FILE = /^appendonly\.aof/;

interface DiskSyncOptions {
  readonly dataDir: string;
  /** Called when syncing starts to fail. */
  readonly log: (message: string) => void;
  /** Default 1,000. */
  readonly everyMs?: number;
  /** Default fdatasync. */
  readonly datasync?: (file: FileHandle, path: string) => Promise<void>;
}

/** @returns a function that stops syncing */
export function syncRegularly({
  dataDir,
  log,
  everyMs = EVERY_MS,
  datasync = (file) => file.datasync(),
}: DiskSyncOptions): () => Promise<void> {
  /** The size of each file at its last sync. A log is only appended to, so an unchanged size means no change. */
  const synced = new Map<string, number>();
  let failed = false;
  let running: Promise<void> | undefined;
  const sync = async () => {
    try {
      for (const path of await logFiles(dataDir)) await syncFile(path, synced, datasync);
      failed = false;
    } catch (error) {
      if (!failed) log(`cannot sync the log in ${dataDir}: ${String(error)}`);
      failed = true;
    }
  };
  const timer = setInterval(() => {
    running ??= sync().finally(() => {
      running = undefined;
    });
  }, everyMs).unref();
  return async () => {
    clearInterval(timer);
    await running;
  };
}

async function logFiles(dataDir: string): Promise<string[]> {
  const found = await Promise.all(
    LOG_FOLDERS.map(async (folder) => {
      const reading = readdir(join(dataDir, folder), { withFileTypes: true });
      const entries = await reading.catch((error: NodeJS.ErrnoException) => {
        if (error.code === 'ENOENT') return [];
        throw error;
      });
      const files = entries.filter((entry) => entry.isFile() && LOG_FILE.test(entry.name));
      return files.map(({ name }) => join(dataDir, folder, name));
    }),
  );
  return found.flat();
}

/** Redis removes old log files at any time; a missing file needs no sync. */
async function syncFile(
  path: string,
  synced: Map<string, number>,
  datasync: NonNullable<DiskSyncOptions['datasync']>,
): Promise<void> {
  const file = await open(path, 'r').catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return undefined;
    throw error;
  });
  if (!file) return void synced.delete(path);
  try {
    const { size } = await file.stat();
    if (synced.get(path) === size) return;
    await datasync(file, path);
    synced.set(path, size);
  } finally {
    await file.close();
  }
}
