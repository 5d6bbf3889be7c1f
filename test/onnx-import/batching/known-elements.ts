/** Compares the elements that the analysis knows of small tensors with those that onnxruntime computes. */
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import type { Tensor } from '../../../lib/contract/tensor.ts';
import { valuesOf } from '../../../lib/contract/tensor-values.ts';
import { AS_WRITTEN } from '../../../lib/contract/verification.ts';
import { openSession } from '../../../lib/inference/session.ts';
import { analyse } from '../../../onnx-import/batching/analyse.ts';
import { readModel } from '../../../onnx-import/batching/model.ts';
import { FREE_ROWS, Names, ONE, type Size } from '../../../onnx-import/graph/rows/size.ts';
import type { Value } from '../../../onnx-import/graph/rows/value.ts';
import { onnxModel } from '../../support/onnx.ts';
import { temporaryFolder } from '../../support/runner.ts';
import { type Expression, randomExpression } from './expressions.ts';

/** Sizes of a run: N rows of x, which has the shape [N, a], beside z of the shape [N, b]. */
export interface Sizes {
  readonly n: number;
  readonly a: number;
  readonly b: number;
}

/** 133 divides one of the sizes, and one is beyond 16 bits, so that products are beyond 31. */
export const RUNS: readonly Sizes[] = [
  { n: 1, a: 4, b: 5 },
  { n: 2, a: 5, b: 133 },
  { n: 3, a: 65_537, b: 70_000 },
];

export function expressionModel({ nodes, weights, outputs }: Expression): Uint8Array {
  const port = (name: string, size: string) => ({ name, dtype: 'uint8' as const, shape: ['N', size] });
  return onnxModel({
    inputs: [port('x', 'a'), port('z', 'b')],
    outputs: outputs.map(([name, dtype]) => ({ name, dtype, shape: undefined })),
    nodes,
    weights,
  });
}

export function feedsOf({ n, a, b }: Sizes): Tensor[] {
  return [a, b].map((size) => ({ dtype: 'uint8', shape: [n, size], data: new Uint8Array(n * size) }));
}

/** The outputs as the analysis knows them. Its names for the sizes are N, d1 and d2. */
function analyseOutputs(file: string): Value[] {
  const names = new Names();
  const rows = (): Value => ({
    kind: 'rows',
    shape: [FREE_ROWS, names.dim()],
    axis: 0,
    outer: ONE,
    inner: ONE,
  });
  const inputs = new Map([
    ['x', rows()],
    ['z', rows()],
  ]);
  return analyse(readModel(file), inputs, FREE_ROWS, names);
}

/** The number; undefined where a name in it is none of the inputs' sizes. */
function evaluate({ factor, names }: Size, { n, a, b }: Sizes): number | undefined {
  const sizes: Readonly<Record<string, number>> = { N: n, d1: a, d2: b };
  return names.reduce<number | undefined>((all, name) => {
    const value = sizes[name];
    return all === undefined || value === undefined ? undefined : all * value;
  }, factor);
}

/** @returns how many elements the analysis knows; undefined where onnxruntime has no kernel for the model */
export async function assertKnownElements(
  file: string,
  { nodes, weights, outputs }: Expression,
  runs: readonly Sizes[],
): Promise<number | undefined> {
  writeFileSync(file, expressionModel({ nodes, weights, outputs }));
  const values = analyseOutputs(file);
  const session = await openSession(file, { threads: 1, optimization: AS_WRITTEN }).catch(() => undefined);
  if (!session) return undefined;
  let known = 0;
  for (const sizes of runs) {
    const results = await session.run(feedsOf(sizes)).catch(() => undefined);
    if (!results) return undefined;
    for (const [i, value] of values.entries()) {
      if (value.kind !== 'fixed' && value.kind !== 'counts') continue;
      const got = valuesOf(results[i] as Tensor);
      const elements = value.elements ?? [];
      if (value.elements) assert.equal(elements.length, got.length, `${outputs[i]?.[0]}: its length`);
      for (const [at, element] of elements.entries()) {
        const number = element && evaluate(element, sizes);
        // Beyond 2^53 it is what a weight holds, rounded; no rule computes with it.
        if (number === undefined || Math.abs(number) >= 2 ** 53) continue;
        known += 1;
        const what = `${outputs[i]?.[0]}[${at}] of ${JSON.stringify(nodes)} at ${JSON.stringify(sizes)}`;
        const right = got[at];
        const isEqual = typeof right === 'bigint' ? BigInt(number) === right : number === Number(right);
        assert.ok(isEqual, `${number}, not ${String(right)}: ${what}`);
      }
    }
  }
  await session.close();
  return known;
}

export async function assertExpressionsHold(
  t: TestContext,
  { from, count }: { readonly from: number; readonly count: number },
): Promise<void> {
  const file = join(await temporaryFolder(t), 'model.onnx');
  const found = { known: 0, invalid: 0 };
  for (let seed = from; seed < from + count; seed++) {
    const known = await assertKnownElements(file, randomExpression(seed), RUNS);
    if (known === undefined) found.invalid += 1;
    else found.known += known;
  }
  t.diagnostic(JSON.stringify(found));
  assert.ok(found.invalid <= 0.1 * count, JSON.stringify(found));
  assert.ok(found.known >= 20 * count, JSON.stringify(found));
}
