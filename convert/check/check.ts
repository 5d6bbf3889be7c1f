/**
 * Checks an ONNX file by running it: it loads, no NaN, latency and memory. The model runs in a separate
 * process with a time limit (process.ts), which is always ended.
 */
import { type ChildProcess, fork } from 'node:child_process';
import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { badModel, isErrorCode } from '../../lib/contract/errors.ts';
import type { Tolerance } from './compare.ts';
import { answerOf, type ModelAnswer, type ModelRequest, SCRIPT } from './process.ts';
import type { CheckReport, CheckRequest } from './run.ts';

export interface CheckOptions {
  /** A directory with in*.npy and out*.npy, or an .npz file. */
  readonly reference?: string | undefined;
  /** The tolerance for the reference. Default: 1e-4 absolute and 1e-3 relative. */
  readonly tolerance?: Tolerance | undefined;
  /** The time limit of the whole check, in ms. Default 300,000. */
  readonly limitMs?: number | undefined;
  /** Inputs of unknown rank. */
  readonly shapeless?: readonly string[] | undefined;
  /** False checks only whether the model runs, without latency and the memory of many rows. Default true. */
  readonly measure?: boolean | undefined;
  /** Whether rows of several records run together; their memory is measured then. Default false. */
  readonly sharesRuns?: boolean | undefined;
  /** Ends the checking process. */
  readonly signal?: AbortSignal | undefined;
}

const REFERENCE_TOLERANCE: Tolerance = { atol: 1e-4, rtol: 1e-3 };
const LIMIT_MS = 300_000;
const MEASURE_MS = 1_000;
const MAX_STDERR = 4_096;

/**
 * @throws bad_model with onnxruntime's reason, or when the process ended or exceeded the limit; the signal's reason
 * when aborted
 */
export async function checkOnnx(file: string, options: CheckOptions = {}): Promise<CheckReport> {
  const { reference, tolerance = REFERENCE_TOLERANCE, limitMs = LIMIT_MS, shapeless = [], signal } = options;
  const { sharesRuns = false } = options;
  const measureMs = options.measure === false ? 0 : MEASURE_MS;
  const request: CheckRequest = { file, shapeless, reference, tolerance, measureMs, sharesRuns };
  signal?.throwIfAborted();
  const answer = await inModelProcess({ check: request }, limitMs, signal);
  signal?.throwIfAborted();
  if ('report' in answer) return answer.report;
  const { code, message } =
    'failed' in answer ? answer.failed : { code: 'internal', message: 'it gave no report' };
  // Any other failure also means that the model cannot be served.
  const isOurs = isErrorCode(code) && code !== 'internal';
  throw badModel(isOurs ? message : `the check failed: ${message}`);
}

/** The answer of a separate process, which ends with it, and in any case after `limitMs`. */
export async function inModelProcess(
  request: ModelRequest,
  limitMs: number,
  signal: AbortSignal | undefined,
): Promise<ModelAnswer> {
  const script = checkScript();
  return script ? answerOfProcess(script, request, limitMs, signal) : answerOf(request);
}

/**
 * The URL of process.ts in a checkout, or of its chunk in the installed package. A deployment bundles this code into
 * a temporary file and may use a Node without TypeScript; then there is none, and the check runs in this process.
 */
function checkScript(): string | undefined {
  // Before Node 24.2 a script cannot know that it is the main program, so it would not answer.
  if (!('main' in import.meta)) return undefined;
  const source = new URL('./process.ts', import.meta.url);
  const places = process.features.typescript ? [source.href, SCRIPT] : [SCRIPT];
  return places.find((place) => existsSync(fileURLToPath(place)));
}

async function answerOfProcess(
  script: string,
  request: ModelRequest,
  limitMs: number,
  signal: AbortSignal | undefined,
): Promise<ModelAnswer> {
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

function firstAnswer(child: ChildProcess, request: ModelRequest, limitMs: number): Promise<ModelAnswer> {
  return new Promise((settle) => {
    const fail = (message: string) => settle({ failed: { code: 'bad_model', message } });
    const timer = setTimeout(
      () => fail(`onnxruntime did not finish with the model within ${limitMs / 1000} s; it may never end`),
      limitMs,
    );
    let errors = '';
    child.stderr?.on('data', (chunk: Buffer) => {
      if (errors.length < MAX_STDERR) errors += chunk.toString();
    });
    child.once('message', (message) => {
      clearTimeout(timer);
      settle(message as ModelAnswer);
    });
    child.once('error', (error) =>
      fail(`the process that checks the model cannot be started: ${error.message}`),
    );
    child.once('close', (code, signal) => {
      clearTimeout(timer);
      fail(
        `onnxruntime ended its process (${signal ?? `exit code ${code}`})${errors && `: ${errors.trim()}`}`,
      );
    });
    child.send(request, () => undefined);
  });
}
