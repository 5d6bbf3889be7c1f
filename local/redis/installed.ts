/**
 * In: the machine's `redis-server`. Out: one of it on a port of ours, with its data in a folder of ours.
 * Trap: it has a process group of its own, for Ctrl-C in the terminal must reach us alone; and it must not outlive
 * us, so a shell beside it reads from a pipe of ours and ends it (SIGTERM, data saved) when that pipe closes,
 * which happens even when we get SIGKILL.
 */
import { type ChildProcess, execFile, spawn } from 'node:child_process';
import fs from 'node:fs';
import net from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { promisify } from 'node:util';
import { syncRegularly } from '../../embedded-redis/disk-sync.ts';
import { listen } from '../../embedded-redis/server.ts';
import { ServingError } from '../../lib/contract/errors.ts';

export interface InstalledOptions {
  readonly command: string;
  readonly dataDir: string;
  readonly host: string;
  readonly port: number;
  readonly log: (message: string) => void;
}

export interface InstalledRedis {
  readonly port: number;
  readonly version: string;
  readonly pid: number;
  /** Resolves when the process has ended, in one line: how, and what it said last. */
  readonly ended: Promise<string>;
  /** Also lets go of a process that has ended by itself. */
  close(): Promise<void>;
}

const START_LIMIT_MS = 15_000;
const POLL_MS = 10;
const ANSWER_LIMIT_MS = 1_000;
/** On a busy machine a process takes its time to begin; whoever gives up on it is given another server's data. */
const VERSION_LIMIT_MS = 10_000;
const STOP_LIMIT_MS = 5_000;
/** Free ports tried when any will do: another process may take one between the look and the start. */
const PORT_TRIES = 5;
const TAIL_CHARS = 2_000;
/** `$$` is the shell that becomes redis-server; a line on the pipe means that it has ended by itself. */
const SCRIPT = '{ read -r _ <&3 || kill "$$"; } >/dev/null 2>&1 & exec "$@" 3<&-';

/** True when there is one that runs. */
export async function isInstalled(command: string, log: (message: string) => void): Promise<boolean> {
  if (process.platform === 'win32') return false;
  try {
    await promisify(execFile)(command, ['--version'], { timeout: VERSION_LIMIT_MS });
    return true;
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return false;
    log(`${command} is there but does not run, the embedded server takes its place: ${String(error)}`);
    return false;
  }
}

export async function startInstalled(options: InstalledOptions): Promise<InstalledRedis> {
  try {
    fs.mkdirSync(options.dataDir, { recursive: true });
  } catch (error) {
    throw new ServingError('bad_config', `Redis cannot use ${options.dataDir}: ${String(error)}`, {
      cause: error,
    });
  }
  for (let tries = 1; ; tries += 1) {
    const port = options.port === 0 ? await freePort(options.host) : options.port;
    try {
      return await launch(options, port);
    } catch (error) {
      const isTaken = error instanceof Error && /address already in use/i.test(error.message);
      if (!isTaken || options.port !== 0 || tries === PORT_TRIES) throw error;
    }
  }
}

/** @param signal gives up the start */
export async function launch(
  { command, dataDir, host, log }: InstalledOptions,
  port: number,
  signal?: AbortSignal,
): Promise<InstalledRedis> {
  const settings = {
    port: String(port),
    bind: host,
    dir: dataDir,
    daemonize: 'no',
    appendonly: 'yes',
    // What is acknowledged is with the operating system, and on the disk a second later: see disk-sync.ts.
    appendfsync: 'no',
    save: '',
    'maxmemory-policy': 'noeviction',
    // As infra/stack/redis.yml has it; by the name that Redis 6 knows too.
    'hash-max-ziplist-value': '1024',
    loglevel: 'warning',
    logfile: '',
  };
  const args = Object.entries(settings).flatMap(([name, value]) => [`--${name}`, value]);
  const child = spawn('sh', ['-c', SCRIPT, 'sh', command, ...args], {
    detached: true,
    stdio: ['ignore', 'pipe', 'pipe', 'pipe'],
  });
  let tail = '';
  for (const output of [child.stdout, child.stderr]) {
    output?.on('data', (text: Buffer) => {
      tail = (tail + text.toString()).slice(-TAIL_CHARS);
    });
  }
  const pipe = child.stdio[3];
  pipe?.on('error', () => {});
  const stopSync = syncRegularly({ dataDir, log });
  const state: { ended?: string } = {};
  const end = new Promise<string>((resolve) => {
    const finish = (how: string): void => {
      state.ended ??= how;
      if (pipe instanceof net.Socket) pipe.end('ended\n');
      const last = tail.trim().split('\n').at(-1);
      resolve(last ? `${state.ended}; it said last: ${last}` : state.ended);
    };
    child.once('error', (error) => finish(error.message));
    child.once('exit', (code, killedBy) => finish(killedBy ?? `exit code ${code}`));
  });
  const close = async (): Promise<void> => {
    await stopSync();
    await stop(child, end);
  };
  const deadlineMs = performance.now() + START_LIMIT_MS;
  const isOver = () => performance.now() >= deadlineMs || state.ended !== undefined || signal?.aborted;
  while (!isOver()) {
    const info = await ask(host, port);
    if (new RegExp(`^process_id:${child.pid}\\r`, 'm').test(info)) {
      // What it says at each start explains no end.
      tail = '';
      return {
        port,
        pid: child.pid ?? 0,
        version: /^redis_version:(\S+)/m.exec(info)?.[1] ?? 'unknown',
        ended: end,
        close,
      };
    }
    await Promise.race([end, delay(POLL_MS)]);
  }
  const why = state.ended ?? `no answer within ${START_LIMIT_MS} ms`;
  await close();
  throw new ServingError(
    'bad_config',
    `redis-server did not start on ${host}:${port} with its data in ${dataDir} (${why}). ${advice(tail)} It said: ${tail.trim() || 'nothing'}`,
  );
}

function advice(tail: string): string {
  if (/address already in use/i.test(tail)) return 'Stop what listens on that port, or choose another.';
  if (/permission denied/i.test(tail)) return 'Make the folder writable, or choose another.';
  if (/bad file format|can't open|appendonly/i.test(tail))
    return 'Its data cannot be read: move the folder away or repair it.';
  return 'Choose another port or folder, or start without redis-server on the PATH.';
}

async function stop(child: ChildProcess, end: Promise<string>): Promise<void> {
  child.kill('SIGTERM');
  const isLate = await Promise.race([end.then(() => false), delay(STOP_LIMIT_MS, true, { ref: false })]);
  if (isLate) child.kill('SIGKILL');
  await end;
}

/** What it tells about itself; '' while nothing answers, and less while it still loads its data. */
async function ask(host: string, port: number): Promise<string> {
  return new Promise((resolve) => {
    const socket = net.connect({ host, port, timeout: ANSWER_LIMIT_MS });
    let text = '';
    socket.on('connect', () => socket.write('PING\r\nINFO server\r\nQUIT\r\n'));
    socket.on('data', (piece) => {
      text += piece.toString('latin1');
    });
    socket.on('timeout', () => socket.destroy());
    socket.on('error', () => socket.destroy());
    socket.on('close', () => resolve(text.startsWith('+PONG') ? text : ''));
  });
}

async function freePort(host: string): Promise<number> {
  const server = net.createServer();
  const port = await listen(server, host, 0);
  await promisify(server.close.bind(server))();
  return port;
}
