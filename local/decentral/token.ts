/**
 * The token of a control channel. It is made at the start and kept in a file for the user alone, which the commands find
 * by the port: in ~/.cluster-serving/control, or in the folder that WKR_CONTROL_DIR names.
 */
import { randomBytes } from 'node:crypto';
import { mkdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { badConfig } from '../../lib/contract/errors.ts';
import { isToken } from '../../sdk/fetch.ts';

const FOLDER_MODE = 0o700;
const FILE_MODE = 0o600;

function tokenPath(port: number): string {
  const folder = process.env['WKR_CONTROL_DIR'] || join(homedir(), '.cluster-serving', 'control');
  return join(folder, `${port}.token`);
}

export function newToken(): string {
  return randomBytes(32).toString('hex');
}

/**
 * Call it when the port is held, so that no other service has a token for it.
 * @returns the token, and a function that removes its file
 */
export async function makeToken(port: number, token = newToken()) {
  const path = tokenPath(port);
  const half = `${path}.${process.pid}`;
  try {
    await mkdir(join(path, '..'), { recursive: true, mode: FOLDER_MODE });
    // The mode of a file that exists would stay as it is.
    await rm(half, { force: true });
    await writeFile(half, token, { mode: FILE_MODE, flag: 'wx' });
    await rename(half, path);
  } catch (error) {
    const { message } = error as Error;
    throw badConfig(
      `the token of port ${port} cannot be kept: ${message}; WKR_CONTROL_DIR names another folder`,
      {
        cause: error,
      },
    );
  }
  return { token, forget: () => rm(path, { force: true }) };
}

/** Undefined when no service of this user has the port. */
export async function findToken(port: number): Promise<string | undefined> {
  const text = await readFile(tokenPath(port), 'latin1').catch(() => undefined);
  return text !== undefined && isToken(text) ? text : undefined;
}
