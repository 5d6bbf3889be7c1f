/** A client of one server: a process that is started again when it ends, until it is stopped. */
import type { ServiceLog } from '../../lib/workers/log.ts';
import {
  type After,
  type ClientMessage,
  ClientProcess,
  type Opening,
  type Progress,
  realAfter,
} from './process.ts';
import type { RemoteServer } from './servers.ts';

export type ClientState = 'starting' | 'running' | 'waiting' | 'retiring' | 'stopped';

/** The options that all clients of a service share. */
export interface ClientSettings {
  readonly worker: string;
  readonly directory: string;
  readonly python: string;
  readonly logName: string;
  readonly verbose: boolean;
}

export interface ClientContext {
  readonly settings: ClientSettings;
  readonly log: ServiceLog;
  readonly after?: After;
  /** Called after each change of a state. */
  readonly changed: () => void;
  /** Called when the class is loaded. */
  readonly loaded: () => void;
  /** Called when a process ended before the class was loaded, with what is known of it. */
  readonly notLoaded: (why: string) => void;
  readonly note: (text: string) => void;
}

const FIRST_DELAY_MS = 100;
const MAX_DELAY_MS = 30_000;
const START_LIMIT_MS = 120_000;
const MAX_ERROR_CHARS = 500;
const NOTHING: Progress = { done: 0, failed: 0, lastError: '' };

/** How long a client waits before its next start, after that many starts in a row that completed no call. */
export function restartDelayMs(failures: number): number {
  return Math.min(MAX_DELAY_MS, FIRST_DELAY_MS * 2 ** Math.max(0, failures - 1));
}

export class Client {
  readonly server: RemoteServer;
  readonly #context: ClientContext;
  readonly #name: string;
  readonly #after: After;
  readonly #stopped = Promise.withResolvers<void>();
  #state: ClientState = 'starting';
  #process: ClientProcess | undefined;
  /** Cancels the restart that is due, or the limit of the start. */
  #cancel = () => {};
  #restarts = 0;
  #failures = 0;
  /** Counts of earlier processes and of this one. */
  #before = NOTHING;
  #now = NOTHING;
  #lastError = '';
  /** The error of a process whose start failed. */
  #fault: string | undefined;
  #isLoaded = false;

  /** @param number among the clients of the supervisor, for the log */
  constructor(server: RemoteServer, number: number, context: ClientContext) {
    this.server = server;
    this.#context = context;
    this.#after = context.after ?? realAfter;
    this.#name = `${server[0]}:${server[1]} #${number}`;
    this.#start();
  }

  get state(): ClientState {
    return this.#state;
  }

  get restarts(): number {
    return this.#restarts;
  }

  get done(): number {
    return this.#before.done + this.#now.done;
  }

  get failed(): number {
    return this.#before.failed + this.#now.failed;
  }

  status() {
    const { server, state, restarts, done, failed } = this;
    const pid = this.#process?.pid ?? null;
    return { server, pid, state, restarts, done, failed, last_error: this.#lastError };
  }

  /** Retires the process. Resolves when it has ended. */
  stop(): Promise<void> {
    if (this.#state === 'waiting') {
      this.#cancel();
      this.#become('stopped');
    } else if (this.#state === 'starting' || this.#state === 'running') {
      this.#become('retiring');
      this.#process?.retire();
    }
    return this.#stopped.promise;
  }

  #start(): void {
    const { settings, log } = this.#context;
    const [ip, port, portOut] = this.server;
    const { worker, directory, verbose } = settings;
    const logName = `${settings.logName} ${this.#name}`;
    const opening: Opening = { worker, directory, ip, port, portOut, logName, verbose };
    this.#fault = undefined;
    this.#isLoaded = false;
    const events = {
      message: (message: ClientMessage) => this.#read(message),
      ended: (how: string) => this.#ended(how),
    };
    this.#process = new ClientProcess(settings.python, opening, events, log, this.#after);
    const limit = `it was not ready after ${START_LIMIT_MS / 1000} s`;
    this.#cancel = this.#after(START_LIMIT_MS, () => this.#process?.kill(limit));
  }

  #read(message: ClientMessage): void {
    switch (message.type) {
      case 'loaded':
        this.#isLoaded = true;
        return this.#context.loaded();
      case 'ready':
        this.#cancel();
        if (this.#state === 'starting') this.#become('running');
        return;
      case 'failed':
        this.#fault = `${message.phase}: ${message.text}`;
        if (!this.#isLoaded) this.#context.notLoaded(`${message.text}\n${message.traceback}`.trimEnd());
        return;
      case 'progress':
        if (message.done > 0) this.#failures = 0;
        this.#now = message;
        if (message.lastError !== '') this.#lastError = message.lastError.slice(0, MAX_ERROR_CHARS);
        return;
      default:
    }
  }

  #ended(how: string): void {
    this.#cancel();
    this.#process = undefined;
    this.#before = { done: this.done, failed: this.failed, lastError: '' };
    this.#now = NOTHING;
    if (this.#state === 'retiring') return this.#become('stopped');
    this.#lastError = (this.#fault ?? `the process ended: ${how}`).slice(0, MAX_ERROR_CHARS);
    if (!this.#isLoaded) this.#context.notLoaded(this.#lastError);
    this.#failures++;
    const delayMs = restartDelayMs(this.#failures);
    this.#context.note(`client ${this.#name}: ${this.#lastError}; it starts again in ${delayMs / 1000} s`);
    this.#become('waiting');
    this.#cancel = this.#after(delayMs, () => {
      this.#restarts++;
      this.#become('starting');
      this.#start();
    });
  }

  #become(state: ClientState): void {
    this.#state = state;
    if (state === 'stopped') this.#stopped.resolve();
    this.#context.changed();
  }
}
