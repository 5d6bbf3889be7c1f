/** Indices that TensorFlow checks by an Assert, as the layer CategoryEncoding of tf_keras does, fail here too. */
import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { openSession } from '../../../../lib/inference/session.ts';
import { convertTensorflow } from '../../../../onnx-import/formats/tensorflow/convert.ts';
import { readFrozenGraph } from '../../../../onnx-import/formats/tensorflow/files/frozen.ts';
import { onnxBytes } from '../../../../onnx-import/onnx/write.ts';
import { folderOf } from '../../support/folder.ts';
import {
  attr,
  constant,
  DT,
  floatTensor,
  graph,
  intTensor,
  node,
  placeholder,
} from '../../support/tensorflow.ts';

const INT = { T: attr.type(DT.int32) };
const INDICES = { ...INT, Tidx: attr.type(DT.int32) };
const whole = (name: string, dims: readonly number[], values: readonly number[]) =>
  constant(name, intTensor(dims, values), DT.int32);

/** Counts 0 to 3 in rows of three indices. @param checked which input has to be below 4 */
function counting(checked: 'x' | 'other'): Buffer {
  return graph([
    placeholder('x', [-1, 3], DT.int32),
    placeholder('other', [-1, 3], DT.int32),
    whole('axes', [2], [0, 1]),
    node('Max', 'max', [checked, 'axes'], INDICES),
    node('Min', 'min', [checked, 'axes'], INDICES),
    whole('bound', [], [4]),
    whole('zero', [], [0]),
    node('Greater', 'below', ['bound', 'max'], INT),
    node('GreaterEqual', 'least', ['min', 'zero'], INT),
    node('LogicalAnd', 'both', ['below', 'least']),
    node('Assert', 'check', ['both', 'bound'], { T: attr.types([DT.int32]) }),
    whole('size', [], [4]),
    constant('none', floatTensor([0], [])),
    node('DenseBincount', 'counts', ['x', 'size', 'none', '^check'], {
      Tidx: attr.type(DT.int32),
      T: attr.type(DT.float),
    }),
    node('Identity', 'same', ['other'], INT),
  ]);
}

async function counts(t: TestContext, checked: 'x' | 'other') {
  const names = JSON.stringify({ input_names: ['x:0', 'other:0'], output_names: ['counts:0', 'same:0'] });
  const files = { 'frozen_inference_graph.pb': counting(checked), 'graph_meta.json': names };
  const folder = await folderOf(t, files);
  const file = join(folder, 'model.onnx');
  await writeFile(file, onnxBytes(convertTensorflow((await readFrozenGraph(folder)).graph, {}).graph));
  const session = await openSession(file, { threads: 1 });
  t.after(() => session.close());
  return async (...indices: number[]) => {
    const data = Int32Array.from(indices);
    const x = { dtype: 'int32', shape: [1, 3], data } as const;
    const [output] = await session.run([x, { ...x, data: new Int32Array(3) }]);
    return Array.from(output?.data as Float32Array);
  };
}

test('an index that the graph checks is counted, or the run fails', async (t) => {
  const run = await counts(t, 'x');
  assert.deepEqual(await run(0, 3, 3), [1, 0, 0, 2]);
  for (const outside of [4, 1_000_000, -1, -4]) {
    await assert.rejects(run(0, outside, 3), /indices element out of data bounds/, String(outside));
  }
});

test('an index that no check is about is left out, as TensorFlow does', async (t) => {
  const run = await counts(t, 'other');
  assert.deepEqual(await run(0, 4, 3), [1, 0, 0, 1]);
});
