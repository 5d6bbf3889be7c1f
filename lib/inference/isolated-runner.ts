/**
 * Runs records that may crash or never end in a separate process. onnxruntime runs on the JS thread and cannot be
 * interrupted, and an error inside it can end the process; only killing the process ends an endless run.
 */
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { type ErrorRecord, isErrorCode, ServingError } from '../contract/errors.ts';
import type {
  Binding,
  Inputs,
  ModelNames,
  Outcome,
  RunPlace,
  RunPolicy,
  TensorSpec,
} from '../contract/values.ts';
import type { Block } from '../pipeline/bind/block.ts';
import type { ImageChoice } from '../pipeline/bind/image-choice.ts';
import { within } from './load-time.ts';
import { bindingsOf, packRecords, type SentRecords, unpack } from './packed.ts';
import type { OnnxSettings } from './runner.ts';
import {
  hasEnded,
  leaveStarting,
  MOST_LEFT_SECONDS,
  type Started,
  secondsOf,
  takeStarting,
  UNUSED_MS,
} from './starting.ts';

export interface IsolatedModel {
  readonly file: string;
  readonly version: string;
  readonly settings: OnnxSettings;
}

/** An outcome as sent between processes, where an error loses its class. */
export type SentOutcome =
  | Extract<Outcome, { ok: true }>
  | { readonly ok: false; readonly error: ErrorRecord };

/** A process may have several models, each under a key of its own. Default: one, without a key. */
interface Keyed {
  readonly key?: string | undefined;
}

export type IsolatedRequest =
  | ({ readonly open: IsolatedModel } & Keyed)
  /** Nothing runs in it any more. It is not answered. */
  | { readonly close: string }
  | (Keyed & {
      readonly run: SentRecords;
      /** By record (packed.ts). */
      readonly bindings?: readonly (Binding | undefined)[] | undefined;
      readonly policy?: RunPolicy;
    })
  /** For the run that is under way: records of it that have not run get a `timeout`. */
  | { readonly stop: true }
  | ({ readonly describe: true } & Keyed);
export type IsolatedReply =
  | { readonly outcomes: readonly SentOutcome[] }
  /** The outputs of records that all succeeded, and their places in runs. Default: they were one run, a row each. */
  | { readonly outputs: Block; readonly places?: readonly (RunPlace | undefined)[] }
  | { readonly facts: ModelFacts }
  | { readonly failed: ErrorRecord };

/** Facts about a model once it is open. */
export interface ModelFacts {
  readonly inputs: readonly TensorSpec[];
  readonly outputs: readonly TensorSpec[];
  /** True if records may share a run. */
  readonly separable: boolean;
  readonly names: ModelNames;
  readonly image: ImageChoice;
}

/** The process that hosts the model; in a bundle it lies beside this one. */
const CHILD = new URL(
  import.meta.url.endsWith('.ts') ? '../compose/isolated-process.ts' : './isolated-process.mjs',
  import.meta.url,
);

/**
 * The longest opening of a model, in the time that events wait for it. What passes between events does not count: a frozen
 * function makes no progress.
 */
const MOST_OPENING_MS = 15 * 60 * 1000;

export class IsolatedRunner {
  readonly #model: IsolatedModel;
  #started: Started | undefined;
  /** One event at a time, so that a kill does not affect another event's records. */
  #last: Promise<unknown> = Promise.resolve();

  constructor(model: IsolatedModel) {
    this.#model = model;
  }

  /**
   * A process that is not ready in time goes on opening the model, so that the next call finds it further.
   * @param limitMs for everything: the process may have to be started and the model loaded first
   * @throws timeout after `limitMs`, model_failed when the process ended; errors of opening the model
   */
  run(records: readonly Inputs[], limitMs: number): Promise<Outcome[]> {
    const turn = this.#last.then(() => this.#run(records, limitMs));
    this.#last = turn.catch(() => undefined);
    return turn;
  }

  async #run(records: readonly Inputs[], limitMs: number): Promise<Outcome[]> {
    // A process that ended while nothing ran emits nothing any more: a record would wait for it in vain.
    if (!this.#started || hasEnded(this.#started.child)) this.#started = start(this.#model);
    const started = this.#started;
    const beganMs = performance.now();
    let isOpening = !started.isReady;
    try {
      if (isOpening) {
        await within(limitMs, started.ready, 'the process of the model was not ready');
        isOpening = false;
      }
      if (records.length === 0) return [];
      const leftMs = limitMs - (performance.now() - beganMs);
      return await within(leftMs, ask(started.child, records), 'the model did not end', ' on this record');
    } catch (error) {
      const leftMs = limitMs - (performance.now() - beganMs);
      // The model before has ended it, or never opened. This one may well open.
      if (isOpening && started.isTaken && hasEnded(started.child) && leftMs > 0)
        return await this.#run(records, leftMs);
      if (isOpening) started.waitedMs += performance.now() - beganMs;
      const goesOn = isOpening && isTimeout(error) && started.waitedMs < MOST_OPENING_MS;
      if (!goesOn) await this.#end();
      throw error;
    }
  }

