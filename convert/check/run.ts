/**
 * Runs an ONNX file and measures it: whether rows of a batch agree, NaN, the reference, latency and memory. The memory
 * of this process is taken for the model's, so nothing else may happen in it (process.ts).
 */
import { availableParallelism } from 'node:os';
import { setImmediate as afterIo } from 'node:timers/promises';
import type { Tensor } from '../../lib/contract/tensor.ts';
import type { NamedTensor, TensorSpec } from '../../lib/contract/values.ts';
import { openSession, type Session } from '../../lib/inference/session.ts';
import { compare, countNaN, type Difference, rowOf, type Tolerance } from './compare.ts';
import { FILLINGS, FREE_SIZES, isBatchFree, madeUpInputs, possibleSpecs } from './inputs.ts';
import { type MemoryReport, measureMemory, peakNow } from './memory.ts';
import { messageOf, type ReferenceReport, referenceTensors, runReference } from './reference.ts';

export interface CheckRequest {
  readonly file: string;
  /** Inputs whose rank the file does not say; onnxruntime calls them scalars. */
  readonly shapeless: readonly string[];
  /** Folder or file of reference inputs and outputs. */
  readonly reference?: string | undefined;
  /** For the reference. */
  readonly tolerance: Tolerance;
  /** Longest time for the latency's runs, in ms; 0: one run, and the memory of many rows is not measured. */
  readonly measureMs: number;
}

/** What became of two rows in one run. */
export type BatchReport =
  /** The file fixes the number of rows of a run. */
  | { readonly kind: 'fixed' }
  /** Both rows came out as they do alone. */
  | { readonly kind: 'agrees'; readonly maxError: number | null }
  | { readonly kind: 'differs'; readonly output: string; readonly maxError: number | null }
  /** Two rows cannot be run at all, one can. */
  | { readonly kind: 'fails'; readonly reason: string }
  /** The outputs do not count the rows: records run one by one. */
  | { readonly kind: 'does not follow' }
  /** The same input gives something else each time: the model draws random numbers. */
  | { readonly kind: 'random' }
  /** No made-up inputs were run. */
  | { readonly kind: 'not run'; readonly reason: string };

interface OutputReport {
  readonly name: string;
  /** Of the run with one row. */
  readonly shape: readonly number[];
  /** Elements that are NaN, of the run with one row. */
  readonly nan: number;
}

export interface CheckReport {
  readonly inputs: readonly TensorSpec[];
  readonly outputs: readonly TensorSpec[];
  readonly batch: BatchReport;
  readonly produced: readonly OutputReport[];
  readonly reference?: ReferenceReport | undefined;
  readonly measured: {
    readonly loadMs: number;
    /** Of one row; absent when nothing could be run. */
    readonly latencyP50Ms?: number;
    /** What the process grew by, with the model open and after its runs. */
    readonly memoryGrowthBytes: number;
    /** The largest it ever was above the beginning: loading needs more than running. */
    readonly memoryPeakBytes: number;
    /** By rows of a run; absent when no made-up inputs were run. */
    readonly memory?: MemoryReport | undefined;
    readonly threads: number;
  };
}

/** Batched sums run in another order: 1e-6 is usual, 1e-3 of the value is not. */
const ROW_TOLERANCE: Tolerance = { atol: 1e-4, rtol: 1e-3 };
const LATENCY_RUNS = 20;

