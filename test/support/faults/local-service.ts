/**
 * The whole local service as a process, with its Redis and its workers, each of which can be killed. It is started again
 * on the same ports and the same data.
 */
import { chmod, mkdir, writeFile } from 'node:fs/promises';
import { delimiter, join } from 'node:path';
import type { TestContext } from 'node:test';
import { freePort } from '../free-port.ts';
import { childPids } from '../isolated.ts';
import { type Addresses, type Started, startWith } from '../start.ts';
import { until } from '../until.ts';
import { type Random, whole } from './seeds.ts';

/** What hosts a model or a worker's code. */
const WORKERS = /_protocol\.loop|workers\/loop\.ts|isolated-process/;
const REDIS = /^redis-server|\/redis-server/;
/** The Redis of a service that was killed saves its data before it leaves the port, which takes seconds on a busy disk. */
const PORT_MS = 60_000;

export interface LocalServiceOptions {
  /** With a config.yaml. */
  readonly folder: string;
  /** True: what Redis has acknowledged is on the disk. */
  readonly syncsAlways: boolean;
}

export class LocalService {
  readonly #t: TestContext;
  readonly #arguments: readonly string[];
  readonly #variables: Readonly<Record<string, string>>;
  #started: Started | undefined;
  #addresses: Addresses | undefined;

  private constructor(t: TestContext, args: readonly string[], variables: Readonly<Record<string, string>>) {
    this.#t = t;
    this.#arguments = args;
    this.#variables = variables;
  }

  /** @returns it when it is ready */
  static async open(t: TestContext, { folder, syncsAlways }: LocalServiceOptions): Promise<LocalService> {
    const ports = [await freePort(), await freePort(), await freePort()];
    const places = { config: join(folder, 'config.yaml'), 'data-dir': join(folder, 'data') };
    const [port, aws, redis] = ports;
    const options = { ...places, port, 'aws-port': aws, 'redis-port': redis };
    const args = ['--json', ...Object.entries(options).map(([name, value]) => `--${name}=${value}`)];
    const path = syncsAlways ? { PATH: await syncingPath(folder) } : {};
    const variables = { ...path, PYTHONDONTWRITEBYTECODE: '1' };
    const service = new LocalService(t, args, variables);
    await service.start();
    return service;
  }

  get addresses(): Addresses {
    if (!this.#addresses) throw new Error('the service was not started');
    return this.#addresses;
  }

  /** The end of what it printed. */
  get output(): string {
    return this.#started?.lines.slice(-20).join('\n') ?? '';
  }

  async start(): Promise<void> {
    const sinceMs = performance.now();
    for (;;) {
      this.#started = startWith(this.#t, this.#variables, ...this.#arguments);
      try {
        await this.#started.line(/"ready"/);
        this.#addresses = JSON.parse(await this.#started.line(/"queueUrl"/)) as Addresses;
        return;
      } catch (error) {
        const isTaken = this.#started.lines.some((line) => /in use/.test(line));
        if (!isTaken || performance.now() - sinceMs > PORT_MS) throw error;
      }
    }
  }

  /** SIGKILL to the service. Its Redis and its workers end by themselves, and it is started again. */
  async restart(): Promise<void> {
    const { child, exited } = this.#started as Started;
    child.kill('SIGKILL');
    await exited;
    await this.start();
  }

  /** SIGKILL to one of the processes that run records. @returns false when there is none */
  async killWorker(random: Random): Promise<boolean> {
    const pids = await childPids(this.#pid, WORKERS);
    const pid = pids[whole(random, 0, pids.length - 1)];
    return pid !== undefined && killed(pid);
  }

  /** SIGKILL to its Redis, which it starts again. @returns false when there is none */
  async killRedis(): Promise<boolean> {
    const [pid] = await childPids(this.#pid, REDIS);
    if (pid === undefined || !killed(pid)) return false;
    await until(async () => (await childPids(this.#pid, REDIS)).some((other) => other !== pid));
    return true;
  }

  get #pid(): number {
    return this.#started?.child.pid as number;
  }
}

function killed(pid: number): boolean {
  try {
    process.kill(pid, 'SIGKILL');
    return true;
  } catch {
    return false;
  }
}

/** A PATH whose redis-server is that of the machine, with a sync for every write. */
async function syncingPath(folder: string): Promise<string> {
  const bin = join(folder, 'bin');
  const path = process.env['PATH'] ?? '';
  await mkdir(bin);
  const script = `#!/bin/sh
PATH='${path}'
[ "$1" = --version ] || set -- "$@" --appendfsync always
exec redis-server "$@"
`;
  await writeFile(join(bin, 'redis-server'), script);
  await chmod(join(bin, 'redis-server'), 0o755);
  return [bin, path].join(delimiter);
}
