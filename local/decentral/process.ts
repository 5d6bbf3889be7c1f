/** One process of a client: it starts it, exchanges frames with it on two private pipes, and ends it. */
import { type ChildProcess, spawn } from 'node:child_process';
import type { Readable, Writable } from 'node:stream';
import {
  encodeFrame,
  FrameDecoder,
  type Header,
  isCount,
  ProtocolError,
} from '../../lib/codecs/values/frame.ts';
import { logLines, type ServiceLog } from '../../lib/workers/log.ts';
import { PROTOCOL } from '../../lib/workers/messages.ts';

/** The work of a client. */
export interface Opening {
  /** A module in `directory` and a class in it. */
  readonly worker: string;
  readonly directory: string;
  readonly ip: string;
  readonly port: number;
  readonly portOut: number;
  /** The name of its logger. */
  readonly logName: string;
  readonly verbose: boolean;
}

/** Calls of do_work since the process started. */
export interface Progress {
  readonly done: number;
  readonly failed: number;
  readonly lastError: string;
}

export type ClientMessage =
  | { readonly type: 'hello' | 'loaded' | 'ready' | 'retired' }
  | { readonly type: 'failed'; readonly phase: string; readonly text: string; readonly traceback: string }
  | ({ readonly type: 'progress' } & Progress);

export interface ClientEvents {
  readonly message: (message: ClientMessage) => void;
  /** Called once, after the last message. */
  readonly ended: (how: string) => void;
}

/** Runs `run` after a while. @returns what cancels that */
export type After = (ms: number, run: () => void) => () => void;

export const realAfter: After = (ms, run) => {
  const timer = setTimeout(run, ms);
  return () => clearTimeout(timer);
};

const RETIRE_MS = 5_000;
/** A process of the user's code may keep the pipe of a process that has ended. */
const LAST_WORDS_MS = 1_000;
const LOOP = 'wkr_serving._protocol.decentral_loop';

export class ClientProcess {
  readonly #child: ChildProcess;
  readonly #events: ClientEvents;
  readonly #after: After;
  readonly #decoder = new FrameDecoder();
  #cancelKill = () => {};
  #outgoing: Writable | undefined;
  #incoming: Readable | undefined;
  /** True if its last message has been read. */
  #isRead = false;
  #how: string | undefined;

  constructor(python: string, opening: Opening, events: ClientEvents, log: ServiceLog, after: After) {
    this.#events = events;
    this.#after = after;
    this.#child = spawn(python, ['-m', LOOP], {
      cwd: opening.directory,
      stdio: ['ignore', 'pipe', 'pipe', 'pipe', 'pipe'],
    });
    this.#child.once('error', ({ message }) => {
      this.#how ??= `it cannot be started: ${message}`;
      this.#settle();
    });
    this.#child.once('exit', (code, signal) => {
      this.#how ??= signal ?? `exit code ${code}`;
      after(LAST_WORDS_MS, () => {
        this.#isRead = true;
        this.#settle();
      });
      this.#settle();
    });
    this.#connect(log, opening.logName);
    this.#send({ type: 'open', protocol: PROTOCOL, ...opening });
  }

  #connect(log: ServiceLog, name: string): void {
    // Without file descriptors left, a child has none of them, and an error follows.
    const stdio: readonly unknown[] = this.#child.stdio ?? [];
    const [, out, err, outgoing, incoming] = stdio as [null?, Readable?, Readable?, Writable?, Readable?];
    const from = { name, pid: this.#child.pid };
    if (out) logLines(out, log, 'log', from);
    if (err) logLines(err, log, 'err', from);
    // It may end while it is written to or read.
    outgoing?.on('error', () => undefined);
    incoming?.on('error', () => undefined);
    incoming?.on('data', (chunk: Buffer) => this.#read(chunk));
    incoming?.once('close', () => {
      this.#isRead = true;
      this.#settle();
    });
    this.#outgoing = outgoing;
    this.#incoming = incoming;
  }

  get pid(): number | undefined {
    return this.#child.pid;
  }

  /** Lets it finish its call and close its model, and kills it 5 s later. */
  retire(): void {
    this.#send({ type: 'retire' });
    this.#cancelKill = this.#after(RETIRE_MS, () => this.kill());
  }

  /** @param why what `ended` reports */
  kill(why?: string): void {
    this.#how ??= why;
    this.#child.kill('SIGKILL');
  }

  #send(header: Header): void {
    for (const chunk of encodeFrame(header)) this.#outgoing?.write(chunk);
  }

  #read(chunk: Buffer): void {
    try {
      for (const { header, blocks } of this.#decoder.push(chunk)) {
        if (blocks.length > 0) throw malformed('it has blocks');
        this.#events.message(readMessage(header));
      }
    } catch (error) {
      // The rest of the stream is unreadable.
      this.#incoming?.destroy();
      this.kill(error instanceof Error ? error.message : String(error));
    }
  }

  #settle(): void {
    const { pid, exitCode, signalCode } = this.#child;
    const hasEnded = pid === undefined || (this.#isRead && (exitCode !== null || signalCode !== null));
    if (!hasEnded || this.#how === undefined) return;
    this.#cancelKill();
    const how = this.#how;
    this.#how = undefined;
    this.#events.ended(how);
  }
}

/** @throws ProtocolError; the process runs a user's code */
function readMessage(header: Header): ClientMessage {
  const { type } = header;
  switch (type) {
    case 'hello':
      if (header['protocol'] === PROTOCOL) return { type };
      throw malformed(`it speaks protocol ${JSON.stringify(header['protocol'])}, not ${PROTOCOL}`);
    case 'loaded':
    case 'ready':
    case 'retired':
      return { type };
    case 'progress':
      return {
        type,
        done: countOf(header, 'done'),
        failed: countOf(header, 'failed'),
        lastError: textOf(header, 'lastError'),
      };
    case 'failed': {
      const error = Object(header['error']) as Header;
      const text = `${textOf(error, 'type')}: ${textOf(error, 'message')}`;
      return { type, phase: textOf(header, 'phase'), text, traceback: textOf(error, 'traceback') };
    }
    default:
      throw malformed('unknown type');
  }
}

function countOf(header: Header, name: string): number {
  const value = header[name];
  if (isCount(value)) return value;
  throw malformed(`${name} is not a whole number >= 0`);
}

function textOf(header: Header, name: string): string {
  const value = header[name];
  if (typeof value === 'string') return value;
  throw malformed(`${name} is not a text`);
}

function malformed(problem: string): ProtocolError {
  return new ProtocolError(`malformed message of a client: ${problem}`);
}
