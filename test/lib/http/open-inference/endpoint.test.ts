/** Triton's extensions of /v2 through the handler of POST /predict, with real models in onnxruntime. */
import assert from 'node:assert/strict';
import { describe, it, test } from 'node:test';
import { deflateSync, gunzipSync, gzipSync, inflateSync } from 'node:zlib';
import { LIMITS } from '../../../../lib/contract/limits.ts';
import type { NamedTensor, TensorSpec } from '../../../../lib/contract/values.ts';
import { classified } from '../../../../lib/http/open-inference/classification.ts';
import { Inferences, type ModelStatistics } from '../../../../lib/observe/inferences.ts';
import { together } from '../../../../lib/observe/together.ts';
import { Models } from '../../../functions/hostile/models.ts';
import { ALL_BINARY, endpointOf, handlerOf, pairs } from '../../../support/inference-endpoint.ts';
import { quietObservers } from '../../../support/observers.ts';
import { onnxModel } from '../../../support/onnx.ts';
import {
  answerOf,
  eventOf,
  inferRequest,
  type SentRequest,
  textBytes,
} from '../../../support/open-inference.ts';
import { openModelBytes } from '../../../support/runner.ts';

const EMPTY: SentRequest = { body: Buffer.alloc(0), headers: {} };
const X = { name: 'x', datatype: 'FP32', shape: [2, 2], data: [0.5, 2, 1e-9, -1] };
const classesOf = (classification: unknown, more = {}) => ({
  outputs: [{ name: 'x_out', parameters: { classification, ...more } }],
});

test('index, configuration and statistics are at the paths of Triton', async (t) => {
  const statistics = new Inferences(Date.now);
  const observers = quietObservers(statistics);
  const deps = { jobName: 'job', batchSize: 8, statistics, observers };
  const handle = handlerOf(await new Models(t).runner('pair'), deps);
  const ask = async (method: string, path: string, request = EMPTY) => {
    const { status, bytes } = answerOf(await handle(eventOf(request, path, method)));
    assert.equal(status, 200, bytes.toString());
    return JSON.parse(bytes.toString()) as unknown;
  };
  const json = (body: string) => ({
    body: Buffer.from(body),
    headers: { 'content-type': 'application/json' },
  });
  const index = [{ name: 'job', version: 'test', state: 'READY', reason: '' }];
  for (const body of ['', '{}', '{"ready":true}'])
    assert.deepEqual(await ask('POST', '/v2/repository/index', json(body)), index);
  assert.deepEqual(await ask('POST', '/v2/repository/mine/index'), index);
  for (const path of ['/v2/models/job/config', '/v2/models/job/versions/test/config']) {
    const { name, max_batch_size } = (await ask('GET', path)) as Record<string, unknown>;
    assert.deepEqual([name, max_batch_size], ['job', 8]);
  }
  await ask('POST', '/v2/models/job/infer', inferRequest([X]));
  const tooWide = inferRequest([{ ...X, shape: [1, 4] }]);
  assert.equal(answerOf(await handle(eventOf(tooWide, '/v2/models/job/infer'))).status, 400);
  for (const path of ['/v2/models/stats', '/v2/models/job/stats', '/v2/models/job/versions/test/stats']) {
    const [stats] = ((await ask('GET', path)) as { model_stats: ModelStatistics[] }).model_stats;
    assert.ok(stats);
    const { inference_stats: sums, batch_stats, ...counts } = stats;
    assert.deepEqual([counts.name, counts.inference_count, counts.execution_count], ['job', 2, 1]);
    assert.deepEqual([sums.success.count, sums.fail.count, batch_stats[0]?.batch_size], [1, 1, 2]);
    assert.ok(
      counts.last_inference > 1e12 && sums.compute_infer.ns > 0 && sums.success.ns > sums.compute_infer.ns,
    );
  }
});

test('models are not loaded, unloaded or shared, and the refusal says what to do', async (t) => {
  const handle = handlerOf(await new Models(t).runner('pair'));
  const refusals = [
    ['/v2/repository/models/x/load', /published with: cluster-serving model push$/],
    ['/v2/repository/models/x/unload', /cluster-serving model push$/],
    ['/v2/repository/mine/models/x/load', /cluster-serving model push$/],
    ['/v2/systemsharedmemory/status', /^shared memory is not served; send the tensor in the body$/],
    ['/v2/cudasharedmemory/region/a/register', /^shared memory is not served/],
  ] as const;
  for (const [path, message] of refusals) {
    const { status, error } = answerOf(await handle(eventOf(EMPTY, path, 'POST')));
    assert.equal(status, 400, path);
    assert.match(error().error, message);
    assert.deepEqual(Object.keys(error()), ['error', 'code']);
  }
});

