/**
 * Runs a function's archive with AWS's own runtime client in a separate process, against an implementation of
 * Lambda's Runtime API as documented. The client polls for as long as it lives, and a run cannot be interrupted, so a
 * run that exceeds its time ends with its process, as on Lambda.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';

export interface RuntimeOptions {
  /** The package aws-lambda-ric; or the command of another runtime's client, with its parameters. */
  readonly client: string | readonly string[];
  /** The unzipped archive. */
  readonly folder: string;
  readonly handler: string;
  readonly environment: Readonly<Record<string, string>>;
  /** A command with its parameters that runs Node elsewhere; the package and folder are then places in there. Default: this Node. */
  readonly within?: readonly string[];
}

export type Answer =
  | { readonly kind: 'response'; readonly value: unknown }
  /** The handler threw. */
  | { readonly kind: 'error'; readonly value: { readonly errorType: string; readonly errorMessage: string } }
  /** Lambda ended it. */
  | { readonly kind: 'timeout' }
  /** The process ended by itself, or its module could not be loaded. */
  | { readonly kind: 'ended'; readonly value: unknown };

/** In ms. */
interface RuntimeTimes {
  /** From the spawn until the client asks for its first event. */
  readonly initMs: number;
  /** Time of each event, from its delivery to its answer. */
  readonly answered: readonly number[];
  /** And until the client asks for the next one, which ends what Lambda bills. */
  readonly billed: readonly number[];
}

export interface RuntimeEnvironment {
  readonly pid: number;
  /** From the start of the process, INIT included, to its first answer. */
  readonly spawnedAt: number;
  readonly times: RuntimeTimes;
  invoke(event: unknown, timeoutMs: number): Promise<Answer>;
  /** Its output so far. */
  output(): string;
  close(): Promise<void>;
}

interface Invocation {
  readonly id: string;
  readonly event: unknown;
  readonly timeoutMs: number;
  readonly settle: (answer: Answer) => void;
}

/** With which Lambda starts Node, but for those of its memory. */
const LAMBDA_FLAGS = ['--expose-gc', '--max-http-header-size', '81920'];
const API = '/2018-06-01/runtime';
const MAX_BODY_BYTES = 6 * 1024 * 1024;
/** A client that never asks for its event. */
const MAX_INIT_MS = 60_000;

/** Starts the client at once; its INIT runs on. */
export async function startRuntime(options: RuntimeOptions): Promise<RuntimeEnvironment> {
  const waiting: Invocation[] = [];
  const running = new Map<string, Invocation>();
  let asking: ServerResponse | undefined;
  let ended: Answer | undefined;
  let count = 0;
  let givenAt: number | undefined;
  const times = { initMs: Number.NaN, answered: [] as number[], billed: [] as number[] };

  const give = () => {
    const next = asking && waiting.shift();
    if (!next) return;
    const settle = (answer: Answer) => {
      clearTimeout(timer);
      next.settle(answer);
    };
    running.set(next.id, { ...next, settle });
    const endAt = Date.now() + next.timeoutMs;
    givenAt = performance.now();
    asking?.writeHead(200, {
      'content-type': 'application/json',
      'lambda-runtime-aws-request-id': next.id,
      'lambda-runtime-deadline-ms': String(endAt),
      'lambda-runtime-invoked-function-arn': 'arn:aws:lambda:local:000000000000:function:local',
      'lambda-runtime-trace-id': 'Root=1-5759e988-bd862e3fe1be46a994272793;Sampled=1',
    });
    asking?.end(JSON.stringify(next.event));
    asking = undefined;
    const timer = setTimeout(() => {
      running.delete(next.id);
      next.settle({ kind: 'timeout' });
      child.kill('SIGKILL');
    }, next.timeoutMs);
    timer.unref();
  };

  const server = createServer((request, response) => {
    void receive(request, response).catch(() => response.destroy());
  });
  async function receive(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { url = '' } = request;
    const now = performance.now();
    if (url === `${API}/invocation/next`) {
      if (givenAt === undefined) times.initMs = now - spawnedAt;
      else times.billed.push(now - givenAt);
      asking = response;
      give();
      return;
    }
    const value = JSON.parse((await bodyOf(request)) || 'null') as unknown;
    const [, id, what] = /\/invocation\/([^/]+)\/(response|error)$/.exec(url) ?? [];
    response.writeHead(202, { 'content-type': 'application/json' });
    response.end('{"status":"OK"}');
    if (url === `${API}/init/error`) return end({ kind: 'ended', value });
    times.answered.push(now - (givenAt ?? now));
    running.get(id ?? '')?.settle({ kind: what, value } as Answer);
    running.delete(id ?? '');
  }
  const end = (answer: Answer) => {
    ended ??= answer;
    for (const { settle } of [...running.values(), ...waiting.splice(0)]) settle(ended);
    running.clear();
  };

  const port = await listen(server);
  const spawnedAt = performance.now();
  const { child, output } = spawnClient(options, port);
  child.once('exit', (code, signal) => end({ kind: 'ended', value: { code, signal } }));
  return {
    pid: child.pid ?? 0,
    spawnedAt,
    times,
    output,
    invoke: (event, timeoutMs) =>
      new Promise((resolve, reject) => {
        if (ended) return resolve(ended);
        const timer = setTimeout(
          () => reject(new Error(`no answer from ${options.handler}:\n${output()}`)),
          timeoutMs + MAX_INIT_MS,
        );
        const settle = (answer: Answer) => {
          clearTimeout(timer);
          resolve(answer);
        };
        waiting.push({ id: `request-${++count}`, event, timeoutMs, settle });
        give();
      }),
    async close() {
      const gone = child.exitCode === null && child.signalCode === null ? once(child, 'exit') : undefined;
      child.kill('SIGKILL');
      await gone;
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}

async function bodyOf(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    bytes += chunk.byteLength;
    if (bytes > MAX_BODY_BYTES) throw new Error(`an answer over ${MAX_BODY_BYTES} bytes`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString();
}

async function listen(server: Server): Promise<number> {
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return (server.address() as AddressInfo).port;
}

function spawnClient(
  { client, folder, handler, environment, within }: RuntimeOptions,
  port: number,
): { child: ChildProcess; output: () => string } {
  const node = within ?? [process.execPath, ...LAMBDA_FLAGS];
  const [command, ...parameters] =
    typeof client === 'string' ? [...node, join(client, 'index.mjs'), handler] : client;
  const child = spawn(command as string, parameters, {
    ...(within ? {} : { cwd: folder }),
    env: {
      PATH: process.env['PATH'],
      ...environment,
      LAMBDA_TASK_ROOT: folder,
      _HANDLER: handler,
      AWS_LAMBDA_RUNTIME_API: `127.0.0.1:${port}`,
      AWS_LAMBDA_FUNCTION_VERSION: '$LATEST',
      AWS_LAMBDA_LOG_GROUP_NAME: '/aws/lambda/local',
      AWS_LAMBDA_LOG_STREAM_NAME: 'local',
      AWS_LAMBDA_INITIALIZATION_TYPE: 'on-demand',
    },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let output = '';
  for (const stream of [child.stdout, child.stderr]) stream?.on('data', (chunk) => (output += String(chunk)));
  return { child, output: () => output };
}
