/**
 * One process of a worker, seen from the service: it is started, loads the user's class, runs one batch after the other
 * and retires. A frame that breaks the protocol ends it, because nothing it says can be trusted any more.
 */

import { AsyncLocalStorage } from 'node:async_hooks';
import { type ChildProcess, spawn } from 'node:child_process';
import type { Readable, Writable } from 'node:stream';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { FrameDecoder, ProtocolError } from '../codecs/values/frame.ts';
import { asError } from '../contract/errors.ts';
import { present } from '../contract/present.ts';
import { type LogStream, logLines, type ServiceLog } from './log.ts';
import {
  encodeMessage,
  type FromWorker,
  type Hello,
  type Open,
  PROTOCOL,
  type Ready,
  type RunFailed,
  type RunResult,
  type StartFailed,
  type ToWorker,
} from './messages.ts';
import { readFromWorker } from './read-message.ts';
import { faultText } from './results.ts';
import type { LogSource } from './stamp.ts';

const PIPES_OPEN_MS = 1_000;

export interface WorkerCommand {
  /** The interpreter and its arguments, up to the loop. */
  readonly command: readonly [string, ...string[]];
  readonly environment: Readonly<Record<string, string | undefined>>;
  readonly directory: string;
  /** Takes what the worker prints. */
  readonly log: ServiceLog;
  /** The worker's name in the log. */
  readonly source: Omit<LogSource, 'pid'>;
}

/** The process ended while something was expected of it. */
export class WorkerEnded extends Error {
  /** False: the batch is not its cause, as the process had been ended before, or answered an earlier one again. */
  readonly hadBatch: boolean;

  constructor(how: string, hadBatch = true) {
    super(`the worker's process ended (${how})`);
    this.name = 'WorkerEnded';
    this.hadBatch = hadBatch;
  }
}

/** The worker's own code failed before it was ready. */
export class WorkerStartError extends Error {
  readonly traceback: string;

  constructor({ phase, error }: StartFailed) {
    super(`${phase}: ${error.type}: ${error.message}`);
    this.name = 'WorkerStartError';
    this.traceback = error.traceback;
  }
}

interface Expected {
  readonly resolve: (message: FromWorker) => void;
  readonly reject: (error: Error) => void;
}

export class WorkerProcess {
  readonly #child: ChildProcess;
  #expected: Expected | undefined;
  /** Messages from before anything was expected of it. */
  #hello: FromWorker | undefined;
  #isGreeted = false;
  #isRetiring = false;
  #runs = 0;
  #why: string | undefined;
  #how: string | undefined;
  /** Its output is logged with the ids of the invocation that runs it, not of the one that started it. */
  #inInvocation = AsyncLocalStorage.snapshot();
  readonly #log: (stream: LogStream, lines: Uint8Array) => void;
  /** How it ended. Never rejects. */
  readonly ended: Promise<string>;

