import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { verifyModel } from '../../../onnx-import/verify/verify.ts';
import { models } from '../../support/models.ts';
import { type ModelSpec, onnxModel } from '../../support/onnx.ts';
import { openModelBytes, temporaryFolder } from '../../support/runner.ts';
import { throughPredict } from '../../support/three-paths.ts';

const flat = { name: 'flat', dtype: 'int64', shape: [1], data: BigInt64Array.of(-1n) } as const;
const zero = { name: 'zero', dtype: 'float32', shape: [], data: Float32Array.of(0) } as const;

/** The elements above zero: as many as the data says. */
const detecting: ModelSpec['nodes'] = [
  { op: 'Greater', inputs: ['x', 'zero'], outputs: ['isFound'] },
  { op: 'Reshape', inputs: ['isFound', 'flat'], outputs: ['places'] },
  { op: 'Compress', inputs: ['x', 'places'], outputs: ['y'] },
];
/** Mixes the rows, so that nothing is proven, and gives one row for each. */
const mixing: ModelSpec['nodes'] = [{ op: 'CumSum', inputs: ['x', 'axis'], outputs: ['y'] }];
const axis = { name: 'axis', dtype: 'int32', shape: [], data: Int32Array.of(0) } as const;

const CASES = [
  { nodes: detecting, batch: 'N', first: 'M', expected: { y: 'none' }, shapes: [[1], [2]] },
  { nodes: detecting, batch: 'N', first: undefined, expected: { y: 'none' }, shapes: [[1], [2]] },
  { nodes: detecting, batch: 'N', first: 'N', expected: { y: 'none' }, shapes: [[1], [2]] },
  { nodes: detecting, batch: 1, first: 'M', expected: { y: 'none' }, shapes: [[1], [2]] },
  { nodes: mixing, batch: 'N', first: 'unnamed_0', expected: { y: 0 }, shapes: [[3], [3]] },
  // onnxruntime finds the shape itself.
  { nodes: mixing, batch: 'N', first: undefined, expected: undefined, shapes: [[3], [3]] },
  { nodes: mixing, batch: 'N', first: 'N', expected: undefined, shapes: [[3], [3]] },
] as const;

for (const { nodes, batch, first, expected, shapes } of CASES) {
  const what = `${nodes === detecting ? 'detections' : 'rows'} of ${batch} in, ${first ?? 'no shape'} out`;
  test(`the verification knows the axis of ${what}, and the answers have it`, async (t) => {
    const rest = nodes === detecting ? [] : [3];
    const bytes = onnxModel({
      inputs: [{ name: 'x', dtype: 'float32', shape: [batch, 3] }],
      outputs: [{ name: 'y', dtype: 'float32', shape: first === undefined ? undefined : [first, ...rest] }],
      nodes,
      weights: nodes === detecting ? [flat, zero] : [axis],
    });
    const file = join(await temporaryFolder(t), 'model.onnx');
    await writeFile(file, bytes);
    const verification = await verifyModel(file, { process: models });
    assert.deepEqual(verification.batching.outputAxes, expected);
    const runner = await openModelBytes(t, bytes, { verification, batching: 'proven' });
    const answers = await throughPredict(runner, [{ x: [1, -1, -1] }, { x: [1, 2, -1] }]);
    assert.deepEqual(
      answers.map(([y]) => y?.shape),
      shapes,
    );
  });
}
