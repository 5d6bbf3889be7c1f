/**
 * Finds the rewrites of onnxruntime that change a model's answers: an optimized session is compared with an unoptimized
 * one on made-up rows, and where they differ, halving finds the harmful rewrite. Runs in a process that can be killed.
 */
import { availableParallelism } from 'node:os';
import type { Tensor, TypedArray } from '../../lib/contract/tensor.ts';
import type { BatchAxis, TensorSpec } from '../../lib/contract/values.ts';
import {
  ALL_REWRITES,
  AS_WRITTEN,
  type BatchAxes,
  type Optimization,
  type Verification,
} from '../../lib/contract/verification.ts';
import { OPTIMIZERS } from '../../lib/inference/optimizers.ts';
import { openSession, RUNTIME, type Session } from '../../lib/inference/session.ts';
import { batchAxisOf, batchSize, withInputAxes, withRanks } from '../../lib/pipeline/batch-axes.ts';
import { firstTaken, madeUpRow, waysToMakeUp } from '../batching/probe-values.ts';
import { stackRows } from '../batching/rows.ts';
import { type GivenShapes, withGivenSizes } from '../check/given-sizes.ts';
import { agree, NO_NOISE, type Noise, noiseOf } from './difference.ts';
import { shownOutputAxes } from './output-axes.ts';

export interface RewritesRequest {
  readonly file: string;
  /** Inputs of unknown rank, which onnxruntime reports as scalars. */
  readonly shapeless: readonly string[];
  /** Inputs and outputs of rank 0. */
  readonly scalars?: readonly string[];
  /** What the user gives where the file leaves sizes free. */
  readonly sizes?: GivenShapes;
  /** Of inputs, by name; 0 for those that are missing. */
  readonly batchAxes?: BatchAxes | undefined;
}

export type RewritesReport = Pick<Verification, 'runtime' | 'comparison' | 'reason'> & {
  /** See shownOutputAxes. */
  readonly outputAxes: BatchAxes;
};

interface Sample {
  readonly feeds: readonly Tensor[];
  readonly answer: readonly Tensor[];
  readonly noise: Noise;
}

/** About how long to search. After it no rewrite is used. */
const SEARCH_MS = 60_000;
/** Of it, for the answers of the model as it is written. */
const PLAIN_MS = SEARCH_MS / 20;
/** Rows of all the kinds that `madeUpRow` makes. */
const MOST_ROWS = 14;
/** With more harmful rewrites than this, none is used. */
const MOST_HARMFUL = 6;
/** The rounding of a float32. */
const ROUNDING = 2 ** -22;

export async function compareRewrites(request: RewritesRequest): Promise<RewritesReport> {
  const until = performance.now() + SEARCH_MS;
  const plain = await plainAnswers(request);
  if (typeof plain === 'string') return notCompared(`no made-up input was accepted (${plain})`);
  const { samples, outputAxes } = plain;
  const agrees = (optimization: Optimization) => answersAgree(request.file, optimization, samples);
  const runtime = { ...RUNTIME, ...(await rightOptimization(agrees, until)) };
  return { runtime, comparison: 'agrees', outputAxes };
}

/** A model whose rewrites nobody compared runs without them. */
export function notCompared(reason: string): RewritesReport {
  return { runtime: { ...RUNTIME, ...AS_WRITTEN }, comparison: 'skipped', reason, outputAxes: {} };
}

interface PlainAnswers {
  readonly samples: readonly Sample[];
  readonly outputAxes: BatchAxes;
}

/** What the model answers as it was written, or the reason why it takes nothing made up. */
async function plainAnswers(request: RewritesRequest): Promise<PlainAnswers | string> {
  const { file, batchAxes } = request;
  const threads = availableParallelism();
  const session = await openSession(file, { threads, optimization: AS_WRITTEN });
  try {
    const inputs = withInputAxes(withRanks(session.inputs, request.scalars), batchAxes);
    const sized = withGivenSizes(inputs, request.shapeless, request.sizes);
    return await firstTaken(waysToMakeUp(sized.inputs, sized.shapeless), async ({ specs, ...way }) => {
      const samples = await samplesOf(session, (row) =>
        specs.map((spec, input) => madeUpRow(spec, { ...way, axis: freeBatchAxis(spec), row, input })),
      );
      const answers = samples.map(({ answer }) => answer);
      const together = await answerTogether(session, specs, samples);
      const ports = { inputs, outputs: session.outputs };
      return { samples, outputAxes: shownOutputAxes(ports, answers, together) };
    });
  } finally {
    await session.close();
  }
}