  constructor({ command: [name, ...args], environment, directory, log, source }: WorkerCommand) {
    this.#child = spawn(name, args, {
      cwd: directory,
      env: environment,
      stdio: ['ignore', 'pipe', 'pipe', 'pipe', 'pipe'],
    });
    const from = { ...source, pid: this.#child.pid };
    this.#log = (stream, lines) => this.#inInvocation(() => log.write(stream, lines, from));
    logLines(present(this.#child.stdout, 'stdout'), { write: this.#log }, 'log');
    logLines(present(this.#child.stderr, 'stderr'), { write: this.#log }, 'err');
    // It may end while it is written to; its end is what is reported.
    this.#outgoing.on('error', () => this.#hungUp());
    const decoder = new FrameDecoder();
    this.#incoming.on('error', () => undefined);
    this.#incoming.on('close', () => this.#hungUp());
    this.#incoming.on('data', (chunk: Buffer) => this.#read(decoder, chunk));
    this.ended = new Promise((resolve) => {
      this.#child.once('error', (error) => resolve(`cannot be started: ${error.message}`));
      const end = (code: number | null, signal: string | null) =>
        resolve(this.#why ?? signal ?? `exit code ${code}`);
      this.#child.once('close', end);
      // Its last output is still read, unless a process that it started keeps its pipes open.
      this.#child.once('exit', (code, signal) => setTimeout(end, PIPES_OPEN_MS, code, signal).unref());
    });
    void this.ended.then((how) => this.#end(how));
  }

  get pid(): number | undefined {
    return this.#child.pid;
  }

  /** @throws WorkerStartError, WorkerEnded; Error for a loop of another protocol */
  async open(open: Omit<Open, 'type' | 'protocol'>): Promise<Ready> {
    const hello = await this.#receive();
    if (hello.type !== 'hello') throw this.#breach('hello is expected first');
    assertProtocol(hello);
    this.#send({ type: 'open', protocol: PROTOCOL, ...open });
    const answer = await this.#receive();
    if (answer.type === 'failed') throw new WorkerStartError(answer);
    if (answer.type !== 'ready') throw this.#breach('ready is expected');
    return answer;
  }

  /** One batch; the next may follow when this one has resolved. @throws WorkerEnded, TypeError for an item that cannot be sent */
  async run(items: readonly unknown[]): Promise<RunResult | RunFailed> {
    if (this.#why !== undefined) throw new WorkerEnded(await this.ended, false);
    const id = ++this.#runs;
    this.#inInvocation = AsyncLocalStorage.snapshot();
    this.#send({ type: 'run', id, items });
    const message = await this.#receive();
    if (message.type !== 'result' || message.id !== id) {
      // A second answer to an earlier batch is not the fault of this one.
      const hadBatch = message.type !== 'result' || message.id > id;
      throw this.#breach(`the result of run ${id} is expected`, hadBatch);
    }
    if ('outcomes' in message && message.outcomes.length !== items.length) {
      throw this.#breach(`${message.outcomes.length} outcomes for ${items.length} items`);
    }
    if ('failed' in message) await this.#report(message);
    return message;
  }

  /** Lets it call `off_model` and exit; kills it after `limitMs`. */
  async retire(limitMs: number): Promise<void> {
    this.#isRetiring = true;
    const kill = setTimeout(() => this.kill(`did not retire within ${limitMs} ms`), limitMs);
    try {
      this.#send({ type: 'retire' });
      await this.#receive();
    } catch {
      // It has ended, which is what was asked for.
    } finally {
      await this.ended;
      clearTimeout(kill);
    }
  }

  /** Ends it at once. @param why what `ended` says */
  kill(why?: string): void {
    this.#why ??= why;
    this.#child.kill('SIGKILL');
  }

  /** Logs why a batch failed, before its answer: Lambda may freeze this process after that. */
  async #report({ failed }: RunFailed): Promise<void> {
    // The pipe of stderr holds the traceback by now.
    await nextTurn();
    if (failed.kind === 'raised') return;
    this.#log('err', Buffer.from(`${faultText(failed)}; its batch failed\n`));
  }

  get #outgoing(): Writable {
    return this.#child.stdio[3] as Writable;
  }

  get #incoming(): Readable {
    return this.#child.stdio[4] as Readable;
  }

  #end(how: string): void {
    this.#how = how;
    this.#expected?.reject(new WorkerEnded(how));
  }

  #send(message: ToWorker): void {
    const chunks = encodeMessage(message);
    this.#outgoing.cork();
    for (const chunk of chunks) this.#outgoing.write(chunk);
    this.#outgoing.uncork();
  }

  #read(decoder: FrameDecoder, chunk: Buffer): void {
    // It is ended for what it did, and may have written more until then, which could look like a result.
    if (this.#why !== undefined) return;
    try {
      for (const frame of decoder.push(chunk)) {
        const message = readFromWorker(frame);
        const expected = this.#expected;
        this.#expected = undefined;
        if (expected) expected.resolve(message);
        // Taken for the answer to a later batch, it could be the result of another client's item.
        else if (this.#isGreeted || this.#hello) throw new ProtocolError('it says more than it was asked');
        else this.#hello = message;
      }
    } catch (error) {
      this.kill(asError(error).message);
    }
  }

  #receive(): Promise<FromWorker> {
    const hello = this.#hello;
    this.#isGreeted = true;
    this.#hello = undefined;
    if (hello) return Promise.resolve(hello);
    if (this.#how !== undefined) return Promise.reject(new WorkerEnded(this.#how));
    return new Promise((resolve, reject) => {
      this.#expected = { resolve, reject };
    });
  }

  /** A process that lives without its pipes would be given batches. One that ends closes them too. */
  #hungUp(): void {
    setTimeout(() => {
      const { exitCode, signalCode } = this.#child;
      if (exitCode === null && signalCode === null && !this.#isRetiring) this.kill('it closed its pipes');
    }, PIPES_OPEN_MS).unref();
  }

  #breach(problem: string, hadBatch = true): Error {
    const text = `it broke the protocol: ${problem}`;
    this.kill(text);
    return new WorkerEnded(text, hadBatch);
  }
}

function assertProtocol({ protocol, language, version }: Hello): void {
  if (protocol === PROTOCOL) return;
  throw new Error(
    `the ${language} package ${version} speaks protocol ${protocol}, this service ${PROTOCOL}: install the same version of both`,
  );
}