describe('classification', () => {
  it('answers the largest of each row as texts, binary or JSON', async (t) => {
    const ask = endpointOf(await new Models(t).runner('pair'));
    const first = async (k: number, more = {}) =>
      (await ask(inferRequest([X], classesOf(k, more)))).received().outputs[0];
    const expected = { name: 'x_out', datatype: 'BYTES', shape: [2, 1], data: ['2.0:1', '1.0E-9:0'] };
    assert.deepEqual(await first(1), expected);
    const two = ['2.0:1', '0.5:0', '1.0E-9:0', '-1.0:1'];
    for (const k of [2, 1_000]) assert.deepEqual(await first(k), { ...expected, shape: [2, 2], data: two });
    assert.deepEqual((await first(2, { binary_data: true }))?.bytes, textBytes(two));
    assert.equal((await first(0))?.datatype, 'FP32');
  });

  const output = (shape: number[], ...values: number[]): NamedTensor => ({
    name: 'y',
    dtype: 'float32',
    shape,
    data: Float32Array.from(values),
  });
  const spec = (batchAxis: TensorSpec['batchAxis'] = 0): TensorSpec => ({
    name: 'y',
    dtype: 'float32',
    shape: [],
    batchAxis,
  });

  it('keeps the order of equal values, has NaN last, and labels rows of as many values', () => {
    const row = output([1, 5], 1, Number.NaN, 3, 1, 3);
    const labels = ['a', 'b', 'c', 'd', 'e'];
    assert.deepEqual(classified({ ...row, labels }, spec(), 5), {
      name: 'y',
      dtype: 'string',
      shape: [1, 5],
      data: ['3.0:2:c', '3.0:4:e', '1.0:0:a', '1.0:3:d', 'nan:1:b'],
    });
    // Ordered by more candidates than are kept at once.
    const many = output([1, 9], 5, 1, 7, 7, 2, 9, 7, 0, 9);
    assert.deepEqual(classified(many, spec(), 4).data, ['9.0:5', '9.0:8', '7.0:2', '7.0:3']);
    // Five labels of a last axis are not those of ten values.
    const deep = output([1, 2, 5], ...Array.from({ length: 10 }, (_, i) => i));
    assert.deepEqual(classified({ ...deep, labels }, spec(), 2).data, ['9.0:9', '8.0:8']);
  });

  it('orders an output without a batch dimension as a whole', () => {
    const { shape, data } = classified(output([2, 2], 1, 4, 3, Infinity), spec('none'), 3);
    assert.deepEqual([shape, data], [[3], ['inf:3', '4.0:1', '3.0:2']]);
    assert.deepEqual(classified(output([], 7), spec('none'), 3).data, ['7.0:0']);
  });

  it('compares integers of 64 bits as they are', () => {
    const data = BigInt64Array.of(2n ** 53n, 2n ** 53n + 1n);
    const ids: NamedTensor = { name: 'y', dtype: 'int64', shape: [1, 2], data };
    assert.deepEqual(classified(ids, spec(), 1).data, ['9007199254740993:1']);
  });

  it('makes at most a million texts', () => {
    const data = new Float32Array(1_000_002);
    const wide: NamedTensor = { name: 'y', dtype: 'float32', shape: [2, 500_001], data };
    assert.throws(() => classified(wide, spec(), 500_001), /1000002 classes are over the limit of 1000000/);
    assert.equal(classified(wide, spec(), 2).data.length, 4);
  });

  for (const [name, model, count, message] of [
    ['half a class', 'pair', 0.5, /output "x_out": classification: expected a whole number, got 0\.5/],
    ['fewer than none', 'pair', -1, /classification: expected a whole number, got -1/],
    ['texts', 'texts', 1, /output "x_out": classification orders numbers, not string/],
    ['flags', 'bool', 1, /classification orders numbers, not bool/],
  ] as const) {
    it(`refuses ${name}`, async (t) => {
      const answer = await endpointOf(await new Models(t).runner(model))(inferRequest([X], classesOf(count)));
      assert.equal(answer.status, 400);
      assert.match(answer.error().error, message);
    });
  }

  it('refuses what does not say where its rows are', async (t) => {
    const runner = await new Models(t).runner('pair');
    const outputs = (axis: number) => [{ ...spec(axis), name: 'x_out' }];
    for (const [declared, message] of [
      [{ outputs: outputs(1) }, /needs the batch dimension in front; here it is axis 1/],
      [{ outputs: undefined }, /needs a model that declares its outputs/],
    ] as const) {
      const changed = Object.assign(Object.create(runner), declared);
      const { error } = await endpointOf(changed)(inferRequest([X], classesOf(1)));
      assert.match(error().error, message);
    }
  });
});

