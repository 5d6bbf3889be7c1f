/**
 * Canaries of further models on a running service. Two models have the same files and the same canary since the same moment: what one
 * answers decides about it alone. An answer says by its number which version of which model made it.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { modelPrefix } from '../../../lib/contract/names.ts';
import { isOfCanary } from '../../../lib/inference/canary-share.ts';
import { readCurrent } from '../../../lib/registry/pointer.ts';
import { publishModel } from '../../../lib/registry/publish.ts';
import { readTrialReport } from '../../../lib/registry/trial-report.ts';
import { InputQueue, OutputQueue } from '../../../sdk/index.ts';
import { addModel, modelFolder, modelsFolder, numberOf, STEP } from '../../local/swap/models.ts';
import { onnxModel } from '../../support/onnx.ts';
import { clientOptions, testStack } from '../../support/stack.ts';
import { until } from '../../support/until.ts';

const JOB = 'serving_stream';
const SHARE = 0.5;
const KEYS = Array.from({ length: 16 }, (_, i) => `user-${i}`);
/** No version fails with the first, and the canary with the other. */
const GOOD = 1;
const BAD = 30;

/** y = x + 4 * STEP where x is below 5; the model fails for others. */
function pickyModel(): Uint8Array {
  return onnxModel({
    inputs: [{ name: 'x', dtype: 'float32', shape: ['N', 1] }],
    outputs: [{ name: 'y', dtype: 'float32', shape: ['N', 1] }],
    weights: [{ name: 'table', dtype: 'float32', shape: [5], data: new Float32Array(5).fill(4 * STEP) }],
    nodes: [
      { op: 'Cast', inputs: ['x'], outputs: ['index'], attributes: { to: 7 } },
      { op: 'Gather', inputs: ['table', 'index'], outputs: ['number'], attributes: { axis: 0 } },
      { op: 'Add', inputs: ['x', 'number'], outputs: ['y'] },
    ],
  });
}

test('canaries of further models take their shares, and one that fails ends alone', async (t) => {
  const stack = await testStack(t, {
    config: 'modelRefreshSeconds: 1\n',
    modelDirectory: await modelFolder(t, addModel(1)),
    modelsDirectory: await modelsFolder(t, { fraud: addModel(2), twin: addModel(2) }),
    trials: { lookMs: 300 },
  });
  const { s3 } = stack.aws;
  const locationOf = (model: string) => ({ bucket: stack.bucket, prefix: modelPrefix(JOB, model) });
  const ask = async (model: string, x: number, key: string) => {
    const answer = await fetch(`${stack.url}/predict?model=${model}`, {
      method: 'POST',
      headers: { 'canary-key': key },
      body: JSON.stringify({ instances: [{ x: [x] }] }),
    });
    const text = await answer.text();
    const [, sum] = /\b(\d*000\d)\b/.exec(text) ?? [];
    return {
      status: answer.status,
      version: answer.headers.get('model-version') ?? '',
      number: numberOf(x, Number(sum)),
    };
  };
  const serving = (await ask('fraud', GOOD, 'a')).version;
  const at = Date.now();
  const folder = await modelFolder(t, pickyModel());
  const trial = { kind: 'canary', share: SHARE } as const;
  for (const model of ['fraud', 'twin'])
    await publishModel(s3, locationOf(model), folder, { trial, now: () => at });
  const { canary } = await readCurrent(s3, locationOf('fraud'));
  assert.ok(canary);
  assert.deepEqual((await readCurrent(s3, locationOf('twin'))).canary?.since, canary.since);

  const sideOf = (key: string) => (isOfCanary(key, { ...canary, share: SHARE }) ? canary.version : serving);
  const numbers = { [serving]: 2, [canary.version]: 4 };
  for (const model of ['fraud', 'twin'])
    await until(async () => {
      const answers = await Promise.all(KEYS.map((key) => ask(model, GOOD, key)));
      return new Set(answers.map(({ version }) => version)).size === 2;
    });
  const { input: places, output: place } = clientOptions(stack);
  const [input, output] = [new InputQueue(places), new OutputQueue(place)];
  t.after(async () => {
    await input.close();
    await output.close();
  });
  for (const key of KEYS)
    for (const model of ['fraud', 'twin']) {
      const answer = await ask(model, GOOD, key);
      assert.deepEqual(
        [answer.version, answer.number],
        [sideOf(key), numbers[sideOf(key)]],
        `${model} ${key}`,
      );
      const uri = `${model}-${key}`;
      await input.enqueue(uri, { x: [GOOD] }, { model, canaryKey: key });
      const { model: version, outputs } = await output.wait(uri);
      assert.equal(version, sideOf(key), uri);
      assert.equal(numberOf(GOOD, Number(outputs[0]?.data[0])), numbers[version], uri);
    }

  await until(async () => {
    for (let i = 0; i < 20; i++) await Promise.all(KEYS.map((key) => ask('fraud', BAD, `${key}-${i}`)));
    return (await readCurrent(s3, locationOf('fraud'))).ended !== undefined;
  });
  const { ended } = await readCurrent(s3, locationOf('fraud'));
  assert.match(ended?.reason ?? '', /it fails more often: .*model_failed\) against 0 % failed/);
  // Answers of the other one are counted apart, and are few.
  const report = await readTrialReport(s3, locationOf('twin'));
  assert.equal(report?.canary?.verdict, 'not enough');
  assert.equal((await readCurrent(s3, locationOf('twin'))).canary?.version, canary.version);
  await until(async () => (await ask('fraud', BAD, 'a')).status === 200);
  for (const key of KEYS) assert.equal((await ask('twin', GOOD, key)).version, sideOf(key));
});