  /** Ends the process at once, or leaves one that is still starting to the next model. */
  async close(): Promise<void> {
    const started = this.#started;
    if (!started || !leaveStarting(started)) return this.#end();
    this.#started = undefined;
  }

  async #end(): Promise<void> {
    const child = this.#started?.child;
    this.#started = undefined;
    if (!child || hasEnded(child)) return;
    // Referenced again, because its end must be awaited.
    child.ref();
    const ended = once(child, 'exit');
    child.kill('SIGKILL');
    await ended;
  }
}

function start(model: IsolatedModel): Started {
  const before = takeStarting();
  const child = before?.child ?? startIsolated(model);
  // A run without records ends when the model is open.
  const opened = before ? openAfter(before, model) : ask(child, []);
  const started: Started = {
    child,
    ready: opened.then(() => (started.isReady = true)),
    isReady: false,
    isTaken: before !== undefined,
    waitedMs: before?.waitedMs ?? 0,
  };
  // An event that waits for it gets the error, and so does the next one if none waits now.
  started.ready.catch(() => undefined);
  return started;
}

/** Replies have no names, so the model before has its reply first. */
async function openAfter({ child, ready }: Started, model: IsolatedModel): Promise<Outcome[]> {
  if (await secondsOf(MOST_LEFT_SECONDS, ready)) {
    child.kill('SIGKILL');
    await askProcess(child, { stop: true });
  }
  if (hasEnded(child)) throw new ServingError('timeout', 'the process of the model was not ready');
  child.send({ open: model } satisfies IsolatedRequest, () => undefined);
  return ask(child, []);
}

function isTimeout(error: unknown): boolean {
  return error instanceof ServingError && error.code === 'timeout';
}

let prepared: ChildProcess | undefined;

/** Starts the process of the next model, which loads its code while the caller does other things. */
export function prepareIsolated(): void {
  const child = forkChild();
  prepared = child;
  // One that cannot be started is not used.
  child.on('error', () => undefined);
  setTimeout(() => {
    if (prepared === child) takePrepared()?.kill();
  }, UNUSED_MS).unref();
}

function takePrepared(): ChildProcess | undefined {
  const child = prepared;
  prepared = undefined;
  return child?.connected ? child : undefined;
}

function forkChild(): ChildProcess {
  const child = fork(CHILD, [], { serialization: 'advanced', execArgv: [] });
  // An idle child does not keep the function alive; a pending request does.
  child.unref();
  child.channel?.unref();
  return child;
}

/** Starts the process of a model, which opens it at once; the first reply waits for that. Without one it opens none. */
export function startIsolated(model?: IsolatedModel): ChildProcess {
  const child = takePrepared() ?? forkChild();
  if (model) child.send({ open: model } satisfies IsolatedRequest, () => undefined);
  return child;
}

async function ask(child: ChildProcess, records: readonly Inputs[]): Promise<Outcome[]> {
  const reply = await askProcess(child, { run: packRecords(records), bindings: bindingsOf(records) });
  if ('ended' in reply) {
    throw new ServingError('model_failed', `the model ended its process (${reply.ended})${on(records)}`);
  }
  if ('failed' in reply) throw receivedError(reply.failed);
  const outcomes = receivedOutcomes(reply);
  if (outcomes) return outcomes;
  throw new ServingError('internal', 'the isolated process answered something else');
}

/** @returns the reply, or how the process ended. Leaves no listener behind, however often it is called. */
export function askProcess(
  child: ChildProcess,
  request: IsolatedRequest,
): Promise<IsolatedReply | { readonly ended: string }> {
  if (hasEnded(child)) return Promise.resolve({ ended: howOf(child.exitCode, child.signalCode) });
  return new Promise((resolve) => {
    const settle = (reply: IsolatedReply | { readonly ended: string }) => {
      child.off('message', onMessage);
      child.off('exit', onExit);
      if (child.connected) child.channel?.unref();
      resolve(reply);
    };
    const onMessage = (message: unknown) => settle(message as IsolatedReply);
    const onExit = (code: number | null, signal: string | null) => settle({ ended: howOf(code, signal) });
    child.on('message', onMessage);
    child.on('exit', onExit);
    child.channel?.ref();
    child.send(request, () => undefined);
  });
}

/** How a process ended, in words. */
export function howOf(code: number | null, signal: string | null): string {
  return signal === null ? `exit code ${code}` : signal;
}

/** Without records the model is only opened. */
function on(records: readonly Inputs[]): string {
  return records.length > 0 ? ' on this record' : '';
}

/** @returns undefined for a reply without outcomes */
export function receivedOutcomes(reply: IsolatedReply): Outcome[] | undefined {
  if ('outputs' in reply) {
    const { outputs: block, places } = reply;
    const placeOf = (row: number) => (places ? places[row] : { row, rows: block.count });
    return unpack(block).map((outputs, i) => ({ ok: true, outputs, place: placeOf(i) }));
  }
  if (!('outcomes' in reply)) return undefined;
  return reply.outcomes.map((sent) => (sent.ok ? sent : { ok: false, error: receivedError(sent.error) }));
}

export function receivedError({ code, message }: ErrorRecord): ServingError {
  return new ServingError(isErrorCode(code) ? code : 'internal', message);
}
