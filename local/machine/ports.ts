/**
 * Finds the process that listens on a port, for error messages that say what to do about it. Only Linux reveals it,
 * and only for processes of the same user, so messages must also read well without it.
 */
import { readdir, readFile, readlink } from 'node:fs/promises';
import { createServer } from 'node:net';
import { badConfig, type ServingError } from '../../lib/contract/errors.ts';

const LISTEN_STATE = '0A';
const MAX_COMMAND_CHARS = 160;

interface PortHolder {
  readonly pid: number;
  /** The command line, cut to 160 characters. */
  readonly command: string;
}

interface WantedPort {
  /** 0 means any free port, which is never in use. */
  readonly port: number;
  /** The option that selects another port: "--port". */
  readonly option: string;
  /** The address to listen on, default 127.0.0.1. */
  readonly host?: string;
}

/** The process that listens on `port`; undefined when there is none or it cannot be determined. */
export async function portHolder(port: number): Promise<PortHolder | undefined> {
  const inodes = new Set<string>();
  for (const table of ['/proc/net/tcp', '/proc/net/tcp6']) {
    const text = await readFile(table, 'utf8').catch(() => '');
    for (const inode of listeningInodes(text, port)) inodes.add(`socket:[${inode}]`);
  }
  if (inodes.size === 0) return undefined;
  const names = await readdir('/proc').catch(() => []);
  for (const name of names) {
    if (!/^\d+$/.test(name)) continue;
    if (!(await holdsAny(name, inodes))) continue;
    return { pid: Number(name), command: await commandOf(name) };
  }
  return undefined;
}

/** The error for a port in use, naming the process if it is known. */
export async function portInUse(port: number, option: string): Promise<ServingError> {
  const holder = await portHolder(port);
  const by = holder === undefined ? 'another process' : `process ${holder.pid} (${holder.command})`;
  return badConfig(`port ${port} is in use by ${by}; stop it or choose another with ${option}`);
}

/** Turns an error of `listen` into one that says what to do. */
export async function listenError(error: unknown, wanted: WantedPort): Promise<ServingError> {
  const code = error instanceof Error && 'code' in error ? error.code : undefined;
  if (code === 'EADDRINUSE') return portInUse(wanted.port, wanted.option);
  if (code === 'EACCES') {
    const message = `port ${wanted.port} is not allowed for this user; choose another with ${wanted.option}`;
    return badConfig(message, { cause: error });
  }
  const reason = error instanceof Error ? error.message : String(error);
  const where = `${wanted.host ?? '127.0.0.1'}:${wanted.port}`;
  return badConfig(`cannot listen on ${where} (${wanted.option}): ${reason}`, { cause: error });
}

/** @throws one error with all ports that are in use or requested twice */
export async function assertPortsFree(wanted: readonly WantedPort[]): Promise<void> {
  const problems: string[] = [];
  const seen = new Map<number, string>();
  for (const one of wanted) {
    if (one.port === 0) continue;
    const other = seen.get(one.port);
    if (other !== undefined) {
      problems.push(`${other} and ${one.option} are both ${one.port}; choose another for one of them`);
      continue;
    }
    seen.set(one.port, one.option);
    const error = await tryListen(one);
    if (error !== undefined) problems.push((await listenError(error, one)).message);
  }
  if (problems.length > 0) throw badConfig(problems.join('\n'));
}

/** Binding is the only reliable test: /proc does not show other users or containers. */
function tryListen(wanted: WantedPort): Promise<Error | undefined> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once('error', resolve);
    server.listen({ port: wanted.port, host: wanted.host ?? '127.0.0.1', exclusive: true }, () => {
      server.close(() => resolve(undefined));
    });
  });
}

/** Parses /proc/net/tcp: column 1 is "address:port" in hex, 3 the state, 9 the inode. */
function listeningInodes(text: string, port: number): string[] {
  const suffix = `:${port.toString(16).toUpperCase().padStart(4, '0')}`;
  const inodes: string[] = [];
  for (const line of text.split('\n').slice(1)) {
    const columns = line.trim().split(/\s+/);
    if (columns[3] !== LISTEN_STATE || columns[1]?.endsWith(suffix) !== true) continue;
    if (columns[9] !== undefined) inodes.push(columns[9]);
  }
  return inodes;
}

async function holdsAny(pid: string, sockets: ReadonlySet<string>): Promise<boolean> {
  const descriptors = await readdir(`/proc/${pid}/fd`).catch(() => []);
  for (const descriptor of descriptors) {
    const target = await readlink(`/proc/${pid}/fd/${descriptor}`).catch(() => '');
    if (sockets.has(target)) return true;
  }
  return false;
}

async function commandOf(pid: string): Promise<string> {
  const line = await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '');
  const command = line.replaceAll('\0', ' ').trim();
  return command.length <= MAX_COMMAND_CHARS ? command : `${command.slice(0, MAX_COMMAND_CHARS)}...`;
}
