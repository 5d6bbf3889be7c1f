/** TensorFlow Serving's own test models, imported, answer the requests of its documentation and of its tests as it does. */
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { convertTensorflow } from '../../../onnx-import/formats/tensorflow/convert.ts';
import { readSavedModel } from '../../../onnx-import/formats/tensorflow/files/saved-model.ts';
import { writeOnnx } from '../../../onnx-import/onnx/write.ts';
import { sharedPath } from '../../support/fixtures.ts';
import { openModelBytes, temporaryFolder } from '../../support/runner.ts';
import { servingOf } from '../../support/tensorflow-serving.ts';

async function servedOf(t: TestContext, name: string) {
  const directory = sharedPath(`corpus/tf_saved_model/${name}`);
  if (!existsSync(directory)) {
    t.skip(`needs ../shared/corpus/tf_saved_model/${name}, which is not on this machine`);
    return undefined;
  }
  const { graph } = await readSavedModel(directory, {});
  const file = join(await temporaryFolder(t), 'model.onnx');
  await writeOnnx(convertTensorflow(graph, {}).graph, file, { producerVersion: 'test' });
  return servingOf(await openModelBytes(t, await readFile(file)), { jobName: name });
}

const INSTANCES = { instances: [1.0, 2.0, 5.0] };

test('half_plus_three answers as documented', async (t) => {
  const ask = await servedOf(t, 'half_plus_three');
  if (!ask) return;
  const answer = async (verb: string, body: unknown) => (await ask(`half_plus_three:${verb}`, body)).text;
  assert.equal(await answer('predict', INSTANCES), '{"predictions":[3.5,4.0,5.5]}');
  assert.equal(await answer('predict', { inputs: [3.0, 4.0] }), '{"outputs":[4.5,5.0]}');
  assert.equal(await answer('predict', { instances: [[3.0], [4.0]] }), '{"predictions":[[4.5],[5.0]]}');
  const examples = { signature_name: 'tensorflow/serving/regress', examples: [{ x: 1.0 }, { x: 2.0 }] };
  assert.equal(await answer('regress', examples), '{"results":[3.5,4.0]}');
  assert.equal(await answer('classify', { examples: [{ x: 20.0 }] }), '{"results":[[["",13.0]]]}');
  assert.match(
    (await ask('half_plus_three/metadata')).text,
    /"inputs":\{"x":\{"dtype":"DT_FLOAT","tensor_shape":\{"dim":\[\{"size":"-1","name":""\},\{"size":"1"/,
  );
});

test('half_plus_two answers as documented, exported with a batch of one', async (t) => {
  const ask = await servedOf(t, 'half_plus_two_tf2');
  if (!ask) return;
  const { text } = await ask('half_plus_two_tf2:predict', INSTANCES);
  assert.equal(text, '{"predictions":[2.5,3.0,4.5]}');
});
