/** What the analysis computes of constants and sizes: what onnxruntime computes of them, or nothing. */
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import type { DType } from '../../../lib/contract/tensor.ts';
import { readModel } from '../../../onnx-import/batching/model.ts';
import { proofOf } from '../../../onnx-import/batching/proof.ts';
import { ELEMENT_TYPES } from '../../../onnx-import/graph/attributes.ts';
import { sharedPath } from '../../support/fixtures.ts';
import type { NodeSpec } from '../../support/onnx.ts';
import { temporaryFolder } from '../../support/runner.ts';
import { EDGES, type Numeric, weightOf } from './expressions.ts';
import { assertExpressionsHold, assertKnownElements } from './known-elements.ts';

const PROOFS = sharedPath('corpus/reported/proofs');
const REPORTED =
  'fn_overload_ab_a fn_shadow_softmax0 if_cast_f16 if_cast_i32_wrap if_div_mul_round if_f32_16777217 if_f32_eq if_i64_eq_2p53 if_i64_mul_overflow if_pow_i64 if_u8_overflow';

for (const name of REPORTED.split(' ')) {
  test(`${name}, which mixes rows by a branch or a function, is not proven`, (t) => {
    if (!existsSync(PROOFS)) return t.skip('needs ../shared/corpus/reported, which is not on this machine');
    assert.ok(proofOf(readModel(join(PROOFS, `${name}.onnx`)), new Map()).end, 'it is proven');
  });
}

const BINARY = 'Add Sub Mul Div Mod Pow Max Min And Or Equal Greater GreaterOrEqual Less LessOrEqual'.split(
  ' ',
);
const BOOLEAN = new Set('And Or Not Equal Greater GreaterOrEqual Less LessOrEqual'.split(' '));
const UNARY = 'Neg Not Abs Sqrt Floor Ceil ReduceProd Cast'.split(' ');

for (const [name, values = []] of Object.entries(EDGES)) {
  test(`constants of ${name} are computed as onnxruntime does, or not at all`, async (t) => {
    const dtype = name as Numeric;
    const file = join(await temporaryFolder(t), 'model.onnx');
    const run = [{ n: 1, a: 1, b: 1 }];
    let known = 0;
    for (const op of BINARY) {
      // Each with each, as far as the analysis follows elements.
      const pairs = values.flatMap((a) => values.map((b) => [a, b] as const));
      for (let at = 0; at < pairs.length; at += 64) {
        const part = pairs.slice(at, at + 64);
        const weights = [0, 1].map((i) =>
          weightOf(
            `w${i}`,
            dtype,
            part.map((pair) => pair[i as 0 | 1]),
          ),
        );
        const nodes: NodeSpec[] = [{ op, inputs: ['w0', 'w1'], outputs: ['y'] }];
        const type: DType = BOOLEAN.has(op) ? 'bool' : dtype;
        known += (await assertKnownElements(file, { nodes, weights, outputs: [['y', type]] }, run)) ?? 0;
      }
    }
    for (const op of UNARY) {
      for (const to of op === 'Cast' ? (Object.keys(EDGES) as Numeric[]) : [dtype]) {
        const nodes: NodeSpec[] = [
          { op, inputs: ['w'], outputs: ['y'], attributes: op === 'Cast' ? { to: ELEMENT_TYPES[to] } : {} },
        ];
        const weights = [weightOf('w', dtype, values)];
        known += (await assertKnownElements(file, { nodes, weights, outputs: [['y', to]] }, run)) ?? 0;
      }
    }
    t.diagnostic(`${known} elements are known`);
    if (['int32', 'int64', 'bool'].includes(dtype)) assert.ok(known >= 20, `${known}`);
  });
}

test('of 150 random expressions of sizes and constants, each known element is what onnxruntime computes at three lengths', async (t) => {
  await assertExpressionsHold(t, { from: 0, count: 150 });
});