/** Rows of a run that shows whether outputs have one place for each. */
const TOGETHER = 3;

/** Undefined where a run cannot have several rows, or the model does not take them. */
async function answerTogether(session: Session, specs: readonly TensorSpec[], samples: readonly Sample[]) {
  const axes = specs.map(freeBatchAxis);
  const isFree = specs.every((spec, i) => axes[i] !== 'none' || batchAxisOf(spec) === 'none');
  const taken = samples.slice(0, TOGETHER);
  if (!isFree || axes.every((axis) => axis === 'none') || taken.length < TOGETHER) return undefined;
  const feeds = axes.map((axis, i) => {
    const parts = taken.map((sample) => sample.feeds[i] as Tensor);
    return axis === 'none' ? (parts[0] as Tensor) : stackRows(parts, axis);
  });
  return session.run(feeds).then(
    (outputs) => ({ rows: TOGETHER, outputs }),
    () => undefined,
  );
}

/** Where a made-up row has one place. */
function freeBatchAxis(spec: TensorSpec): BatchAxis {
  return typeof batchSize(spec) === 'string' ? batchAxisOf(spec) : 'none';
}

/** @throws where the model does not take the first row; others that it does not take are left out */
async function samplesOf(session: Session, rowOf: (row: number) => Tensor[]): Promise<Sample[]> {
  const start = performance.now();
  const samples: Sample[] = [];
  for (let row = 0; row < MOST_ROWS; row++) {
    const feeds = rowOf(row);
    try {
      const answer = await session.run(feeds);
      const again = noiseOf(NO_NOISE, answer, await session.run(feeds));
      const noise = noiseOf(again, answer, await session.run(feeds.map(rounded)));
      samples.push({ feeds, answer, noise });
    } catch (error) {
      if (row === 0) throw error;
    }
    if (samples.length >= 4 && performance.now() - start > PLAIN_MS) break;
  }
  return samples;
}

/** The same values, each up or down by a rounding. */
function rounded(tensor: Tensor): Tensor {
  if (tensor.dtype !== 'float32' && tensor.dtype !== 'float64') return tensor;
  const data = (tensor.data as Float32Array | Float64Array).map(
    (value, at) => value * (at % 2 === 0 ? 1 + ROUNDING : 1 - ROUNDING),
  );
  return { ...tensor, data: data as TypedArray };
}

async function answersAgree(
  file: string,
  optimization: Optimization,
  samples: readonly Sample[],
): Promise<boolean> {
  let session: Session | undefined;
  try {
    session = await openSession(file, { threads: availableParallelism(), optimization });
    for (const { feeds, answer, noise } of samples) {
      if (!agree(answer, await session.run(feeds), noise)) return false;
    }
    return true;
  } catch {
    // It opens and runs as it was written, so a rewrite broke it.
    return false;
  } finally {
    await session?.close();
  }
}

/** The harmful rewrites off; all of them where that is not enough. */
export async function rightOptimization(
  agrees: (optimization: Optimization) => Promise<boolean>,
  until: number,
): Promise<Optimization> {
  const without = (disabledOptimizers: readonly string[]) => ({ ...ALL_REWRITES, disabledOptimizers });
  if (await agrees(ALL_REWRITES)) return ALL_REWRITES;
  const harmful: string[] = [];
  while (harmful.length < MOST_HARMFUL && performance.now() < until) {
    harmful.push(await firstHarmful(harmful, (off) => agrees(without(off))));
    if (await agrees(without(harmful))) return without(harmful);
  }
  return AS_WRITTEN;
}

/** The last of the shortest beginning of the list that mends the answers when it is off, besides `known`. */
async function firstHarmful(
  known: readonly string[],
  agreesWithout: (off: readonly string[]) => Promise<boolean>,
): Promise<string> {
  const names = OPTIMIZERS.filter((name) => !known.includes(name));
  let [wrong, right] = [0, names.length];
  while (right - wrong > 1) {
    const middle = (wrong + right) >> 1;
    if (await agreesWithout([...known, ...names.slice(0, middle)])) right = middle;
    else wrong = middle;
  }
  return names[right - 1] as string;
}