export async function checkModel(request: CheckRequest): Promise<CheckReport> {
  const threads = availableParallelism();
  const references = request.reference === undefined ? undefined : await referenceTensors(request.reference);
  const before = process.memoryUsage.rss();
  const start = performance.now();
  const session = await openSession(request.file, { threads });
  const loadMs = performance.now() - start;
  try {
    const first = await firstRun(session, request.shapeless);
    const taken = typeof first === 'string' ? undefined : first;
    const one = taken?.outputs ?? [];
    const { measureMs } = request;
    const alone = taken ? await measureLatency(session, taken.feeds, measureMs) : undefined;
    // A peak only rises: each is read before anything larger is run.
    const peakBytes = peakNow(before);
    const batch: BatchReport = taken
      ? await runRows(session, taken)
      : { kind: 'not run', reason: first as string };
    const memory =
      taken && measureMs > 0
        ? await measureMemory(session, { ...taken, isShared: isShared(batch), before, peakBytes })
        : undefined;
    const atOnce = {
      growthBytes: Math.max(0, process.memoryUsage.rss() - before),
      peakBytes: peakNow(before),
    };
    // Last of what takes memory: it has as many rows as it likes.
    const reference =
      references && (await runReference(session, references, request.tolerance, request.shapeless));
    const latency = alone ?? (reference ? await measureLatency(session, reference.feeds, measureMs) : {});
    return {
      inputs: session.inputs,
      outputs: session.outputs,
      batch,
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

/** Where rows differ or do not run together, the import sees to it that each runs alone. */
function isShared({ kind }: BatchReport): boolean {
  return kind === 'agrees' || kind === 'random';
}

/** Inputs that the model took. */
interface Taken {
  readonly outputs: readonly NamedTensor[];
  readonly feeds: readonly Tensor[];
  /** Whether its batch is free. */
  readonly isFree: boolean;
  /** The same for other rows. */
  readonly inputsOf: (rows: readonly number[]) => Tensor[];
}

/** One row, with the first of the sizes and fillings that the model takes; else the reason why none fits. */
async function firstRun(session: Session, shapeless: readonly string[]): Promise<Taken | string> {
  const tried = new Set<string>();
  let reason: string | undefined;
  const ways = FILLINGS.flatMap((filling) =>
    possibleSpecs(session.inputs, shapeless).flatMap((specs) =>
      FREE_SIZES.map((sizes) => ({ specs, sizes, filling })),
    ),
  );
  for (const { specs, sizes, filling } of ways) {
    try {
      const inputsOf = (rows: readonly number[]) => madeUpInputs(specs, rows, sizes, filling);
      const feeds = inputsOf([0]);
      const signature = `${filling} ${feeds.map(({ shape }) => shape.join('x')).join()}`;
      if (tried.has(signature)) continue;
      tried.add(signature);
      return { outputs: await session.run(feeds), feeds, isFree: isBatchFree(specs), inputsOf };
    } catch (error) {
      // Of several reasons the first: it is about the likeliest sizes.
      reason ??= messageOf(error);
    }
  }
  return reason ?? 'no size fits';
}

/** Rows 0 and 1 in one run, and each alone. */
async function runRows(session: Session, { outputs, feeds, isFree, inputsOf }: Taken): Promise<BatchReport> {
  if (!isFree) return { kind: 'fixed' };
  let both: readonly NamedTensor[];
  try {
    both = await session.run(inputsOf([0, 1]));
  } catch (error) {
    return { kind: 'fails', reason: messageOf(error) };
  }
  const follows = both.every((output, i) => output.shape[0] === 2 && outputs[i]?.shape[0] === 1);
  if (!follows) return { kind: 'does not follow' };
  const other = await session.run(inputsOf([1]));
  let worst: number | null = 0;
  for (const [i, output] of both.entries()) {
    for (const [row, alone] of [outputs[i], other[i]].entries()) {
      const { agrees, maxError }: Difference = compare(rowOf(output, row), alone as Tensor, ROW_TOLERANCE);
      if (!agrees) {
        const again = await session.run(feeds);
        const isSame = outputs.every(
          (before, at) => compare(again[at] as Tensor, before, ROW_TOLERANCE).agrees,
        );
        return isSame ? { kind: 'differs', output: output.name, maxError } : { kind: 'random' };
      }
      if (maxError !== null && maxError > worst) worst = maxError;
    }
  }
  return { kind: 'agrees', maxError: worst };
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
