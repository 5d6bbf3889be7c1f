/**
 * Three opinions of nodes of ai.onnx.ml: the evaluator of the specification, onnx.reference (reference.json.gz, made by
 * reference.py), and onnxruntime with the rewrites of an import. All agree, but where onnx.reference is wrong.
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { gunzipSync } from 'node:zlib';
import type { DType, Tensor } from '../../../lib/contract/tensor.ts';
import { compareNodes, EVALUATED } from '../../../onnx-import/classical/compare.ts';
import { classicalNodes } from '../../../onnx-import/classical/find.ts';
import type { RawNode } from '../../../onnx-import/onnx/rewrite/graph.ts';
import type { Answers } from '../../../onnx-import/onnx/rewrite/ml-node.ts';
import { temporaryFolder } from '../../support/runner.ts';

interface Packed {
  readonly dtype: DType;
  readonly shape: readonly number[];
  /** null stands for NaN. */
  readonly data: readonly (number | string | null)[];
}

interface Case {
  readonly op: string;
  /** Base64. */
  readonly model: string;
  readonly inputs: readonly Packed[];
  readonly answers: readonly Packed[];
}

const FILE = new URL('reference.json.gz', import.meta.url);
const CASES = JSON.parse(gunzipSync(readFileSync(FILE)).toString()) as Case[];

/** Where onnx.reference is not followed, by output. */
function reasonNotToFollow(node: RawNode, output: number): string | undefined {
  const isSingle = new Set(node.numbers('class_ids')).size === 1;
  const isMixed = node.floats('class_weights').some((weight) => weight < 0);
  const transform = node.text('post_transform') || 'NONE';
  if (node.operator === 'TreeEnsembleClassifier' && isSingle && transform === 'NONE' && isMixed) {
    return 'a single score with negative leaves is a margin, as exporters mean it: [-s, s], not [1 - s, s]';
  }
  if (node.operator === 'SVMClassifier' && node.numbers('classlabels_ints').length === 2 && output === 0) {
    return 'it labels by the signs of the coefficients, whatever the sum is';
  }
  if (transform === 'SOFTMAX_ZERO' && output === 0 && node.operator !== 'LinearClassifier') {
    return 'it labels by the transformed scores, in which a score of 0 is no probability and a negative one is';
  }
  return undefined;
}

function tensorOf({ dtype, shape, data }: Packed): Tensor {
  if (dtype === 'string') return { dtype, shape, data: data as string[] };
  const numbers = data.map((value) => value ?? Number.NaN) as number[];
  if (dtype === 'int64') return { dtype, shape, data: BigInt64Array.from(numbers, BigInt) };
  return {
    dtype,
    shape,
    data: dtype === 'float64' ? Float64Array.from(numbers) : Float32Array.from(numbers),
  };
}

function assertAnswers(found: Answers, { op, answers }: Case, node: RawNode): void {
  assert.ok(typeof found !== 'string', `${op} has no answer`);
  for (const [output, { data }] of answers.entries()) {
    const { values, allowed } = found[output] as Exclude<Answers, string>[number];
    if (reasonNotToFollow(node, output)) continue;
    assert.equal(values.length, data.length, `output ${output}`);
    for (const [i, expected] of data.entries()) {
      const value = values[i];
      if (allowed?.[i] === Infinity || Object.is(Number(value), expected ?? Number.NaN)) continue;
      if (typeof expected === 'string' || typeof value === 'string') {
        assert.equal(value, expected);
        continue;
      }
      const difference = Math.abs(Number(value) - Number(expected));
      const most = 4 * (allowed?.[i] ?? 0) + 1e-6 * Math.abs(Number(expected));
      assert.ok(
        difference <= most,
        `output ${output}, element ${i}: ${value}, the reference says ${expected}`,
      );
    }
  }
}

for (const [i, each] of CASES.entries()) {
  test(`${i}: ${each.op} is what onnx.reference says, and onnxruntime as it is rewritten`, async (t) => {
    const model = Buffer.from(each.model, 'base64');
    const [found] = classicalNodes(model);
    assert.ok(found);
    const evaluate = EVALUATED[each.op];
    assert.ok(evaluate);
    assertAnswers(evaluate(found.node, each.inputs.map(tensorOf)), each, found.node);
    const file = join(await temporaryFolder(t), 'model.onnx');
    await writeFile(file, model);
    const compared = compareNodes({ file, isMended: true });
    // A missing value goes by nodes_missing_value_tracks_true, and onnxruntime finds NaN unequal to every value.
    const tracks = found.node.numbers('nodes_missing_value_tracks_true');
    if (found.node.texts('nodes_modes').some((mode, at) => mode === 'BRANCH_NEQ' && tracks[at] === 0)) {
      await assert.rejects(compared, { code: 'bad_model' });
    } else assert.deepEqual(await compared, []);
  });
}

test('every operator that is compared is in the reference, but for those that it lacks', () => {
  const seen = new Set(CASES.map(({ op }) => op));
  const missing = Object.keys(EVALUATED).filter((op) => !seen.has(op));
  assert.deepEqual(missing, ['CategoryMapper', 'TreeEnsemble']);
});
