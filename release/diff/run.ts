/** Opens two versions and asks both the same. Runs in a process that can be killed. */
import { modelSettings } from '../../lib/compose/model.ts';
import { openOnnx } from '../../lib/compose/onnx.ts';
import type { JobConfig } from '../../lib/config/job.ts';
import { asError } from '../../lib/contract/errors.ts';
import { elementAt } from '../../lib/contract/present.ts';
import type { Tensor } from '../../lib/contract/tensor.ts';
import type { NamedTensor } from '../../lib/contract/values.ts';
import type { Verification } from '../../lib/contract/verification.ts';
import { openSession, type Session } from '../../lib/inference/session.ts';
import { modelBytes, readFacts } from '../../onnx-import/index.ts';
import { singleRows } from '../../onnx-import/inputs.ts';
import type { GoldenResult } from '../golden/ask.ts';
import type { GoldenRequest } from '../golden/file.ts';
import { runGolden } from '../golden/run.ts';
import { differencesOf, type OutputDifference } from './answers.ts';
import { type Face, faceOf } from './face.ts';

/** A version to compare: its model's file, with all that is beside it. */
export interface Side {
  readonly file: string;
  readonly verification: Verification | undefined;
}

export interface DiffRun {
  readonly before: Side;
  readonly after: Side;
  /** The settings under which both would serve. */
  readonly job: JobConfig;
  /** The golden requests of `before`, which `after` is asked. */
  readonly requests: readonly GoldenRequest[];
}

export interface Diff extends RanDiff {
  /**
   * What opening `after` and running one row adds to a process, as a multiple of what `before` adds. Undefined where onnxruntime itself
   * is most of both.
   */
  readonly memory: number | undefined;
}

interface Refused {
  readonly rows: number;
  /** Those that `before` answers. */
  readonly of: number;
  /** The error of the first. */
  readonly why: string;
}

export interface RanDiff {
  readonly before: Face;
  readonly after: Face;
  /** Undefined where `before` has no golden requests. */
  readonly golden: readonly GoldenResult[] | undefined;
  /** Answers to made-up rows, or why there are none. */
  readonly answers: readonly OutputDifference[] | string;
  /** Made-up rows that `before` answers and `after` does not, where there are any. */
  readonly refused?: Refused;
  /** Those of `after` as multiples of those of `before`: a run of one row, and the bytes of the model. */
  readonly time: number | undefined;
  readonly size: number;
}

const ROWS = 32;
const WARM_UP = 4;
/** A shorter run is below what the clock tells apart. */
const LEAST_MS = 0.2;
/** Until so much time has passed, further rows are asked. */
const LIMIT_MS = 20_000;
/** The same on every machine, so that sums have the same order. */
const THREADS = 1;

/** @throws model_unavailable when one of both does not open */
export async function runDiff(run: DiffRun): Promise<RanDiff> {
  const { before, after, job, requests } = run;
  const faces = [await openedFace(before, job), await openedFace(after, job)] as const;
  const golden =
    requests.length === 0 ? undefined : await runGolden({ ...after, requests, gate: undefined, job });
  const [first, second] = [await bytesOf(before.file), await bytesOf(after.file)];
  const compared = await compareRows(before.file, after.file);
  return {
    before: faces[0],
    after: faces[1],
    golden: golden?.results,
    ...compared,
    size: second / first,
  };
}

async function openedFace({ file, verification }: Side, job: JobConfig): Promise<Face> {
  const runner = await openOnnx(file, 'diff', { ...modelSettings(job, THREADS), verification });
  try {
    return await faceOf(file, runner);
  } finally {
    await runner.close();
  }
}

async function bytesOf(file: string): Promise<number> {
  const { externalFiles } = await readFacts(file);
  return modelBytes(file, externalFiles);
}

type Compared = Pick<RanDiff, 'answers' | 'refused' | 'time'>;

async function compareRows(before: string, after: string): Promise<Compared> {
  const first = await openSession(before, { threads: THREADS });
  try {
    const second = await openSession(after, { threads: THREADS });
    try {
      return await compareSessions(before, first, second);
    } finally {
      await second.close();
    }
  } finally {
    await first.close();
  }
}

/** One row, asked of both. */
interface Pair {
  readonly before: readonly NamedTensor[];
  readonly after: readonly NamedTensor[];
  readonly ms: readonly [before: number, after: number];
}

async function compareSessions(file: string, first: Session, second: Session): Promise<Compared> {
  const places = second.inputs.map(({ name }) => first.inputs.findIndex((input) => input.name === name));
  const missing = second.inputs.find((_, i) => elementAt(places, i, 'places') < 0);
  if (missing) return { answers: `input ${JSON.stringify(missing.name)} is new`, time: undefined };
  const shapeless = (await readFacts(file)).shapelessInputs;
  const rowsOf = (row: number) => singleRows(file, first.inputs, { shapeless }, row);
  const pairs: Pair[] = [];
  const refusals: string[] = [];
  const ask = async (feeds: readonly Tensor[]): Promise<Pair> => {
    const [before, beforeMs] = await timed(() => first.run(feeds));
    const others = places.map((place) => elementAt(feeds, place, 'feeds'));
    const [after, afterMs] = await timed(() => second.run(others)).catch((error: unknown) => {
      refusals.push(asError(error).message);
      throw error;
    });
    return { before, after, ms: [beforeMs, afterMs] };
  };
  const refused = (): Pick<Compared, 'refused'> => {
    const [why] = refusals;
    const rows = refusals.length;
    return why === undefined ? {} : { refused: { rows, of: rows + pairs.length, why } };
  };
  const way = await wayThatRuns(rowsOf(0), ask);
  if (typeof way === 'string') return { answers: way, ...refused(), time: undefined };
  const until = performance.now() + LIMIT_MS;
  for (let row = 0; row < ROWS && (row === 0 || performance.now() < until); row++) {
    const feeds = elementOf(rowsOf(row), way);
    // Some of its values may be out of the range of a table.
    const pair = feeds && (await ask(feeds).catch(() => undefined));
    if (pair) pairs.push(pair);
  }
  const [before, after] = [pairs.map((pair) => pair.before), pairs.map((pair) => pair.after)];
  // The first runs prepare memory.
  const warm = pairs.slice(WARM_UP);
  const [was, is] = ([0, 1] as const).map((side) => median(warm.map(({ ms }) => ms[side])));
  const isLong = was !== undefined && is !== undefined && was > LEAST_MS;
  return { answers: differencesOf(before, after), ...refused(), time: isLong ? is / was : undefined };
}

/** @returns the place of the first row that both models take, or why there is none */
async function wayThatRuns(
  rows: Iterable<readonly Tensor[]>,
  ask: (feeds: readonly Tensor[]) => Promise<Pair>,
): Promise<number | string> {
  let refusal = 'no made-up row runs on both';
  let way = 0;
  for (const feeds of rows) {
    const error = await ask(feeds).then(() => undefined, asError);
    if (!error) return way;
    refusal = `no made-up row runs on both: ${error.message}`;
    way++;
  }
  return refusal;
}

/** Makes up no rows behind it: those of pictures are large. */
function elementOf<T>(values: Iterable<T>, place: number): T | undefined {
  let at = 0;
  for (const value of values) if (at++ === place) return value;
  return undefined;
}

async function timed<T>(work: () => Promise<T>): Promise<readonly [T, number]> {
  const start = performance.now();
  const done = await work();
  return [done, performance.now() - start];
}

function median(values: readonly number[]): number | undefined {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)];
}
