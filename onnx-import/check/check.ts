/**
 * Checks an ONNX file by running it: it loads, no NaN, latency and memory. The model runs in a separate process with a
 * time limit.
 */
import { AS_WRITTEN, type Optimization } from '../../lib/contract/verification.ts';
import { inModelProcess, type ModelProcess } from '../process/model-process.ts';
import type { Task } from '../process/task.ts';
import type { Tolerance } from '../samples/compare.ts';
import type { GivenShapes } from '../samples/given-sizes.ts';
import type { CheckReport, CheckRequest } from './run.ts';

export interface CheckOptions {
  /** Default: as the model is written. */
  readonly optimization?: Optimization | undefined;
  /** A directory with in*.npy and out*.npy, or an .npz file. */
  readonly reference?: string | undefined;
  /** The tolerance for the reference. Default: 1e-4 absolute and 1e-3 relative. */
  readonly tolerance?: Tolerance | undefined;
  /** The time limit of the whole check, in ms. Default 300,000. */
  readonly limitMs?: number | undefined;
  /** Inputs of unknown rank. */
  readonly shapeless?: readonly string[] | undefined;
  /** Of inputs, where the file leaves sizes free. */
  readonly sizes?: GivenShapes;
  /** False checks only whether the model runs, without latency and the memory of many rows. Default true. */
  readonly measure?: boolean | undefined;
  /** Whether rows of several records run together; their memory is measured then. Default false. */
  readonly sharesRuns?: boolean | undefined;
  /** Ends the checking process. */
  readonly signal?: AbortSignal | undefined;
  /** Where the model runs. Default: a process of its own. */
  readonly process?: ModelProcess | undefined;
}

export const CHECK: Task<CheckRequest, CheckReport> = {
  name: 'check',
  run: async (request) => (await import('./run.ts')).checkModel(request),
};

const REFERENCE_TOLERANCE: Tolerance = { atol: 1e-4, rtol: 1e-3 };
const LIMIT_MS = 300_000;
const MEASURE_MS = 1_000;

/**
 * @throws bad_model with onnxruntime's reason, or when the process ended or exceeded the limit; the signal's reason
 * when aborted
 */
export async function checkOnnx(file: string, options: CheckOptions = {}): Promise<CheckReport> {
  const { reference, tolerance = REFERENCE_TOLERANCE, limitMs = LIMIT_MS, shapeless = [], signal } = options;
  const { optimization = AS_WRITTEN, sharesRuns = false, process, sizes } = options;
  const measureMs = options.measure === false ? 0 : MEASURE_MS;
  const request = { file, optimization, shapeless, sizes, reference, tolerance, measureMs, sharesRuns };
  return inModelProcess(CHECK, request, { ms: limitMs, signal }, process);
}
