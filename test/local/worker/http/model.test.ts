/** The routes of the worker service on a job with an ONNX model, and as they are deployed. */
import assert from 'node:assert/strict';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { type OnnxRunner, openOnnx } from '../../../../lib/compose/onnx.ts';
import { writePng } from '../../../support/png.ts';
import { SAMPLE } from '../../../support/stack.ts';
import {
  encodeJson,
  envelopeOf,
  itemFrame,
  readFrame,
  type Service,
  sendFrame,
  startService,
} from './service.ts';

const IMAGE = writePng({ width: 8, height: 8, depth: 8, colourType: 2, sample: (x, y) => [x * 9, y * 9, 0] });
const SHAPE = [3, 8, 8];
const PIXELS = Float32Array.from({ length: 192 }, (_, i) => i);

let runner: OnnxRunner;
let service: Service;
let deployed: Service;

before(async () => {
  const folder = join(SAMPLE, 'model');
  const file = (await readdir(folder)).find((name) => name.endsWith('.onnx')) as string;
  runner = await openOnnx(join(folder, file), 'v', {
    threads: 1,
    batchSize: 4,
    inputAlreadyBatched: false,
    image: {},
    batching: 'always',
  });
  const model = { use: <T>(work: (runner: OnnxRunner) => Promise<T>) => work(runner) };
  service = await startService({ model });
  deployed = await startService({ model, isDeployed: true });
});
after(async () => {
  await service?.close();
  await deployed?.close();
  await runner?.close();
});

const nested = (at: number): unknown[] =>
  Array.from({ length: 8 }, (_, y) => Array.from({ length: 8 }, (__, x) => at + y * 8 + x));

describe('a job with a model', () => {
  test('POST /encode_json takes the inputs of one record by name, and answers its output', async () => {
    const [expected] = await runner.run([
      new Map([['image', { kind: 'tensor', tensor: { dtype: 'float32', shape: SHAPE, data: PIXELS } }]]),
    ]);
    assert.ok(expected?.ok);
    const { error_code, data } = await encodeJson(service, { image: [nested(0), nested(64), nested(128)] });
    assert.equal(error_code, 0);
    assert.deepEqual(Float32Array.from(data as number[]), expected.outputs[0]?.data);
  });

  test('what is no record of the model is refused with the errors of the model', async () => {
    for (const item of [1, [], null, {}, { image: 'no image' }, { image: [1, 2] }]) {
      const { error_code, code } = await encodeJson(service, item);
      assert.equal(error_code, 400, JSON.stringify(item));
      assert.match(String(code), /^bad_(request|input)$/);
    }
  });

  test('a frame with an array is answered with an array, and one with a value that is none with an error', async () => {
    const array = { dtype: 'float32', shape: SHAPE, data: PIXELS };
    const [outcome] = (await readFrame(await sendFrame(service, itemFrame(array)))).outcomes;
    assert.deepEqual((outcome?.value as { shape: number[] }).shape, [10]);
    const [failed] = (await readFrame(await sendFrame(service, itemFrame({ a: new Set([1]) })))).outcomes;
    assert.equal((failed?.error as { code: string }).code, 'bad_input');
  });

  test('an uploaded image is the input of the model', async () => {
    const form = new FormData();
    form.append('img_bytes', new Blob([new Uint8Array(IMAGE)]));
    const response = await fetch(`${service.url}/encode_img_bytes`, { method: 'POST', body: form });
    const { data } = await envelopeOf(response);
    assert.equal((data as number[]).length, 10);
    assert.equal(response.headers.get('model-version'), 'v');
  });

  test('each item is counted', async () => {
    const status = (await (await fetch(`${service.url}/status/server`)).json()) as {
      statistic: { num_data_request: number };
      statistic_postsink: { num_data_request: number };
    };
    const { statistic, statistic_postsink: finished } = status;
    assert.ok(finished.num_data_request > 0);
    assert.equal(statistic.num_data_request, finished.num_data_request);
  });
});

describe('the deployed routes', () => {
  test('refuse addresses, later results and the control of the service', async () => {
    const url = await fetch(`${deployed.url}/encode_img_url`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: '{"img_url":"https://example.com/a.png"}',
    });
    assert.deepEqual([url.status, (await envelopeOf(url)).code], [403, 'forbidden']);
    const later = await sendFrame(deployed, itemFrame(1), { prefer: 'respond-async' });
    const { error_message } = await envelopeOf(later);
    assert.equal(later.status, 400);
    assert.match(error_message, /POST \/predictions/);
    assert.equal((await fetch(`${deployed.url}/results/a`)).status, 404);
    assert.equal((await fetch(`${deployed.url}/control/terminate`, { method: 'POST' })).status, 404);
  });

  test('GET /status/server says the version of the frames', async () => {
    const status = (await (await fetch(`${deployed.url}/status/server`)).json()) as Record<string, unknown>;
    assert.equal(status['wkr_protocol'], 1);
    assert.equal(typeof status['server_version'], 'string');
  });
});
