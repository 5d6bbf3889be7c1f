/**
 * onnxruntime alone with a model: the limit, 100 %, and the right answers. Its session has the options of
 * lib/inference/session.ts (threads, no spinning), because otherwise the engines would differ. Feeds are made
 * beforehand: every copy into a tensor is our cost.
 */
import { InferenceSession, Tensor as OrtTensor } from 'onnxruntime-node';
import type { BenchModel } from './models.ts';

/** The elements of an output, which is of float32. */
export function floatsOf(output: { readonly data: unknown } | undefined): Float32Array {
  if (output?.data instanceof Float32Array) return output.data;
  throw new TypeError('expected an output of float32');
}

/** Both sides use as many threads. */
export const THREADS = 1;

type Feed = Record<string, OrtTensor>;

export interface RawModel {
  feed(rows: readonly Float32Array[]): Feed;
  /** The output's values, all rows one after the other. */
  run(feed: Feed): Promise<Float32Array>;
  close(): Promise<void>;
}

/** With the session options of a function. */
export function openSession(path: string): Promise<InferenceSession> {
  return InferenceSession.create(path, {
    intraOpNumThreads: THREADS,
    interOpNumThreads: 1,
    executionMode: 'sequential',
    graphOptimizationLevel: 'all',
    logSeverityLevel: 4,
    extra: { session: { intra_op: { allow_spinning: '0' } } },
  });
}

export async function openRaw(model: BenchModel): Promise<RawModel> {
  const session = await openSession(model.path);
  return {
    feed(rows) {
      const length = rows[0]?.length ?? 0;
      const data = new Float32Array(rows.length * length);
      for (const [i, row] of rows.entries()) data.set(row, i * length);
      return { [model.input]: new OrtTensor('float32', data, [rows.length, ...model.rowShape]) };
    },
    async run(feed) {
      const outputs = await session.run(feed);
      return floatsOf(outputs[model.output]);
    },
    close: () => session.release(),
  };
}

/** Allowed difference of a value, as a share of the largest value of its row (at least of 1). */
const TOLERANCE = 1e-5;

/** @throws when a value is further from the raw answer than 1e-5 */
export function assertSame(actual: ArrayLike<number>, expected: ArrayLike<number>, what: string): void {
  if (actual.length !== expected.length) {
    throw new Error(`${what}: expected ${expected.length} values, got ${actual.length}`);
  }
  const allowed = TOLERANCE * scaleOf(expected);
  for (let i = 0; i < expected.length; i++) {
    // Not >, so that NaN is wrong.
    if (!(Math.abs((actual[i] ?? Number.NaN) - (expected[i] ?? Number.NaN)) <= allowed)) {
      throw new Error(`${what}: value ${i} is ${actual[i]}, raw onnxruntime says ${expected[i]}`);
    }
  }
}

/** @throws when two rows have answers so alike that a mix-up of rows would pass `assertSame` */
function assertTellable(answers: readonly Float32Array[]): void {
  for (const [i, one] of answers.entries()) {
    for (const other of answers.slice(0, i)) {
      const allowed = 100 * TOLERANCE * scaleOf(one);
      if (one.every((value, at) => Math.abs(value - (other[at] ?? Number.NaN)) <= allowed)) {
        throw new Error('two inputs have the same answer; the check of answers would see no mix-up');
      }
    }
  }
}

function scaleOf(values: ArrayLike<number>): number {
  let scale = 1;
  for (let i = 0; i < values.length; i++) scale = Math.max(scale, Math.abs(values[i] ?? 0));
  return scale;
}

/** The raw answer to each row, each run alone. */
export async function answersOf(raw: RawModel, rows: readonly Float32Array[]): Promise<Float32Array[]> {
  const answers: Float32Array[] = [];
  for (const row of rows) answers.push(Float32Array.from(await raw.run(raw.feed([row]))));
  assertTellable(answers);
  return answers;
}

/** The same, of a session that is opened for it. */
export async function answersFor(model: BenchModel, rows: readonly Float32Array[]): Promise<Float32Array[]> {
  const raw = await openRaw(model);
  try {
    return await answersOf(raw, rows);
  } finally {
    await raw.close();
  }
}
