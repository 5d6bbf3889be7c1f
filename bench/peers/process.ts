/** The server of a peer in a process of its own, on the servers' core. Some are several processes: they end as a group. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { variables } from '../../lib/contract/variables.ts';
import { pinned } from '../cores.ts';
import type { RequestSpec } from '../load/connection.ts';
import type { BenchModel } from '../models.ts';
import { familyMs } from '../processor.ts';
import { type InstalledPeer, onnxruntimeLibrary } from './installed.ts';

interface PeerServer {
  readonly port: number;
  /** Processor time of all its processes so far, ms. */
  processorMs(): number | undefined;
  close(): Promise<void>;
}

const START_LIMIT_MS = 60_000;
const LOOK_EVERY_MS = 50;
const END_LIMIT_MS = 8_000;
const MAX_OUTPUT = 20_000;

/** How each is started, as its documentation has it. */
function commandOf({ name, folder, source }: InstalledPeer, port: number): [string, string[]] {
  const venv = (program: string) => join(folder, 'venv', 'bin', program);
  const script = join(source, 'server.py');
  if (name === 'fastify') return [process.execPath, [join(source, 'server.mjs')]];
  if (name === 'axum') return [join(folder, 'target', 'release', 'axum-server'), []];
  if (name === 'mlserver') return [venv('mlserver'), ['start', source]];
  if (name === 'bentoml') {
    const where = ['--host', '127.0.0.1', '--port', String(port), '--working-dir', source];
    return [venv('bentoml'), ['serve', 'service:Model', ...where]];
  }
  return [venv('python'), [script]];
}

function environmentOf(peer: InstalledPeer, model: BenchModel, port: number, spare: readonly number[]) {
  const { PATH = '', HOME = tmpdir() } = variables;
  return {
    PATH: `${join(peer.folder, 'venv', 'bin')}:${PATH}`,
    HOME,
    OMP_NUM_THREADS: '1',
    PYTHONDONTWRITEBYTECODE: '1',
    PYTHONWARNINGS: 'ignore',
    BENCH_INSTALLED: peer.folder,
    BENCH_MODEL: model.path,
    BENCH_INPUT: model.input,
    BENCH_ROW_SHAPE: JSON.stringify(model.rowShape),
    BENCH_PORT: String(port),
    BENCH_ONNXRUNTIME: onnxruntimeLibrary(),
    // No peer may report home or look for a cluster.
    BENTOML_DO_NOT_TRACK: 'True',
    RAY_USAGE_STATS_ENABLED: '0',
    // Its own setting for throughput: fewer threads and less logging on the way of a request.
    RAY_SERVE_THROUGHPUT_OPTIMIZED: '1',
    MLSERVER_DEBUG: 'false',
    MLSERVER_PARALLEL_WORKERS: '0',
    MLSERVER_HOST: '127.0.0.1',
    MLSERVER_HTTP_PORT: String(port),
    MLSERVER_GRPC_PORT: String(spare[0]),
    MLSERVER_METRICS_PORT: String(spare[1]),
    MLSERVER_METRICS_ENDPOINT: '',
    MLSERVER_MODEL_NAME: 'bench',
    MLSERVER_MODEL_IMPLEMENTATION: 'runtime.OnnxRuntime',
    PYTHONPATH: peer.source,
  };
}

/** @param probe a request that it must answer with 200 before it counts as started */
export async function startPeer(
  peer: InstalledPeer,
  model: BenchModel,
  probe: RequestSpec,
): Promise<PeerServer> {
  const [port, ...spare] = await freePorts(3);
  if (port === undefined) throw new Error('no free port');
  const [command, args] = pinned('server', ...commandOf(peer, port));
  const child = spawn(command, args, {
    cwd: peer.folder,
    env: environmentOf(peer, model, port, spare),
    stdio: ['ignore', 'pipe', 'pipe'],
    detached: true,
  });
  let output = '';
  for (const stream of [child.stdout, child.stderr])
    stream.on('data', (chunk: unknown) => {
      output = (output + String(chunk)).slice(-MAX_OUTPUT);
    });
  const endNow = () => signal(child, 'SIGKILL');
  process.once('exit', endNow);
  const close = async () => {
    await end(child);
    process.off('exit', endNow);
  };
  try {
    await answering(child, port, probe, () => output);
  } catch (error) {
    await close();
    throw error;
  }
  return { port, processorMs: () => familyMs(child.pid ?? 0), close };
}

/** Taken from the system and given back, because a peer takes only the number of a port. */
async function freePorts(count: number): Promise<number[]> {
  const servers = Array.from({ length: count }, () => createServer().listen(0, '127.0.0.1'));
  await Promise.all(servers.map((server) => once(server, 'listening')));
  const ports = servers.map((server) => (server.address() as AddressInfo).port);
  await Promise.all(servers.map((server) => new Promise((resolve) => server.close(resolve))));
  return ports;
}

async function answering(
  child: ChildProcess,
  port: number,
  probe: RequestSpec,
  output: () => string,
): Promise<void> {
  const deadline = performance.now() + START_LIMIT_MS;
  let failed: Error | undefined;
  child.once('error', (error) => {
    failed = error;
  });
  for (let last = 'nothing'; ; ) {
    const answer = await ask(port, probe);
    if (answer === 200) return;
    last = String(answer ?? last);
    if (failed) throw failed;
    if (hasEnded(child)) throw new Error(`it ended with ${child.exitCode ?? child.signalCode}: ${output()}`);
    if (performance.now() > deadline) throw new Error(`${last} after ${START_LIMIT_MS} ms: ${output()}`);
    await new Promise((resolve) => setTimeout(resolve, LOOK_EVERY_MS));
  }
}

/** @returns the status, undefined without an answer */
async function ask(port: number, { path, body }: RequestSpec): Promise<number | undefined> {
  try {
    const response = await fetch(`http://127.0.0.1:${port}${path}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', connection: 'close' },
      body,
      signal: AbortSignal.timeout(START_LIMIT_MS),
    });
    await response.arrayBuffer();
    return response.status;
  } catch {
    return undefined;
  }
}

/** The whole group: some peers start others. */
function signal(child: ChildProcess, name: 'SIGINT' | 'SIGKILL'): void {
  try {
    if (child.pid !== undefined) process.kill(-child.pid, name);
  } catch {
    // It has ended.
  }
}

async function end(child: ChildProcess): Promise<void> {
  if (!hasEnded(child)) {
    const ended = once(child, 'exit');
    signal(child, 'SIGINT');
    const timer = setTimeout(() => signal(child, 'SIGKILL'), END_LIMIT_MS);
    await ended;
    clearTimeout(timer);
  }
  // Also of a leader that has ended: those it started may live on.
  signal(child, 'SIGKILL');
}

function hasEnded({ exitCode, signalCode }: ChildProcess): boolean {
  return exitCode !== null || signalCode !== null;
}
