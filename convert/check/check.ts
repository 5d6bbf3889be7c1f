/**
 * Reports what a run of an ONNX file showed: it loads, rows agree, no NaN, latency and memory. The model runs in a
 * process of its own (process.ts) with a time limit, which is ended in every case.
 */
import { type ChildProcess, fork } from 'node:child_process';
import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { badModel, isErrorCode } from '../../lib/contract/errors.ts';
import type { Tolerance } from './compare.ts';
import { answerOf, type CheckAnswer, SCRIPT } from './process.ts';
import type { CheckReport, CheckRequest } from './run.ts';

export interface CheckOptions {
  /** Folder with in*.npy and out*.npy, or an .npz. */
  readonly reference?: string | undefined;
  /** For the reference. Default 1e-4 and 1e-3 of the value. */
  readonly tolerance?: Tolerance | undefined;
  /** Longest time for all of it, in ms. Default 300,000. */
  readonly limitMs?: number | undefined;
  /** Inputs whose rank the file does not say. */
  readonly shapeless?: readonly string[] | undefined;
  /** False: only whether it runs, without its latency and the memory of many rows. Default true. */
  readonly measure?: boolean | undefined;
  /** Ends the process that checks. */
  readonly signal?: AbortSignal | undefined;
}

const REFERENCE_TOLERANCE: Tolerance = { atol: 1e-4, rtol: 1e-3 };
const LIMIT_MS = 300_000;
const MEASURE_MS = 1_000;
const MAX_STDERR = 4_096;

/** @throws bad_model with onnxruntime's reason, or when the process ended or took too long; the signal's reason */
export async function checkOnnx(file: string, options: CheckOptions = {}): Promise<CheckReport> {
  const { reference, tolerance = REFERENCE_TOLERANCE, limitMs = LIMIT_MS, shapeless = [], signal } = options;
  const measureMs = options.measure === false ? 0 : MEASURE_MS;
  const request: CheckRequest = { file, shapeless, reference, tolerance, measureMs };
  const script = checkScript();
  signal?.throwIfAborted();
  const answer = await (script ? answerOfProcess(script, request, limitMs, signal) : answerOf(request));
  signal?.throwIfAborted();
  if ('report' in answer) return answer.report;
  const { code, message } = answer.failed;
  // Whatever it was that the model could not do here: it is not a model that serves.
  const isOurs = isErrorCode(code) && code !== 'internal';
  throw badModel(isOurs ? message : `the check failed: ${message}`);
}

/**
 * process.ts in the repository, or the chunk of the installed package that holds it. The deployment bundles us
 * into a file that is gone by now, and may run on a Node without TypeScript: then there is none, and we run it here.
 */
function checkScript(): string | undefined {
  // Before Node 24.2 the started file could not tell that it is the program, and would not answer.
  if (!('main' in import.meta)) return undefined;
  const source = new URL('./process.ts', import.meta.url);
  const places = process.features.typescript ? [source.href, SCRIPT] : [SCRIPT];
  return places.find((place) => existsSync(fileURLToPath(place)));
}

async function answerOfProcess(
  script: string,
  request: CheckRequest,
  limitMs: number,
  signal: AbortSignal | undefined,
): Promise<CheckAnswer> {
  const child = fork(new URL(script), { execArgv: [], stdio: ['ignore', 'ignore', 'pipe', 'ipc'] });
  const end = () => void child.kill('SIGKILL');
  signal?.addEventListener('abort', end, { once: true });
  try {
    return await firstAnswer(child, request, limitMs);
  } finally {
    signal?.removeEventListener('abort', end);
    end();
  }
}

function firstAnswer(child: ChildProcess, request: CheckRequest, limitMs: number): Promise<CheckAnswer> {
  return new Promise((settle) => {
    const fail = (message: string) => settle({ failed: { code: 'bad_model', message } });
    const timer = setTimeout(
      () => fail(`onnxruntime was not done with the model after ${limitMs / 1000} s; it may never end`),
      limitMs,
    );
    let errors = '';
    child.stderr?.on('data', (chunk: Buffer) => {
      if (errors.length < MAX_STDERR) errors += chunk.toString();
    });
    child.once('message', (message) => {
      clearTimeout(timer);
      settle(message as CheckAnswer);
    });
    child.once('error', (error) =>
      fail(`the process that checks the model cannot be started: ${error.message}`),
    );
    child.once('close', (code, signal) => {
      clearTimeout(timer);
      fail(
        `onnxruntime took its process down (${signal ?? `exit code ${code}`})${errors && `: ${errors.trim()}`}`,
      );
    });
    child.send(request, () => undefined);
  });
}
