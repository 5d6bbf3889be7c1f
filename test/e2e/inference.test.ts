/** The Open Inference Protocol through the local gateway, over real HTTP: the routes, and bytes that stay what they were. */
import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { identityModel } from '../support/onnx.ts';
import { bytesOf, inferRequest, receivedOf, type SentRequest } from '../support/open-inference.ts';
import { temporaryFolder } from '../support/runner.ts';
import { testStack } from '../support/stack.ts';

async function served(t: TestContext, config: string) {
  const modelDirectory = await temporaryFolder(t);
  const model = identityModel([{ name: 'x', dtype: 'float32', shape: ['N', 3, 16] }]);
  await writeFile(join(modelDirectory, 'model.onnx'), model);
  return testStack(t, { modelDirectory, config });
}

const post = (url: string, { body, headers }: SentRequest, more: Record<string, string> = {}) =>
  fetch(url, { method: 'POST', body: new Uint8Array(body), headers: { ...headers, ...more } });

async function received(response: Response) {
  const body = Buffer.from(await response.arrayBuffer());
  assert.equal(response.status, 200, body.toString());
  return receivedOf(body, response.headers.get('inference-header-content-length'));
}

test('a job serves its model under its own name, beside POST /predict', async (t) => {
  const { url, model } = await served(t, 'jobName: rows');
  const at = `${url}/v2/models/rows`;
  // Every byte there is: nothing on the way may take them for text.
  const values = new Float32Array(Uint8Array.from({ length: 768 }, (_, i) => i).buffer);
  const input = { name: 'x', datatype: 'FP32', shape: [4, 3, 16], bytes: bytesOf(values) };

  await t.test('a binary tensor comes back with the same bytes', async () => {
    for (const place of [at, `${at}/versions/${model}`]) {
      const answer = await post(
        `${place}/infer`,
        inferRequest([input], { parameters: { binary_data_output: true } }),
      );
      assert.equal(answer.headers.get('content-type'), 'application/octet-stream');
      const { json, outputs } = await received(answer);
      assert.deepEqual([json['model_name'], json['model_version']], ['rows', model]);
      assert.deepEqual(outputs, [{ name: 'x_out', datatype: 'FP32', shape: [4, 3, 16], bytes: input.bytes }]);
    }
  });

  await t.test('a tensor without JSON comes back with the same bytes', async () => {
    const headers = {
      'content-type': 'application/octet-stream',
      'inference-header-content-length': '0',
    };
    const { outputs } = await received(await post(`${at}/infer`, { body: input.bytes, headers }));
    assert.deepEqual(outputs[0]?.bytes, input.bytes);
  });

  await t.test('JSON gives the numbers that POST /predict gives', async () => {
    const rows = [0, 1].map((row) => Array.from({ length: 3 }, () => Array<number>(16).fill(row + 0.1)));
    const { outputs } = await received(
      await post(
        `${at}/infer`,
        inferRequest([{ name: 'x', datatype: 'FP32', shape: [2, 3, 16], data: rows }]),
      ),
    );
    const instances = rows.map((x) => ({ x }));
    const response = await fetch(`${url}/predict`, { method: 'POST', body: JSON.stringify({ instances }) });
    const { predictions } = (await response.json()) as { predictions: string[] };
    const data = predictions.flatMap((text) => (JSON.parse(text.slice(7, -1)) as { data: number[] }).data);
    assert.deepEqual(outputs[0]?.data, data);
    assert.equal(data.length, 96);
  });

  await t.test('health and metadata are there, by GET and HEAD', async () => {
    for (const path of [
      '/v2',
      '/v2/health/live',
      '/v2/health/ready',
      '/v2/models/rows',
      '/v2/models/rows/ready',
    ]) {
      const got = await fetch(url + path);
      assert.equal(got.status, 200, path);
      assert.equal(typeof (await got.json()), 'object');
      assert.equal((await fetch(url + path, { method: 'HEAD' })).status, 200, path);
    }
  });

  await t.test("what is not there is reported in the protocol's form", async () => {
    for (const [method, path] of [
      ['GET', '/v2/models/other'],
      ['POST', '/v2/models/other/infer'],
      ['GET', '/v2/repository/index'],
      ['GET', '/v2/no/such/path'],
    ] as const) {
      const response = await fetch(url + path, { method });
      assert.equal(response.status, 404, path);
      const { error } = (await response.json()) as { error: string };
      assert.match(error, /^no (model|such path)/);
    }
  });

  await t.test('a binary tensor whose content type is JSON is refused, not damaged', async () => {
    const sent = inferRequest([input]);
    const response = await post(`${at}/infer`, sent, { 'content-type': 'application/json' });
    assert.equal(response.status, 400);
    const { error } = (await response.json()) as { error: string };
    assert.match(error, /content-type: application\/octet-stream/);
  });

  await t.test('4.5 MB of tensor fit through Lambda, 4.8 MB do not', async () => {
    const of = (rows: number) => {
      const bytes = bytesOf(new Float32Array(rows * 48));
      return inferRequest([{ name: 'x', datatype: 'FP32', shape: [rows, 3, 16], bytes }]);
    };
    assert.equal((await post(`${at}/infer`, of(25_000))).status, 413);
    // The answer is smaller than the request as JSON of zeros, which are four characters each.
    const { outputs } = await received(await post(`${at}/infer`, of(23_437)));
    assert.deepEqual(outputs[0]?.shape, [23_437, 3, 16]);
  });
});

test('a page of an allowed origin may send the header, and read it in the answer', async (t) => {
  const { url } = await served(t, 'http: { corsOrigins: [https://app.example] }');
  const origin = { origin: 'https://app.example' };
  const place = `${url}/v2/models/serving_stream/infer`;
  const preflight = await fetch(place, {
    method: 'OPTIONS',
    headers: { ...origin, 'access-control-request-method': 'POST' },
  });
  assert.match(
    preflight.headers.get('access-control-allow-headers') ?? '',
    /inference-header-content-length/,
  );
  const bytes = bytesOf(new Float32Array(48));
  const sent = inferRequest([{ name: 'x', datatype: 'FP32', shape: [1, 3, 16], bytes }]);
  const answer = await post(place, sent, origin);
  assert.equal(answer.status, 200);
  assert.match(answer.headers.get('access-control-expose-headers') ?? '', /inference-header-content-length/);
});
