/**
 * Runs the machine's `redis-server` on a given port and folder. It has its own process group, so that Ctrl-C in the
 * terminal reaches only this process. It must not outlive this process either, so a shell next to it reads from a
 * pipe and ends it (SIGTERM, data saved) when the pipe closes, even after a SIGKILL.
 */
import { type ChildProcess, execFile, spawn } from 'node:child_process';
import fs from 'node:fs';
import net from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { promisify } from 'node:util';
import { syncRegularly } from '../../embedded-redis/disk-sync.ts';
import { listen } from '../../embedded-redis/server.ts';
import { badConfig } from '../../lib/contract/errors.ts';
import { variables } from '../../lib/contract/variables.ts';

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
  /** Resolves when the process has ended, with one line: how, and its last output. */
  readonly ended: Promise<string>;
  /** Also releases the resources of a process that has ended by itself. */
  close(): Promise<void>;
}

const START_LIMIT_MS = 15_000;
const POLL_MS = 10;
const ANSWER_LIMIT_MS = 1_000;
/** Generous, because a slow start on a busy machine would otherwise select the other server, with other data. */
const VERSION_LIMIT_MS = 10_000;
const STOP_LIMIT_MS = 5_000;
/** How many free ports are tried: another process may take one between the check and the start. */
const PORT_ATTEMPTS = 5;
const TAIL_CHARS = 2_000;
/** `$$` is the shell that becomes redis-server. A line on the pipe means that it has ended by itself. */
const SCRIPT = '{ read -r _ <&3 || kill "$$"; } >/dev/null 2>&1 & exec "$@" 3<&-';

/** Commands that were found to run, with the PATH of that moment: to start a process takes a large one some hundredths of a second. */
const found = new Set<string>();

/** True if a redis-server is installed and runs. */
export async function isInstalled(command: string, log: (message: string) => void): Promise<boolean> {
  if (process.platform === 'win32') return false;
  const name = `${command} ${variables['PATH']}`;
  if (found.has(name)) return true;
  try {
    await promisify(execFile)(command, ['--version'], { timeout: VERSION_LIMIT_MS });
    found.add(name);
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
    throw badConfig(`Redis cannot use ${options.dataDir}: ${String(error)}`, { cause: error });
  }
  for (let attempts = 1; ; attempts += 1) {
    const port = options.port === 0 ? await freePort(options.host) : options.port;
    try {
      return await launch(options, port);
    } catch (error) {
      const isTaken = error instanceof Error && /address already in use/i.test(error.message);
      if (!isTaken || options.port !== 0 || attempts === PORT_ATTEMPTS) throw error;
    }
  }
}

/** @param signal cancels the start */
export async function launch(
  { command, dataDir, host, log }: InstalledOptions,
  port: number,
  signal?: AbortSignal,
): Promise<InstalledRedis> {
  const server = spawnServer(command, settingsOf(dataDir, host, port));
  const stopSync = syncRegularly({ dataDir, log });
  const close = async (): Promise<void> => {
    await stopSync();
    await stop(server);
  };
  const info = await firstAnswer(server, host, port, signal);
  if (info !== undefined) {
    // Output of the start does not explain a later end.
    server.tail = '';
    return {
      port,
      pid: server.child.pid ?? 0,
      version: /^redis_version:(\S+)/m.exec(info)?.[1] ?? 'unknown',
      ended: server.end,
      close,
    };
  }
  const why = server.how ?? `no answer within ${START_LIMIT_MS} ms`;
  await close();
  const { tail } = server;
  throw badConfig(
    `redis-server did not start on ${host}:${port} with its data in ${dataDir} (${why}). ${advice(tail)} It said: ${tail.trim() || 'nothing'}`,
  );
}

function settingsOf(dataDir: string, host: string, port: number): Readonly<Record<string, string>> {
  return {
    port: String(port),
    bind: host,
    dir: dataDir,
    daemonize: 'no',
    appendonly: 'yes',
    // Acknowledged writes are with the operating system, and on disk a second later: see disk-sync.ts.
    appendfsync: 'no',
    save: '',
    'maxmemory-policy': 'noeviction',
    // As in infra/stack/redis.yml, by the name that Redis 6 also knows.
    'hash-max-ziplist-value': '1024',
    loglevel: 'warning',
    logfile: '',
  };
}

interface Server {
  readonly child: ChildProcess;
  /** The end of its output. */
  tail: string;
  /** How the process ended; undefined while it runs. */
  how: string | undefined;
  /** Resolves when it has ended: how, and its last output. */
  readonly end: Promise<string>;
}

function spawnServer(command: string, settings: Readonly<Record<string, string>>): Server {
  const args = Object.entries(settings).flatMap(([name, value]) => [`--${name}`, value]);
  const child = spawn('sh', ['-c', SCRIPT, 'sh', command, ...args], {
    detached: true,
    stdio: ['ignore', 'pipe', 'pipe', 'pipe'],
  });
  const state: Pick<Server, 'tail' | 'how'> = { tail: '', how: undefined };
  for (const output of [child.stdout, child.stderr]) {
    output?.on('data', (text: Buffer) => {
      state.tail = (state.tail + text.toString()).slice(-TAIL_CHARS);
    });
  }
  const pipe = child.stdio[3];
  pipe?.on('error', () => {});
  const end = new Promise<string>((resolve) => {
    const finish = (how: string): void => {
      state.how ??= how;
      if (pipe instanceof net.Socket) pipe.end('ended\n');
      const last = state.tail.trim().split('\n').at(-1);
      resolve(last ? `${state.how}; it said last: ${last}` : state.how);
    };
    child.once('error', (error) => finish(error.message));
    child.once('exit', (code, killedBy) => finish(killedBy ?? `exit code ${code}`));
  });
  return Object.assign(state, { child, end });
}

/** INFO of this process, not of another on its port; undefined when it ends, takes too long or is cancelled. */
async function firstAnswer(
  server: Server,
  host: string,
  port: number,
  signal: AbortSignal | undefined,
): Promise<string | undefined> {
  const deadlineMs = performance.now() + START_LIMIT_MS;
  const isOver = () => performance.now() >= deadlineMs || server.how !== undefined || signal?.aborted;
  while (!isOver()) {
    const info = await ask(host, port);
    if (new RegExp(`^process_id:${server.child.pid}\\r`, 'm').test(info)) return info;
    await Promise.race([server.end, delay(POLL_MS)]);
  }
  return undefined;
}

function advice(tail: string): string {
  if (/address already in use/i.test(tail)) return 'Stop what listens on that port, or choose another.';
  if (/permission denied/i.test(tail)) return 'Make the folder writable, or choose another.';
  if (/bad file format|can't open|appendonly/i.test(tail))
    return 'Its data cannot be read: move the folder away or repair it.';
  return 'Choose another port or folder, or start without redis-server on the PATH.';
}

async function stop({ child, end }: Server): Promise<void> {
  child.kill('SIGTERM');
  const isLate = await Promise.race([end.then(() => false), delay(STOP_LIMIT_MS, true, { ref: false })]);
  if (isLate) child.kill('SIGKILL');
  await end;
}

/** Its INFO; '' while nothing answers, and incomplete while it loads its data. */
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
