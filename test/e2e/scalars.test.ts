/** A model with a scalar in the whole service: what its start finds out reaches the processes that run it, requests and queue. */
import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { InputQueue, OutputQueue } from '../../sdk/index.ts';
import { onnxModel } from '../support/onnx.ts';
import { temporaryFolder } from '../support/runner.ts';
import { clientOptions, testStack } from '../support/stack.ts';

const scaling = onnxModel({
  inputs: [
    { name: 'x', dtype: 'float32', shape: ['N', 2, 2] },
    { name: 'rate', dtype: 'float32', shape: [] },
  ],
  outputs: [{ name: 'y', dtype: 'float32', shape: ['N', 2, 2] }],
  nodes: [{ op: 'Mul', inputs: ['x', 'rate'], outputs: ['y'] }],
});

test('each record has its own scalar, whichever share its request or its event', async (t) => {
  const modelDirectory = await temporaryFolder(t);
  await writeFile(join(modelDirectory, 'model.onnx'), scaling);
  const stack = await testStack(t, { modelDirectory, config: 'batchSize: 8' });
  const post = async (path: string, body: unknown) => {
    const headers = { 'content-type': 'application/json' };
    const answer = await fetch(`${stack.url}${path}`, {
      method: 'POST',
      headers,
      body: JSON.stringify(body),
    });
    return { status: answer.status, body: (await answer.json()) as Record<string, unknown> };
  };
  const x = Array.from({ length: 2 }, () => [1, 1]);
  const rates = [1, 2, 2, 3, 1, 4, 2, 5];
  const instances = rates.map((rate) => ({ x, rate }));

  const predicted = await post('/predict', { instances });
  assert.deepEqual(
    (predicted.body['predictions'] as string[]).map(
      (text) => JSON.parse(text.slice(7, -1)).data[0] as number,
    ),
    rates,
  );
  const served = await post('/v1/models/serving_stream:predict', { instances });
  assert.deepEqual(
    (served.body['predictions'] as number[][][]).map((y) => y[0]?.[0]),
    rates,
  );
  const tensor = (name: string, shape: number[], data: unknown) => ({ name, datatype: 'FP32', shape, data });
  const inputs = [tensor('x', [2, 2, 2], [x, x]), tensor('rate', [2], [1, 2])];
  const refused = await post('/v2/models/serving_stream/infer', { inputs });
  assert.equal(refused.status, 400);
  assert.match(String(refused.body['error']), /input "rate": expected float32 \[\], got shape \[2\]/);

  const { input, output } = clientOptions(stack);
  const [queue, results] = [new InputQueue(input), new OutputQueue(output)];
  t.after(() => Promise.all([queue.close(), results.close()]));
  await Promise.all(rates.map((rate, i) => queue.enqueue(`r${i}`, { x, rate })));
  const waited = await Promise.all(rates.map((_, i) => results.wait(`r${i}`, { timeoutMs: 30_000 })));
  assert.deepEqual(
    waited.map(({ outputs }) => outputs[0]?.data[0]),
    rates,
  );
});
