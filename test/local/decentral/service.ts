/** Starts the wkr commands as a shell does, in a folder of their own; what they started ends after the test. */
import assert from 'node:assert/strict';
import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { mkdir, readFile, symlink, writeFile } from 'node:fs/promises';
import { delimiter, dirname, isAbsolute, join } from 'node:path';
import type { TestContext } from 'node:test';
import { fileURLToPath } from 'node:url';
import { childEnvironment } from '../../support/environment.ts';
import { PYTHON, PYTHON_PACKAGE } from '../../support/python.ts';
import { temporaryFolder } from '../../support/runner.ts';
import { until } from '../../support/until.ts';

const BIN = fileURLToPath(new URL('../../../cli/bin', import.meta.url));
const COMMANDS = [
  ...['start', 'make', 'status', 'switch', 'idle', 'restart', 'terminate'].map(
    (verb) => `wkr-decentral-${verb}`,
  ),
  ...['start', 'make', 'terminate'].map((verb) => `wkr-serving-${verb}`),
];

export interface Done {
  readonly code: number | string;
  readonly stdout: string;
  readonly stderr: string;
}

export interface ClientStatus {
  readonly server: readonly [string, number, number];
  readonly pid: number;
  readonly state: string;
  readonly restarts: number;
  readonly done: number;
  readonly failed: number;
  readonly last_error: string;
}

export interface Status {
  readonly number_client_per_server: number;
  readonly remote_servers: readonly (readonly [string, number, number])[];
  readonly clients: readonly ClientStatus[];
}

/** A folder with the files of a class, and the commands on its PATH. */
export class Service {
  readonly folder: string;
  readonly env: NodeJS.ProcessEnv;

  /** What ends at the end of the test, the last one first: the folder goes when nothing runs in it. */
  readonly #hooks: (() => Promise<unknown>)[];

  private constructor(folder: string, env: NodeJS.ProcessEnv, hooks: (() => Promise<unknown>)[]) {
    this.#hooks = hooks;
    this.folder = folder;
    this.env = env;
  }

  static async in(t: TestContext, files: Readonly<Record<string, string>>): Promise<Service> {
    const hooks: (() => Promise<unknown>)[] = [];
    const folder = await temporaryFolder({ after: (hook) => hooks.unshift(hook) });
    t.after(async () => {
      for (const hook of hooks) await hook();
    });
    const bin = join(folder, 'bin');
    await mkdir(bin);
    for (const name of COMMANDS) await symlink(join(BIN, `${name}.mjs`), join(bin, name));
    // The Python of the system: that of a user may be a script, which starts slowly.
    if (isAbsolute(PYTHON)) await symlink(PYTHON, join(bin, 'python3'));
    for (const [name, text] of Object.entries(files)) await writeFile(join(folder, name), text);
    const path = [bin, dirname(process.execPath), process.env['PATH']].join(delimiter);
    return new Service(
      folder,
      {
        ...childEnvironment(),
        PATH: path,
        PYTHONPATH: PYTHON_PACKAGE,
        PYTHONDONTWRITEBYTECODE: '1',
        WKR_CONTROL_DIR: join(folder, 'control'),
      },
      hooks,
    );
  }

  after(hook: () => Promise<unknown>): void {
    this.#hooks.unshift(hook);
  }

  /** Runs a line of sh to its end. */
  sh(line: string): Promise<Done> {
    return new Promise((resolve) => {
      const options = { cwd: this.folder, env: this.env };
      execFile('sh', ['-c', line], options, (error, stdout, stderr) => {
        resolve({ code: error ? (error.code ?? error.signal ?? 'error') : 0, stdout, stderr });
      });
    });
  }

  /** Starts the supervisor with a line of sh. @returns it when it is ready */
  async start(line: string): Promise<Supervised> {
    const child = spawn('sh', ['-c', `exec ${line}`], {
      cwd: this.folder,
      env: this.env,
      stdio: 'pipe',
    });
    const supervised = new Supervised(this, child);
    this.after(() => supervised.end());
    await until(() => supervised.port !== undefined || supervised.code !== undefined);
    assert.notEqual(supervised.port, undefined, supervised.output);
    return supervised;
  }

  text(name: string): Promise<string> {
    return readFile(join(this.folder, name), 'utf8').catch(() => '');
  }
}

export class Supervised {
  readonly service: Service;
  readonly child: ChildProcess;
  output = '';
  code: number | string | undefined;

  constructor(service: Service, child: ChildProcess) {
    this.service = service;
    this.child = child;
    for (const stream of [child.stdout, child.stderr]) {
      stream?.on('data', (text) => {
        this.output += text;
      });
    }
    child.once('close', (code, signal) => {
      this.code = code ?? signal ?? 'ended';
    });
  }

  /** Of the control channel, when it is ready. */
  get port(): number | undefined {
    const [, port] = /^ready http:\/\/(?:[\w.]+|\[[\da-f:]+\]):(\d+)$/m.exec(this.output) ?? [];
    return port === undefined ? undefined : Number(port);
  }

  async ask(verb: string, flags = ''): Promise<unknown> {
    const done = await this.service.sh(`wkr-decentral-${verb} -port ${this.port} -timeout=30000 ${flags}`);
    assert.equal(done.code, 0, done.stderr);
    return JSON.parse(done.stdout);
  }

  /** Without the command, which costs a process. */
  async status(): Promise<Status> {
    const response = await this.post('status');
    return ((await response.json()) as { data: Status }).data;
  }

  /** Waits until the status is as wanted. */
  async until(wanted: (status: Status) => boolean): Promise<Status> {
    let last: Status | undefined;
    await until(async () => wanted((last = await this.status())), 30_000, 50);
    return last as unknown as Status;
  }

  async post(verb: string, headers: Readonly<Record<string, string>> = {}, body = '{}'): Promise<Response> {
    const token = await this.service.text(`control/${this.port}.token`);
    return fetch(`http://127.0.0.1:${this.port}/control/${verb}`, {
      method: 'POST',
      headers: { authorization: `Bearer ${token}`, ...headers },
      body,
    });
  }

  async ended(): Promise<number | string> {
    await until(() => this.code !== undefined, 30_000);
    return this.code as number | string;
  }

  async end(): Promise<void> {
    if (this.code !== undefined) return;
    this.child.kill('SIGKILL');
    await this.ended();
  }
}
