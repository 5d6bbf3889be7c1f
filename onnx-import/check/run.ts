/**
 * Runs an ONNX file and measures it: NaN, the reference, latency and memory. The memory of the process counts as the
 * model's, so nothing else may have run in it (process.ts).
 */
import { availableParallelism } from 'node:os';
import { setImmediate as afterIo } from 'node:timers/promises';
import type { Tensor } from '../../lib/contract/tensor.ts';
import type { NamedTensor, TensorSpec } from '../../lib/contract/values.ts';
import type { Optimization } from '../../lib/contract/verification.ts';
import { openSession, type Session } from '../../lib/inference/session.ts';
import { countNaN, type Tolerance } from '../samples/compare.ts';
import { type GivenShapes, withGivenSizes } from '../samples/given-sizes.ts';
import { hintsOf } from '../samples/hints.ts';
import {
  FILLINGS,
  FREE_SIZES,
  hasFreeSizes,
  isBatchFree,
  madeUpInputs,
  possibleSpecs,
} from '../samples/inputs.ts';
import { firstTaken, madeUpRow, waysToMakeUp } from '../samples/probe-values.ts';
import { type ReferenceReport, referenceTensors, runReference } from '../samples/reference.ts';
import { stackRows } from '../samples/rows.ts';
import { type MemoryReport, measureMemory, peakNow } from './memory.ts';

export interface CheckRequest {
  readonly file: string;
  readonly optimization: Optimization;
  /** Inputs of unknown rank, which onnxruntime reports as scalars. */
  readonly shapeless: readonly string[];
  readonly sizes?: GivenShapes;
  /** The directory or file with reference inputs and outputs. */
  readonly reference?: string | undefined;
  /** The tolerance for the reference. */
  readonly tolerance: Tolerance;
  /** The time limit of latency runs, in ms. 0: one run, without measuring the memory of many rows. */
  readonly measureMs: number;
  /** Whether the service runs rows of several records together, as it does where that is proven. */
  readonly sharesRuns: boolean;
}

interface OutputReport {
  readonly name: string;
  /** The shape in the run with one row. */
  readonly shape: readonly number[];
  /** The number of NaN elements in the run with one row. */
  readonly nan: number;
}

export interface CheckReport {
  readonly inputs: readonly TensorSpec[];
  readonly outputs: readonly TensorSpec[];
  /** Why no made-up input could be run; undefined when one was. */
  readonly notRun: string | undefined;
  readonly produced: readonly OutputReport[];
  readonly reference?: ReferenceReport | undefined;
  readonly measured: {
    readonly loadMs: number;
    /** Latency of one row; absent when nothing could be run. */
    readonly latencyP50Ms?: number;
    /** The growth of the process with the open model, after its runs. */
    readonly memoryGrowthBytes: number;
    /** The peak growth of the process: loading needs more than running. */
    readonly memoryPeakBytes: number;
    /** Memory by rows of a run; absent when no generated inputs were run. */
    readonly memory?: MemoryReport | undefined;
    readonly threads: number;
  };
}

const LATENCY_RUNS = 20;

export async function checkModel(request: CheckRequest): Promise<CheckReport> {
  const threads = availableParallelism();
  const references = request.reference === undefined ? undefined : await referenceTensors(request.reference);
  const before = process.memoryUsage.rss();
  const start = performance.now();
  const session = await openSession(request.file, { threads, optimization: request.optimization });
  const loadMs = performance.now() - start;
  try {
    const first = await firstRun(session, request);
    const taken = typeof first === 'string' ? undefined : first;
    const one = taken?.outputs ?? [];
    const { measureMs, sharesRuns } = request;
    const alone = taken ? await measureLatency(session, taken.feeds, measureMs) : undefined;
    // A peak only rises, so each is read before anything larger runs.
    const peakBytes = peakNow(before);
    const memory =
      taken && measureMs > 0
        ? await measureMemory(session, { ...taken, isShared: sharesRuns, before, peakBytes })
        : undefined;
    const atOnce = {
      growthBytes: Math.max(0, process.memoryUsage.rss() - before),
      peakBytes: peakNow(before),
    };
    // Runs after the memory is measured, because a reference may have any number of rows.
    const reference =
      references && (await runReference(session, references, request.tolerance, request.shapeless));
    const latency = alone ?? (reference ? await measureLatency(session, reference.feeds, measureMs) : {});
    return {
      inputs: session.inputs,
      outputs: session.outputs,
      notRun: typeof first === 'string' ? first : undefined,
      produced: one.map((output) => ({ name: output.name, shape: output.shape, nan: countNaN(output) })),
      reference: reference?.report,
      measured: {
        loadMs,
        ...latency,
        memoryGrowthBytes: atOnce.growthBytes,
        memoryPeakBytes: atOnce.peakBytes,
        memory,
        threads,
      },
    };
  } finally {
    await session.close();
  }
}

/** Inputs that the model accepted. */
interface Taken {
  readonly outputs: readonly NamedTensor[];
  readonly feeds: readonly Tensor[];
  /** Whether the batch is free. */
  readonly isFree: boolean;
  /** Generates the inputs of other rows. */
  readonly inputsOf: (rows: readonly number[]) => Tensor[];
}

/** Runs one row with the first sizes and values that the model accepts, or returns the reason why none is. */
async function firstRun(
  session: Session,
  request: Pick<CheckRequest, 'file' | 'shapeless' | 'sizes'>,
): Promise<Taken | string> {
  const { inputs, shapeless } = withGivenSizes(session.inputs, request.shapeless, request.sizes);
  const ways = FILLINGS.flatMap((filling) =>
    possibleSpecs(inputs, shapeless).flatMap((specs) =>
      (hasFreeSizes(specs) ? FREE_SIZES : FREE_SIZES.slice(0, 1)).map((sizes) => ({ specs, sizes, filling })),
    ),
  );
  const run = async (specs: readonly TensorSpec[], inputsOf: Taken['inputsOf']) => {
    const feeds = inputsOf([0]);
    return { outputs: await session.run(feeds), feeds, isFree: isBatchFree(specs), inputsOf };
  };
  const taken = await firstTaken(ways, ({ specs, sizes, filling }) =>
    run(specs, (rows) => madeUpInputs(specs, rows, sizes, filling)),
  );
  if (typeof taken !== 'string') return taken;
  // Values that the graph knows, such as texts that are numbers.
  const hints = hintsOf(request.file);
  const other = await firstTaken(waysToMakeUp(inputs, shapeless), ({ specs, ...way }) => {
    const axis = isBatchFree(specs) ? 0 : 'none';
    const rowOf = (spec: TensorSpec, input: number) => (row: number) =>
      madeUpRow(spec, { ...way, hints, axis, row, input });
    return run(specs, (rows) =>
      specs.map((spec, input) => {
        const made = rows.map(rowOf(spec, input));
        return axis === 0 ? stackRows(made, axis) : (made[0] as Tensor);
      }),
    );
  });
  return typeof other === 'string' ? taken : other;
}

/** The first run is not counted: it was the warm-up. */
async function measureLatency(session: Session, feeds: readonly Tensor[], limitMs: number) {
  const times: number[] = [];
  const until = performance.now() + limitMs;
  do {
    const start = performance.now();
    await session.run(feeds);
    times.push(performance.now() - start);
    await afterIo();
  } while (times.length < LATENCY_RUNS && performance.now() < until);
  times.sort((a, b) => a - b);
  return { latencyP50Ms: times[times.length >> 1] as number };
}
