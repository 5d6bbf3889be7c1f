/**
 * Locks a data folder for this process. A lock file counts only while the process that wrote it lives, so a killed
 * process does not block the next start. Its pid may have been reused, so the start time is compared too.
 */
import { link, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { asError, badConfig } from '../../lib/contract/errors.ts';
import { identify, isAlive, type ProcessIdentity } from './process.ts';

/**
 * @returns a function that releases the folder
 * @throws bad_config naming the process that holds it
 */
export async function holdFolder(dataDir: string): Promise<() => Promise<void>> {
  const path = join(dataDir, 'lock.json');
  const own = `${path}.${process.pid}`;
  await writeFile(own, `${JSON.stringify(await identify(process.pid))}\n`, { mode: 0o600 });
  try {
    return await takeOver(path, own, dataDir);
  } finally {
    await rm(own, { force: true });
  }
}

async function takeOver(path: string, own: string, dataDir: string): Promise<() => Promise<void>> {
  for (let attempt = 0; attempt < 3; attempt++) {
    try {
      // A link appears atomically, so a reader never sees a half-written lock.
      await link(own, path);
      return () => rm(path, { force: true });
    } catch (error) {
      if (asError(error).code !== 'EEXIST') throw error;
    }
    const holder = await readHolder(path);
    if (holder && (await isAlive(holder))) {
      throw badConfig(
        `the folder ${dataDir} is in use by process ${holder.pid}; stop it or choose another with --data-dir`,
      );
    }
    await rm(path, { force: true });
  }
  throw badConfig(`cannot lock the folder ${dataDir}: other processes keep locking it`);
}

async function readHolder(path: string): Promise<ProcessIdentity | undefined> {
  try {
    return JSON.parse(await readFile(path, 'utf8')) as ProcessIdentity;
  } catch {
    return undefined;
  }
}
