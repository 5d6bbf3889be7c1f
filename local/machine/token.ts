/**
 * The token of a control channel. It is made at the start and kept in a file for the user alone, which the commands find
 * by the port: in ~/.cluster-serving/control, or in the folder that WKR_CONTROL_DIR names. The file's name also has the
 * address of a service that does not answer on 127.0.0.1.
 */
import { randomBytes } from 'node:crypto';
import { mkdir, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { unescape } from 'node:querystring';
import { asError, badConfig } from '../../lib/contract/errors.ts';
import { isToken } from '../../sdk/fetch.ts';

const FOLDER_MODE = 0o700;
const FILE_MODE = 0o600;

const HOST = '127.0.0.1';

/** A control channel, and its token unless it is of another user. */
export interface Control {
  readonly host: string;
  readonly port: number;
  readonly token: string | undefined;
}

export function controlFolder(): string {
  return process.env['WKR_CONTROL_DIR'] || join(homedir(), '.cluster-serving', 'control');
}

function tokenFile(port: number, host: string): string {
  return host === HOST ? `${port}.token` : `${encodeURIComponent(host)}_${port}.token`;
}

export function newToken(): string {
  return randomBytes(32).toString('hex');
}

/**
 * Call it when the port is held, so that no other service has a token for it.
 * @param host where this machine reaches the service
 * @returns the token, and a function that removes its file
 */
export async function makeToken(port: number, token = newToken(), host = HOST) {
  const path = join(controlFolder(), tokenFile(port, host));
  const half = `${path}.${process.pid}`;
  try {
    await mkdir(join(path, '..'), { recursive: true, mode: FOLDER_MODE });
    // The mode of an existing file would not change.
    await rm(half, { force: true });
    await writeFile(half, token, { mode: FILE_MODE, flag: 'wx' });
    await rename(half, path);
  } catch (error) {
    const { message } = asError(error);
    throw badConfig(
      `the token of port ${port} cannot be kept: ${message}; WKR_CONTROL_DIR names another folder`,
      {
        cause: error,
      },
    );
  }
  return { token, forget: () => rm(path, { force: true }) };
}

/**
 * The services of this user that have, or had, the port. A service of another user, or of a version that did not note
 * its address, may be there too.
 * @param host the only address that counts; without it, all of them
 */
export async function findControls(port: number, host?: string): Promise<readonly Control[]> {
  const names = await readdir(controlFolder()).catch(() => []);
  const hosts = names.flatMap((name) => {
    const [, before = encodeURIComponent(HOST), of] = /^(?:(.+)_)?(\d+)\.token$/.exec(name) ?? [];
    const at = unescape(before);
    return of === String(port) && (host ?? at) === at ? [at] : [];
  });
  if (hosts.length === 0) hosts.push(host ?? HOST);
  return Promise.all(hosts.map(async (at) => ({ host: at, port, token: await tokenOf(port, at) })));
}

async function tokenOf(port: number, host: string): Promise<string | undefined> {
  for (const name of [tokenFile(port, host), tokenFile(port, HOST)]) {
    const text = await readFile(join(controlFolder(), name), 'latin1').catch(() => '');
    if (isToken(text)) return text;
  }
  return undefined;
}
