/**
 * The parent's side of the process in which models are tried. onnxruntime blocks its thread, so only killing
 * the process ends a run that never ends.
 */
import { type ChildProcess, fork } from 'node:child_process';
import { existsSync } from 'node:fs';
import type { Socket } from 'node:net';
import { fileURLToPath } from 'node:url';
import { badModel, ServingError } from '../../lib/contract/errors.ts';
import { type Variables, variables } from '../../lib/contract/variables.ts';
import { crashText } from './crash.ts';
import { answerOf, type Task, type TaskAnswer, type TaskRequest } from './task.ts';

const MAX_STDERR = 4_096;
const PREPARE_MS = 10_000;
/** A process that was prepared and is not needed ends after this time. */
const UNUSED_MS = 10_000;
/** Of a model that takes more, each request gets a process of its own. */
const LARGE_BYTES = 64 * 1024 * 1024;
/**
 * Once glibc has freed a large block, it keeps such blocks, and each session adds to those before it. With a threshold it
 * gives them back. Not where memory is measured: a function has no threshold.
 */
const GIVE_BACK = { MALLOC_MMAP_THRESHOLD_: `${1024 * 1024}` };

/** The time that a request may take, and what calls it off. */
export interface Limits {
  readonly ms: number;
  readonly signal?: AbortSignal | undefined;
}

/** Loads what is asked for first. */
export const PREPARE: Task<object, object> = { name: 'prepare', run: async () => ({}) };

/** Takes one request after another. What one of a small model leaves in memory stays until `close`. */
export class ModelProcess {
  readonly #script: URL | undefined;
  #child: ChildProcess | undefined;
  #isLarge = false;
  #preparing: Promise<unknown> | undefined;

  /** @param script what the process runs in a checkout. Default: the tasks of a verification */
  constructor(script = new URL('../verify/process.ts', import.meta.url)) {
    this.#script = runnable(script);
  }

