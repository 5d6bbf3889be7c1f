/** A worker's process as the service starts it: real pipes, and the messages one after the other. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Readable, Writable } from 'node:stream';
import { fileURLToPath } from 'node:url';
import { FrameDecoder } from '../../../lib/codecs/values/frame.ts';
import { encodeMessage, type FromWorker, type Open, type ToWorker } from '../../../lib/workers/messages.ts';
import { readFromWorker } from '../../../lib/workers/read-message.ts';
import { PYTHON, PYTHON_PACKAGE } from '../../support/python.ts';
import { until } from '../../support/until.ts';

export type Language = 'python' | 'typescript';

const LOOP = fileURLToPath(new URL('../../../lib/workers/loop.ts', import.meta.url));
export const SDK = new URL('../../../sdk/worker.ts', import.meta.url).href;

export const COMMANDS = {
  python: [PYTHON, '-m', 'wkr_serving._protocol.loop'],
  typescript: [process.execPath, LOOP],
} as const satisfies Record<Language, readonly string[]>;

export const FILES = { python: 'server.py', typescript: 'server.ts' } as const;

export const ENVIRONMENT = { ...process.env, PYTHONPATH: PYTHON_PACKAGE, PYTHONDONTWRITEBYTECODE: '1' };

/** The bodies of a worker's methods, in both languages. */
export interface Source {
  readonly python: string;
  readonly typescript: string;
}

const python = (body: string) => `from wkr_serving.server import WKRHardWorker
import os, sys, json, numpy as np

class Worker(WKRHardWorker):
    def get_model(self, envs, model_dir, model_name, tmp_dir):
        return "the model"

    def predict(self, model, input):
        return input

${body.replaceAll(/^/gm, '    ')}
`;

const typescript = (body: string) => `import { WKRHardWorker } from '${SDK}';
export class Worker extends WKRHardWorker {
  getModel(): any { return 'the model'; }
  predict(_model: unknown, input: any): any { return input; }
${body}
}
`;

/** Node takes the last of two methods with one name, and so does Python. */
export const sourceOf = (language: Language, { python: py, typescript: ts }: Source) =>
  language === 'python' ? python(py) : typescript(ts);

const started = new Set<WorkerChild>();

/** Ends the workers that a test has started, and removes their folders. */
export async function endWorkers(): Promise<void> {
  for (const child of started) {
    started.delete(child);
    child.process.kill('SIGKILL');
    await child.ended;
    await rm(child.folder, { recursive: true, force: true });
  }
}

/** `afterEach(endWorkers)` ends it. */
export class WorkerChild {
  readonly process: ChildProcess;
  readonly folder: string;
  /** The exit code or the signal, once all of its output has been read. */
  readonly ended: Promise<number | string>;
  stdout = '';
  stderr = '';
  readonly #messages: FromWorker[] = [];
  #error: unknown;
  #closed = false;
  #wake = () => {};

  private constructor(language: Language, folder: string) {
    this.folder = folder;
    const [command, ...args] = COMMANDS[language];
    this.process = spawn(command, args, {
      cwd: folder,
      env: ENVIRONMENT,
      stdio: ['ignore', 'pipe', 'pipe', 'pipe', 'pipe'],
    });
    this.process.stdout?.on('data', (text) => {
      this.stdout += text;
    });
    this.process.stderr?.on('data', (text) => {
      this.stderr += text;
    });
    // The worker may end while it is written to.
    this.#outgoing.on('error', () => undefined);
    const decoder = new FrameDecoder();
    const incoming = this.process.stdio[4] as Readable;
    incoming.on('data', (chunk: Buffer) => {
      try {
        for (const frame of decoder.push(chunk)) this.#messages.push(readFromWorker(frame));
      } catch (error) {
        this.#error = error;
      }
      this.#wake();
    });
    incoming.on('close', () => {
      this.#closed = true;
      this.#wake();
    });
    this.ended = once(this.process, 'close').then(([code, signal]) => code ?? signal);
  }

  /** @param files of its working directory; a text alone is the worker's own */
  static async start(
    language: Language,
    files: string | Readonly<Record<string, string>>,
  ): Promise<WorkerChild> {
    const folder = await mkdtemp(join(tmpdir(), 'worker-'));
    const all = typeof files === 'string' ? { [FILES[language]]: files } : files;
    for (const [name, text] of Object.entries(all)) await writeFile(join(folder, name), text);
    const child = new WorkerChild(language, folder);
    started.add(child);
    return child;
  }

  /** Starts a worker and opens it. @returns it and its answer: `ready` or `failed` */
  static async open(
    language: Language,
    files: string | Readonly<Record<string, string>>,
    open: Partial<Open> = {},
  ): Promise<WorkerChild & { readonly answer: FromWorker }> {
    const child = await WorkerChild.start(language, files);
    await child.receive();
    child.send(openMessage(child.folder, open));
    return Object.assign(child, { answer: await child.receive() });
  }

  get #outgoing(): Writable {
    return this.process.stdio[3] as Writable;
  }

  send(message: ToWorker): void {
    for (const chunk of encodeMessage(message)) this.#outgoing.write(chunk);
  }

  sendBytes(bytes: Uint8Array): void {
    this.#outgoing.write(bytes);
  }

  /** Ends the pipe as a service that has ended does. */
  hangUp(): void {
    this.#outgoing.end();
  }

  /** Resolves when the worker's pipe has ended, which no other process may keep open. */
  async pipeEnded(): Promise<void> {
    await until(() => this.#closed, 10_000);
  }

  /** @returns the next message. Fails when the worker ended without one. */
  async receive(): Promise<FromWorker> {
    for (;;) {
      const message = this.#messages.shift();
      if (message) return message;
      if (this.#error) throw this.#error;
      if (this.#closed) throw new Error(`the worker ended: ${await this.ended}\n${this.stderr}`);
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
  }

  async run(items: readonly unknown[], id = 1): Promise<FromWorker> {
    this.send({ type: 'run', id, items });
    return this.receive();
  }

  /** @returns how it ended */
  async retire(): Promise<number | string> {
    this.send({ type: 'retire' });
    const message = await this.receive();
    if (message.type !== 'retired') throw new Error(`retired is expected, not ${message.type}`);
    return this.ended;
  }
}

export function openMessage(folder: string, open: Partial<Open> = {}): Open {
  return {
    type: 'open',
    protocol: 1,
    worker: 'server.Worker',
    directory: folder,
    workerId: 3,
    deviceId: -1,
    transferProto: 'obj',
    tmpFolder: join(folder, 'tmp'),
    modelDir: '/models',
    modelName: 'model.hdf5',
    batchSize: 4,
    gpuMemoryFraction: 0.5,
    verbose: false,
    logName: 'WKRServer',
    ...open,
  };
}
