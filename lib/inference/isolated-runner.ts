/**
 * Runs records that may be deadly in a process of its own. onnxruntime runs on the JS thread and cannot be interrupted,
 * and an error inside it can end the process; only killing the process ends an endless run.
 */
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { type ErrorRecord, isErrorCode, ServingError } from '../contract/errors.ts';
import type { Inputs, Outcome } from '../contract/values.ts';
import type { OnnxSettings } from './runner.ts';

export interface IsolatedModel {
  readonly file: string;
  readonly version: string;
  readonly settings: OnnxSettings;
}

/** An outcome as it crosses the process: an error loses its class. */
export type SentOutcome =
  | Extract<Outcome, { ok: true }>
  | { readonly ok: false; readonly error: ErrorRecord };

export type IsolatedRequest = { readonly open: IsolatedModel } | { readonly run: readonly Inputs[] };
export type IsolatedReply = { readonly outcomes: readonly SentOutcome[] } | { readonly failed: ErrorRecord };

/** The process that hosts the model; in a bundle it lies beside this one. */
const CHILD = new URL(
  import.meta.url.endsWith('.ts') ? '../compose/isolated-process.ts' : './isolated-process.mjs',
  import.meta.url,
);

export class IsolatedRunner {
  readonly #model: IsolatedModel;
  #child: ChildProcess | undefined;
  /** One event at a time: a kill must not take another event's records along. */
  #last: Promise<unknown> = Promise.resolve();

  constructor(model: IsolatedModel) {
    this.#model = model;
  }

  /**
   * @param limitMs of the whole: the process may have to be started and the model loaded first
   * @throws timeout after `limitMs`, model_failed when the process died; what opening the model throws
   */
  run(records: readonly Inputs[], limitMs: number): Promise<Outcome[]> {
    const turn = this.#last.then(() => this.#run(records, limitMs));
    this.#last = turn.catch(() => undefined);
    return turn;
  }

  async #run(records: readonly Inputs[], limitMs: number): Promise<Outcome[]> {
    this.#child ??= start(this.#model);
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

  /** Ends the process, whatever it does. */
  async close(): Promise<void> {
    const child = this.#child;
    this.#child = undefined;
    if (!child || child.exitCode !== null || child.signalCode !== null) return;
    // Its end is worth waiting for, so it counts again.
    child.ref();
    const ended = once(child, 'exit');
    child.kill('SIGKILL');
    await ended;
  }
}

function start(model: IsolatedModel): ChildProcess {
  const child = fork(CHILD, [], { serialization: 'advanced', execArgv: [] });
  // A function that ends does not wait for it; what it is asked keeps the caller waiting.
  child.unref();
  child.channel?.unref();
  child.send({ open: model } satisfies IsolatedRequest, () => undefined);
  return child;
}

async function ask(child: ChildProcess, records: readonly Inputs[]): Promise<Outcome[]> {
  const stop = new AbortController();
  child.channel?.ref();
  try {
    const answer = Promise.race([
      once(child, 'message', stop).then(([message]) => message as IsolatedReply),
      once(child, 'exit', stop).then(([code, signal]): IsolatedReply => {
        const how = signal === null ? `exit code ${code}` : String(signal);
        const message = `the model ended its process (${how})${on(records)}`;
        return { failed: { code: 'model_failed', message } };
      }),
    ]);
    child.send({ run: records } satisfies IsolatedRequest, () => undefined);
    const told = await answer;
    if ('failed' in told) throw errorOf(told.failed);
    return told.outcomes.map((outcome) =>
      outcome.ok ? outcome : { ok: false, error: errorOf(outcome.error) },
    );
  } finally {
    stop.abort();
    if (child.connected) child.channel?.unref();
  }
}

/** Without records it is only opened. */
function on(records: readonly Inputs[]): string {
  return records.length > 0 ? ' on this record' : '';
}

function errorOf({ code, message }: ErrorRecord): ServingError {
  return new ServingError(isErrorCode(code) ? code : 'internal', message);
}