  /** Starts the process, which loads its code while the caller does other things. Never throws. */
  prepare(): void {
    if (this.#script === undefined) return;
    this.#preparing = this.ask(PREPARE, {}, { ms: PREPARE_MS }).catch(() => undefined);
  }

  /**
   * Starts the process if none runs. One that exceeds the limit, fails or is called off is killed.
   * @throws what failed, as the process says it; the signal's reason
   */
  async ask<Request extends object, Answer>(
    task: Task<Request, Answer>,
    request: Request,
    { ms, signal }: Limits,
  ): Promise<Answer> {
    await this.#preparing;
    signal?.throwIfAborted();
    const close = () => this.close();
    signal?.addEventListener('abort', close, { once: true });
    try {
      const answer = await this.#answer(task, { name: task.name, request }, ms);
      signal?.throwIfAborted();
      if ('failed' in answer) throw new ServingError(answer.failed.code, answer.failed.message);
      return answer.done as Answer;
    } finally {
      signal?.removeEventListener('abort', close);
    }
  }

  async #answer(task: Task<never, unknown>, request: TaskRequest, ms: number): Promise<TaskAnswer> {
    if (this.#script === undefined) return answerOf(task.run, request);
    const { measureMs = 0 } = request.request as { readonly measureMs?: number };
    const isMeasured = measureMs > 0;
    // What ran before would count as its memory.
    if (isMeasured) this.close();
    this.#child ??= start(this.#script, isMeasured ? {} : GIVE_BACK);
    const { answer, isAlive, signal } = await answerWithin(this.#child, request, ms);
    this.#isLarge ||= isLarge(answer);
    if (!isAlive || this.#isLarge) this.close();
    // Made-up values are the same again, so that it ends at the same place.
    const isCrash = signal !== undefined && signal !== 'SIGKILL' && !request.isTraced;
    return isCrash ? this.#answer(task, { ...request, isTraced: true }, ms) : answer;
  }

  close(): void {
    this.#child?.kill('SIGKILL');
    this.#child = undefined;
  }
}

/**
 * Asks the process that is given, or one of its own.
 * @throws bad_model with the reason when there is none: whatever failed, the model cannot be served; the signal's reason
 */
export async function inModelProcess<Request extends object, Answer>(
  task: Task<Request, Answer>,
  request: Request,
  limits: Limits,
  given?: ModelProcess,
): Promise<Answer> {
  try {
    return await withModelProcess(given, (process) => process.ask(task, request, limits));
  } catch (error) {
    limits.signal?.throwIfAborted();
    const { code, message } = ServingError.from(error);
    throw badModel(code === 'internal' ? `the check failed: ${message}` : message);
  }
}

let prepared: ModelProcess | undefined;

/** Prepares the process of the next verification. */
export function prepareModelProcess(process = new ModelProcess()): void {
  prepared = process;
  process.prepare();
  setTimeout(() => {
    if (prepared === process) takePrepared()?.close();
  }, UNUSED_MS).unref();
}

function takePrepared(): ModelProcess | undefined {
  const process = prepared;
  prepared = undefined;
  return process;
}

/** Calls `work` with the process that is given, or with one of its own, which ends with it. */
export async function withModelProcess<T>(
  given: ModelProcess | undefined,
  work: (process: ModelProcess) => Promise<T>,
  make = () => new ModelProcess(),
): Promise<T> {
  const process = given ?? takePrepared() ?? make();
  try {
    return await work(process);
  } finally {
    if (!given) process.close();
  }
}

/**
 * The file in a checkout, or what is built of it beside this code in a package. A deployment bundles this code into a
 * temporary file; then there is none, and the model runs in this process.
 */
function runnable(script: URL): URL | undefined {
  const isSource = import.meta.url.endsWith('.ts');
  if (isSource && !process.features.typescript) return undefined;
  const url = isSource ? script : new URL('./model-process.mjs', import.meta.url);
  return existsSync(fileURLToPath(url)) ? url : undefined;
}

function isLarge(answer: TaskAnswer): boolean {
  if (!('done' in answer)) return false;
  const { measured } = answer.done as { readonly measured?: { readonly memoryPeakBytes: number } };
  return measured !== undefined && measured.memoryPeakBytes > LARGE_BYTES;
}

function start(script: URL, more: Variables): ChildProcess {
  const env = { ...variables, ...more };
  const child = fork(script, { execArgv: [], env, stdio: ['ignore', 'ignore', 'pipe', 'ipc'] });
  // The time limit of a request keeps this process alive, and nothing else of its child.
  child.unref();
  child.channel?.unref();
  (child.stderr as Socket | null)?.unref();
  // One that fails between two requests is reported by the next.
  return child.on('error', () => undefined);
}

interface ChildAnswer {
  readonly answer: TaskAnswer;
  /** False: the process cannot take another request. */
  readonly isAlive: boolean;
  /** What ended it. */
  readonly signal?: NodeJS.Signals;
}

function answerWithin(child: ChildProcess, request: TaskRequest, limitMs: number): Promise<ChildAnswer> {
  const listening = new AbortController();
  return new Promise<ChildAnswer>((settle) => {
    const fail = (message: string, more: { isTimeout?: boolean; signal?: NodeJS.Signals } = {}) => {
      const { isTimeout = false, ...ended } = more;
      const failed = { code: isTimeout ? 'timeout' : 'bad_model', message } as const;
      settle({ answer: { failed }, isAlive: false, ...ended });
    };
    const timer = setTimeout(
      () =>
        fail(`onnxruntime did not finish with the model within ${limitMs / 1000} s; it may never end`, {
          isTimeout: true,
        }),
      limitMs,
    );
    let errors = '';
    const onErrors = (chunk: Buffer) => {
      errors = `${errors}${chunk.toString()}`.slice(-MAX_STDERR);
    };
    const onMessage = (answer: unknown) => settle({ answer: answer as TaskAnswer, isAlive: true });
    const onError = (error: Error) =>
      fail(`the process that checks the model cannot be started: ${error.message}`);
    const onClose = (code: number | null, signal: NodeJS.Signals | null) => {
      if (signal === null)
        return fail(`onnxruntime ended its process (exit code ${code})${errors && `: ${errors.trim()}`}`);
      const { file } = request.request as { readonly file?: string };
      return fail(crashText(signal, errors, file), { signal });
    };
    child.stderr?.on('data', onErrors);
    child.once('message', onMessage).once('error', onError).once('close', onClose);
    listening.signal.addEventListener('abort', () => {
      clearTimeout(timer);
      child.stderr?.off('data', onErrors);
      child.off('message', onMessage).off('error', onError).off('close', onClose);
    });
    child.send(request, () => undefined);
  }).finally(() => listening.abort());
}
