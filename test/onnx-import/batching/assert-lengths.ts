/**
 * Runs random models of sequences: each record alone and in company, as the model is written and as onnxruntime rewrites
 * it. A proven model answers each record alike in all of them, any other alone in both.
 */
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import type { Tensor } from '../../../lib/contract/tensor.ts';
import { ALL_REWRITES, AS_WRITTEN } from '../../../lib/contract/verification.ts';
import { openSession, type Session } from '../../../lib/inference/session.ts';
import { readModel } from '../../../onnx-import/batching/model.ts';
import { proofOf } from '../../../onnx-import/batching/proof.ts';
import { rowAt, stackRows } from '../../../onnx-import/batching/rows.ts';
import { valuesOf } from '../../../onnx-import/tensor-values.ts';
import { temporaryFolder } from '../../support/runner.ts';
import { random } from './random-graphs.ts';
import { LENGTHS, randomSequenceModel, randomSequences } from './sequences.ts';

/** Times the answer's own change under a change of the input in its last bits. */
const OF_NOISE = 30;
const RELATIVE = 1e-4;
const OF_LARGEST = 1e-5;
const NOISES = 4;

async function run(session: Session, row: Tensor): Promise<Tensor> {
  return (await session.run([row]))[0] as Tensor;
}

/** What each element may differ by: what rounding its input does to it, and a little. */
async function tolerancesOf(session: Session, row: Tensor, answer: Tensor): Promise<number[]> {
  const next = random(row.data.length);
  const want = Array.from(valuesOf(answer), Number);
  const largest = Math.max(...want.map(Math.abs).filter(Number.isFinite), 0);
  const tolerances = want.map((value) => RELATIVE * Math.abs(value) + OF_LARGEST * largest);
  for (let i = 0; i < NOISES; i++) {
    const data = (row.data as Float32Array).map((value) => value * (1 + (next() - 0.5) * 2 ** -21));
    const noisy = Array.from(
      valuesOf(await run(session, { dtype: 'float32', shape: row.shape, data })),
      Number,
    );
    for (const [at, value] of noisy.entries())
      tolerances[at] = Math.max(tolerances[at] as number, OF_NOISE * Math.abs(value - (want[at] as number)));
  }
  return tolerances;
}

function difference(got: Tensor, want: Tensor, tolerances: readonly number[]): string | undefined {
  if (got.shape.join() !== want.shape.join()) return `shape ${got.shape.join()} for ${want.shape.join()}`;
  const [a, b] = [valuesOf(got), valuesOf(want)];
  for (const [at, tolerance] of tolerances.entries()) {
    const [x, y] = [Number(a[at]), Number(b[at])];
    if (!Object.is(x, y) && x !== y && !(Math.abs(x - y) <= tolerance)) return `${x} for ${y} at ${at}`;
  }
  return undefined;
}

interface Checked {
  /** A record in company that differs, without rewrites or with them. */
  readonly company: string | undefined;
  /** A record alone that differs with rewrites. */
  readonly optimized: string | undefined;
}

/** @returns undefined where the model takes none of the lengths */
async function check(file: string, seed: number): Promise<Checked | undefined> {
  const plain = await openSession(file, { threads: 1, optimization: AS_WRITTEN });
  const optimized = await openSession(file, { threads: 1, optimization: ALL_REWRITES });
  const found: { -readonly [Key in keyof Checked]: Checked[Key] } = {
    company: undefined,
    optimized: undefined,
  };
  let taken = 0;
  try {
    for (const length of LENGTHS) {
      const rows = randomSequences(seed, length);
      const alone: Tensor[] = [];
      try {
        for (const row of rows) alone.push(await run(plain, row));
      } catch {
        continue;
      }
      taken += 1;
      const tolerances: number[][] = [];
      for (const [i, row] of rows.entries())
        tolerances.push(await tolerancesOf(plain, row, alone[i] as Tensor));
      const differ = (got: Tensor, i: number, what: string) => {
        const problem = difference(got, alone[i] as Tensor, tolerances[i] as number[]);
        return problem && `record ${i} of length ${length} ${what}: ${problem}`;
      };
      for (const [i, row] of rows.entries())
        found.optimized ??= differ(await run(optimized, row), i, 'alone, optimized');
      for (const [name, session] of [
        ['plain', plain],
        ['optimized', optimized],
      ] as const) {
        for (const order of [
          [0, 1],
          [3, 2, 1, 0],
          [2, 3, 2],
        ]) {
          const what = `among ${order.join()}, ${name}`;
          const together = await run(
            session,
            stackRows(
              order.map((at) => rows[at] as Tensor),
              0,
            ),
          ).catch(String);
          if (typeof together === 'string' || together.shape[0] !== order.length) {
            found.company ??= `${what}: ${typeof together === 'string' ? together : together.shape.join()}`;
            continue;
          }
          for (const [place, i] of order.entries())
            found.company ??= differ(rowAt(together, 0, place), i, what);
        }
      }
    }
  } finally {
    await plain.close();
    await optimized.close();
  }
  return taken === 0 ? undefined : found;
}

export async function assertLengthsAgree(t: TestContext, { from, count }: { from: number; count: number }) {
  const file = join(await temporaryFolder(t), 'model.onnx');
  const found = { proven: 0, mixing: 0, apart: 0, invalid: 0 };
  const problems: string[] = [];
  for (let seed = from; seed < from + count; seed++) {
    writeFileSync(file, randomSequenceModel(seed));
    const { end } = proofOf(readModel(file), new Map());
    const checked = await check(file, seed);
    if (!checked) {
      found.invalid += 1;
      continue;
    }
    if (!end) found.proven += 1;
    else if (checked.company) found.mixing += 1;
    else found.apart += 1;
    const problem = checked.optimized ?? (end ? undefined : checked.company);
    if (problem) problems.push(`seed ${seed}${end ? '' : ', which is proven'}: ${problem}`);
  }
  t.diagnostic(JSON.stringify(found));
  assert.deepEqual(problems, []);
  assert.ok(found.proven >= 0.3 * count, JSON.stringify(found));
  assert.ok(found.mixing >= 0.1 * count, JSON.stringify(found));
  assert.ok(found.invalid <= 0.1 * count, JSON.stringify(found));
}
