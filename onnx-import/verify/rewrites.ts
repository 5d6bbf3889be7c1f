/**
 * Finds the rewrites of onnxruntime that change a model's answers: an optimized session is compared with an unoptimized
 * one on made-up rows, and where they differ, halving finds the harmful rewrite. Runs in a process that can be killed.
 */
import type { Tensor } from '../../lib/contract/tensor.ts';
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
import { batchAxisOf, batchSize, withInputAxes, withRanks } from '../../lib/pipeline/batch/batch-axes.ts';
import { compareNodes } from '../classical/compare.ts';
import { agree, NO_NOISE, type Noise, noiseOf, rounded } from '../samples/difference.ts';
import { type GivenShapes, withGivenSizes } from '../samples/given-sizes.ts';
import { hintsOf } from '../samples/hints.ts';
import {
  firstTaken,
  madeUpRow,
  ofOtherLengths,
  rowsOfAllKinds,
  type Way,
  waysToMakeUp,
} from '../samples/probe-values.ts';
import { stackRows } from '../samples/rows.ts';
import { NotFinished, Work } from '../samples/work.ts';
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
  /** Nodes that could not be compared with the specification, with the reason. */
  readonly open: readonly string[];
};

interface Sample {
  readonly feeds: readonly Tensor[];
  readonly answer: readonly Tensor[];
  readonly noise: Noise;
}

/** Sums have one order, whatever the machine. */
const THREADS = 1;
/** Rows in any case, however large a run is. */
const LEAST_ROWS = 4;
/** Operations for what the model answers to rows of one size, about 3 s. */
const PLAIN_WORK = 3e10;
/** For the search of harmful rewrites, about a minute. After it none is used. */
const SEARCH_WORK = 6e11;
/** With more harmful rewrites than this, none is used. */
const MOST_HARMFUL = 6;
/** To find one of them. */
const TRIALS = Math.ceil(Math.log2(OPTIMIZERS.length)) + 1;

/** @throws bad_model for a node that onnxruntime answers wrongly at every level */
export async function compareRewrites(request: RewritesRequest): Promise<RewritesReport> {
  const open = await compareNodes({ file: request.file, isMended: false });
  const work = new Work(request.file);
  try {
    const plain = await plainAnswers(request, work);
    if (typeof plain === 'string') return notCompared(`no made-up input was accepted (${plain})`, open);
    const { samples, outputAxes } = plain;
    const each = (await work.opening()) + samples.reduce((sum, { feeds }) => sum + work.run(feeds), 0);
    const agrees = (optimization: Optimization) => answersAgree(request.file, optimization, samples, work);
    const runtime = { ...RUNTIME, ...(await rightOptimization(agrees, Math.ceil(SEARCH_WORK / each))) };
    return { runtime, comparison: 'agrees', outputAxes, open };
  } catch (error) {
    if (error instanceof NotFinished) return notCompared(error.message, open);
    throw error;
  }
}

/** The report of a model that was not compared: it runs without rewrites. */
export function notCompared(reason: string, open: RewritesReport['open'] = []): RewritesReport {
  return { runtime: { ...RUNTIME, ...AS_WRITTEN }, comparison: 'skipped', reason, outputAxes: {}, open };
}

interface PlainAnswers {
  readonly samples: readonly Sample[];
  readonly outputAxes: BatchAxes;
}

/** What the model answers as it was written, or the reason why it takes nothing made up. */
async function plainAnswers(request: RewritesRequest, work: Work): Promise<PlainAnswers | string> {
  const { file, batchAxes } = request;
  const hints = hintsOf(file);
  const session = await openSession(file, { threads: THREADS, optimization: AS_WRITTEN });
  try {
    const inputs = withInputAxes(withRanks(session.inputs, request.scalars), batchAxes);
    const sized = withGivenSizes(inputs, request.shapeless, request.sizes);
    return await firstTaken(waysToMakeUp(sized.inputs, sized.shapeless), async ({ specs, ...way }) => {
      const rowsIn = (other: Way) => (row: number) =>
        specs.map((spec, input) =>
          madeUpRow(spec, { ...other, hints, axis: freeBatchAxis(spec), row, input }),
        );
      const rows = rowsOfAllKinds(hints);
      const first = await samplesOf(session, rowsIn(way), rows, work);
      const others = await ofOtherLengths(way, specs.some(hasFreeSize), (other) =>
        samplesOf(session, rowsIn(other), rows, work),
      );
      const samples = [first, ...others].flat();
      const answers = samples.map(({ answer }) => answer);
      const together = await answerTogether(session, specs, first);
      const ports = { inputs, outputs: session.outputs };
      return { samples, outputAxes: shownOutputAxes(ports, answers, together) };
    });
  } finally {
    await session.close();
  }
}

/** A size other than the number of rows. */
function hasFreeSize(spec: TensorSpec): boolean {
  return spec.shape.some((dim, axis) => typeof dim === 'string' && axis !== freeBatchAxis(spec));
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
async function samplesOf(
  session: Session,
  rowOf: (row: number) => Tensor[],
  rows: number,
  work: Work,
): Promise<Sample[]> {
  const samples: Sample[] = [];
  let spent = 0;
  for (let row = 0; row < rows; row++) {
    const feeds = rowOf(row);
    try {
      samples.push(await sampleOf(session, feeds));
      if (row === 0) await work.learn(feeds);
    } catch (error) {
      if (row === 0) throw error;
    }
    work.assertInTime();
    spent += RUNS * work.run(feeds);
    if (row + 1 >= LEAST_ROWS && spent > PLAIN_WORK) break;
  }
  return samples;
}

/** Of a sample. */
const RUNS = 4;

async function sampleOf(session: Session, feeds: readonly Tensor[]): Promise<Sample> {
  const answer = await session.run(feeds);
  let noise = noiseOf(NO_NOISE, answer, await session.run(feeds));
  for (const seed of [0, 1]) {
    noise = noiseOf(noise, answer, await session.run(feeds.map((tensor) => rounded(tensor, seed))));
  }
  return { feeds, answer, noise };
}

async function answersAgree(
  file: string,
  optimization: Optimization,
  samples: readonly Sample[],
  work: Work,
): Promise<boolean> {
  work.assertInTime();
  let session: Session | undefined;
  try {
    session = await openSession(file, { threads: THREADS, optimization });
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

/** The harmful rewrites off; all of them where that is not enough, or takes more than so many trials to find out. */
export async function rightOptimization(
  agrees: (optimization: Optimization) => Promise<boolean>,
  mostTrials: number,
): Promise<Optimization> {
  const without = (disabledOptimizers: readonly string[]) => agrees({ ...ALL_REWRITES, disabledOptimizers });
  if (await agrees(ALL_REWRITES)) return ALL_REWRITES;
  const harmful: string[] = [];
  const mostHarmful = Math.min(MOST_HARMFUL, mostTrials / TRIALS);
  while (harmful.length < mostHarmful) {
    harmful.push(await firstHarmful(harmful, without));
    if (await without(harmful)) return { ...ALL_REWRITES, disabledOptimizers: harmful };
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
