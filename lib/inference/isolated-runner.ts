/**
 * Runs records that may crash or never end in a separate process. onnxruntime runs on the JS thread and cannot be
 * interrupted, and an error inside it can end the process; only killing the process ends an endless run.
 */
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { type ErrorRecord, isErrorCode, ServingError } from '../contract/errors.ts';
import type { Binding, Inputs, ModelNames, Outcome, RunPolicy, TensorSpec } from '../contract/values.ts';
import type { Block } from '../pipeline/block.ts';
import { bindingsOf, packRecords, type SentRecords, unpack } from './packed.ts';
import type { OnnxSettings } from './runner.ts';

export interface IsolatedModel {
  readonly file: string;
  readonly version: string;
  readonly settings: OnnxSettings;
}

/** An outcome as sent between processes, where an error loses its class. */
export type SentOutcome =
  | Extract<Outcome, { ok: true }>
  | { readonly ok: false; readonly error: ErrorRecord };

export type IsolatedRequest =
  | { readonly open: IsolatedModel }
  | {
      readonly run: SentRecords;
      /** By record (packed.ts). */
      readonly bindings?: readonly (Binding | undefined)[] | undefined;
      readonly policy?: RunPolicy;
    }
  /** For the run that is under way: records of it that have not run get a `timeout`. */
  | { readonly stop: true }
  | { readonly describe: true };
export type IsolatedReply =
  | { readonly outcomes: readonly SentOutcome[] }
  /** The outputs of records that all succeeded. */
  | { readonly outputs: Block }
  | { readonly facts: ModelFacts }
  | { readonly failed: ErrorRecord };

/** What is known of a model once it is open. */
export interface ModelFacts {
  readonly inputs: readonly TensorSpec[];
  readonly outputs: readonly TensorSpec[];
  /** Whether records may share a run. */
  readonly separable: boolean;
  readonly names: ModelNames;
}

/** The process that hosts the model; in a bundle it lies beside this one. */
const CHILD = new URL(
  import.meta.url.endsWith('.ts') ? '../compose/isolated-process.ts' : './isolated-process.mjs',
  import.meta.url,
);

export class IsolatedRunner {
  readonly #model: IsolatedModel;
  #child: ChildProcess | undefined;
  /** One event at a time, so that a kill does not affect another event's records. */
  #last: Promise<unknown> = Promise.resolve();

  constructor(model: IsolatedModel) {
    this.#model = model;
  }

  /**
   * @param limitMs for everything: the process may have to be started and the model loaded first
   * @throws timeout after `limitMs`, model_failed when the process ended; errors of opening the model
   */
  run(records: readonly Inputs[], limitMs: number): Promise<Outcome[]> {
    const turn = this.#last.then(() => this.#run(records, limitMs));
    this.#last = turn.catch(() => undefined);
    return turn;
  }

  async #run(records: readonly Inputs[], limitMs: number): Promise<Outcome[]> {
    // One that ended while nothing ran says nothing any more: a record would wait for it in vain.
    if (!this.#child || hasEnded(this.#child)) this.#child = startIsolated(this.#model);
    const child = this.#child;
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<never>((_, reject) => {
      const message = `the model did not end within ${Math.round(limitMs)} ms${on(records)}`;
      timer = setTimeout(() => reject(new ServingError('timeout', message)), limitMs);
    });
    try {
      return await Promise.race([ask(child, records), late]);
    } catch (error) {
      await this.close();
      throw error;
    } finally {
      clearTimeout(timer);
    }
  }

  /** Ends the process at once. */
  async close(): Promise<void> {
    const child = this.#child;
    this.#child = undefined;
    if (!child || hasEnded(child)) return;
    // Referenced again, because its end must be awaited.
    child.ref();
    const ended = once(child, 'exit');
    child.kill('SIGKILL');
    await ended;
  }
}

function hasEnded({ exitCode, signalCode }: ChildProcess): boolean {
  return exitCode !== null || signalCode !== null;
}

/** Ends when no model was opened in it for this time. */
const UNUSED_MS = 10_000;
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

/** Starts the process of a model, which opens it at once; the first reply waits for that. */
export function startIsolated(model: IsolatedModel): ChildProcess {
  const child = takePrepared() ?? forkChild();
  child.send({ open: model } satisfies IsolatedRequest, () => undefined);
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
  if ('outputs' in reply) return unpack(reply.outputs).map((outputs) => ({ ok: true, outputs }));
  if (!('outcomes' in reply)) return undefined;
  return reply.outcomes.map((sent) => (sent.ok ? sent : { ok: false, error: receivedError(sent.error) }));
}

export function receivedError({ code, message }: ErrorRecord): ServingError {
  return new ServingError(isErrorCode(code) ? code : 'internal', message);
}