describe('compression', () => {
  const codings = [
    ['gzip', gzipSync, gunzipSync],
    ['deflate', deflateSync, inflateSync],
  ] as const;
  for (const [coding, compress, expand] of codings) {
    it(`${coding} is read, and answered to a client that asks for it alone`, async (t) => {
      const ask = endpointOf(await new Models(t).runner('pair'));
      for (const [input, rest] of [
        [X, {}],
        [pairs(1, 2, 3, 4), ALL_BINARY],
      ] as const) {
        const { body, headers } = inferRequest([input], rest);
        const plain = await ask({ body, headers });
        const sent = { body: compress(body), headers: { ...headers, 'content-encoding': coding } };
        assert.deepEqual((await ask(sent)).bytes, plain.bytes);
        const asking = { body, headers: { ...headers, 'accept-encoding': coding } };
        const answer = await ask(asking);
        assert.equal(answer.headers['content-encoding'], coding);
        assert.deepEqual(expand(answer.bytes), plain.bytes);
        const length = 'inference-header-content-length';
        assert.equal(answer.headers[length], plain.headers[length]);
        // What libraries send by themselves is no wish.
        const usual = await ask({ body, headers: { ...headers, 'accept-encoding': 'gzip, deflate' } });
        assert.deepEqual([usual.headers['content-encoding'], usual.bytes], [undefined, plain.bytes]);
      }
    });

    it(`${coding}: a body that grows over the limit is refused, and an error is not compressed`, async (t) => {
      const ask = endpointOf(await new Models(t).runner('pair'));
      const headers = { 'content-encoding': coding, 'accept-encoding': coding };
      const { status, error } = await ask({
        body: compress(Buffer.alloc(LIMITS.httpBodyBytes + 1, ' ')),
        headers,
      });
      assert.equal(status, 413);
      assert.match(error().error, /httpBodyBytes/);
      const broken = await ask({ body: Buffer.from('no such thing'), headers });
      assert.equal(broken.status, 400);
      assert.match(broken.error().error, new RegExp(`^the ${coding} body cannot be read`));
    });
  }
});

test('a request that has waited longer than its timeout does not run', async (t) => {
  const runner = await new Models(t).runner('pair');
  const request = (timeout: number) => inferRequest([X], { parameters: { timeout } });
  let ms = 0;
  const limiter = { acquire: async () => void (ms += 10) };
  const observers = together([], () => ms);
  const ask = endpointOf(runner, { limiter, observers });
  assert.equal((await ask(request(20_000))).status, 200);
  const late = await ask(request(9_000));
  assert.equal(late.status, 504);
  assert.match(late.error().error, /no time left/);
});

test('a text of the model that is not UTF-8 is refused, and one that a caller sent comes back', async (t) => {
  const bytes = Buffer.from(
    onnxModel({
      inputs: [{ name: 'x', dtype: 'int64', shape: ['N', 1] }],
      outputs: [{ name: 'y', dtype: 'string', shape: ['N', 1] }],
      nodes: [
        {
          op: 'LabelEncoder',
          domain: 'ai.onnx.ml',
          inputs: ['x'],
          outputs: ['y'],
          attributes: {
            keys_int64s: [0, 1],
            values_strings: { strings: ['good', 'b#d'] },
            default_string: '',
          },
        },
      ],
      domains: { 'ai.onnx.ml': 2 },
    }),
  );
  bytes[bytes.indexOf('b#d') + 1] = 0xff;
  const ask = endpointOf(await openModelBytes(t, bytes));
  const input = (id: number) => inferRequest([{ name: 'x', datatype: 'INT64', shape: [1, 1], data: [id] }]);
  assert.deepEqual((await ask(input(0))).received().outputs[0]?.data, ['good']);
  const bad = await ask(input(1));
  assert.equal(bad.status, 422);
  assert.match(bad.error().error, /output "y" holds U\+FFFD.* not UTF-8/);
  const echo = endpointOf(await new Models(t).runner('texts'));
  // As an escape: the character itself stands for bytes that API Gateway could not decode.
  const sent = { name: 'x', datatype: 'BYTES', shape: [1, 1], data: ['a%b'] };
  const request = inferRequest([sent]);
  const escaped = { ...request, body: Buffer.from(request.body.toString().replace('a%b', 'a\\ufffdb')) };
  assert.deepEqual((await echo(escaped)).received().outputs[0]?.data, ['a\ufffdb']);
});
