/** /v2, the Open Inference Protocol, through the handler of POST /predict, with real models in onnxruntime. */
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, it, test } from 'node:test';
import { gzipSync } from 'node:zlib';
import type { PredictDeps } from '../../../functions/predict.ts';
import { ServingError } from '../../../lib/contract/errors.ts';
import { SERVER_VERSION } from '../../../lib/contract/names.ts';
import type { TypedArray } from '../../../lib/contract/tensor.ts';
import type { Inputs, Runner } from '../../../lib/contract/values.ts';
import { type ModelName, Models } from '../../functions/hostile/models.ts';
import { ALL_BINARY, endpointOf, floats, handlerOf, pairs } from '../../support/inference-endpoint.ts';
import { quietObservers } from '../../support/observers.ts';
import { identityModel, onnxModel } from '../../support/onnx.ts';
import {
  answerOf,
  bytesOf,
  eventOf,
  inferRequest,
  type SentRequest,
  type SentTensor,
  textBytes,
} from '../../support/open-inference.ts';
import { openModelBytes } from '../../support/runner.ts';
import { ROOT } from '../../support/start.ts';

function get(runner: Runner, deps: Partial<PredictDeps> = {}) {
  const handle = handlerOf(runner, deps);
  return async (path: string, method = 'GET') => {
    const { status, bytes } = answerOf(
      await handle(eventOf({ body: Buffer.alloc(0), headers: {} }, path, method)),
    );
    return { status, body: JSON.parse(bytes.toString()) as Record<string, unknown> };
  };
}

/** Model, datatype, its numbers as bytes and as JSON. */
const DTYPES: readonly (readonly [ModelName, string, Uint8Array, readonly unknown[]])[] = [
  ['bool', 'BOOL', Uint8Array.of(1, 0, 0, 1), [true, false, false, true]],
  ['uint8', 'UINT8', Uint8Array.of(0, 1, 254, 255), [0, 1, 254, 255]],
  ['uint16', 'UINT16', bytesOf(Uint16Array.of(0, 1, 256, 65_535)), [0, 1, 256, 65_535]],
  ['uint32', 'UINT32', bytesOf(Uint32Array.of(0, 1, 2 ** 31, 2 ** 32 - 1)), [0, 1, 2 ** 31, 2 ** 32 - 1]],
  ['uint64', 'UINT64', bytesOf(BigUint64Array.of(0n, 1n, 2n ** 53n - 1n, 7n)), [0, 1, 2 ** 53 - 1, 7]],
  ['int8', 'INT8', bytesOf(Int8Array.of(-128, -1, 0, 127)), [-128, -1, 0, 127]],
  ['int16', 'INT16', bytesOf(Int16Array.of(-32_768, -1, 0, 32_767)), [-32_768, -1, 0, 32_767]],
  [
    'int32',
    'INT32',
    bytesOf(Int32Array.of(-(2 ** 31), -1, 0, 2 ** 31 - 1)),
    [-(2 ** 31), -1, 0, 2 ** 31 - 1],
  ],
  ['int64', 'INT64', bytesOf(BigInt64Array.of(-(2n ** 53n) + 1n, -1n, 0n, 9n)), [1 - 2 ** 53, -1, 0, 9]],
  ['half', 'FP16', bytesOf(Uint16Array.of(0x3c00, 0xc000, 0x7bff, 0x3555)), [1, -2, 65_504, 0.333251953125]],
  ['pair', 'FP32', floats(1.5, -0.25, 1e10, 0.1), [1.5, -0.25, 1e10, 0.1]],
  ['double', 'FP64', bytesOf(Float64Array.of(1.5, -0.25, 1e300, 0.1)), [1.5, -0.25, 1e300, 0.1]],
  ['texts', 'BYTES', textBytes(['a', '', 'wörld', '😀']), ['a', '', 'wörld', '😀']],
];

test('every datatype comes back from a model that gives back its input, binary and JSON, either way', async (t) => {
  const models = new Models(t);
  for (const [model, datatype, bytes, data] of DTYPES) {
    await t.test(datatype, async () => {
      const ask = endpointOf(await models.runner(model));
      const input = { name: 'x', datatype, shape: [2, 2] };
      const nested = [data.slice(0, 2), data.slice(2)];
      for (const sent of [{ bytes }, { data }, { data: nested }]) {
        for (const binary of [true, false]) {
          const rest = { parameters: { binary_data_output: binary } };
          const { status, received, bytes: all } = await ask(inferRequest([{ ...input, ...sent }], rest));
          assert.equal(status, 200, all.toString());
          const [output] = received().outputs;
          const expected = { name: 'x_out', datatype, shape: [2, 2] };
          if (binary) assert.deepEqual(output, { ...expected, bytes: Buffer.from(bytes) });
          // Shortest digits that give the same half back: 0.3333 is one, 0.333251953125 its value.
          else if (datatype === 'FP16') assert.deepEqual(output?.data, [1, -2, 65_504, 0.3333]);
          else assert.deepEqual(output, { ...expected, data });
        }
      }
    });
  }
});

test('an integer beyond 2^53 is read and written with all its digits, and refused where JSON has lost them', async (t) => {
  const ask = endpointOf(await new Models(t).runner('int64'));
  const input = { name: 'x', datatype: 'INT64', shape: [1, 2] };
  const extremes = BigInt64Array.of(-(2n ** 63n), 2n ** 63n - 1n);
  const { bytes } = await ask(inferRequest([{ ...input, bytes: bytesOf(extremes) }]));
  assert.match(bytes.toString(), /"data":\[-9223372036854775808,9223372036854775807\]/);
  const asJson = (data: string) => ({
    body: Buffer.from(`{"inputs":[{"name":"x","datatype":"INT64","shape":[1,2],"data":${data}}]}`),
    headers: { 'content-type': 'application/json' },
  });
  for (const data of [
    '[-9223372036854775808,9223372036854775807]',
    '[[9007199254740993,-9007199254740993]]',
  ]) {
    const answer = (await ask(asJson(data))).bytes.toString();
    assert.equal(JSON.stringify(answer).includes(data.replaceAll(/\[\[|\]\]/g, '')), true, answer);
  }
  const refusals = [
    ['[9007199254740993.0,0]', /^input "x": 9007199254740992 is beyond 2\^53/],
    ['[9223372036854775808,0]', /^input "x": expected -9223372036854775808 to .* got 9223372036854775808$/],
  ] as const;
  for (const [data, message] of refusals) {
    const { status, error } = await ask(asJson(data));
    assert.equal(status, 400);
    assert.match(error().error, message);
  }
});

test('what JSON has no word for is null there, and exact as bytes', async (t) => {
  const ask = endpointOf(await new Models(t).runner('pair'));
  const input = pairs(Number.NaN, Number.POSITIVE_INFINITY);
  assert.deepEqual((await ask(inferRequest([input]))).received().outputs[0]?.data, [null, null]);
  const { received } = await ask(inferRequest([input], ALL_BINARY));
  assert.deepEqual(received().outputs[0]?.bytes, input.bytes);
});

test('the answer names model, version and id, and its binary outputs begin on a boundary of 8', async (t) => {
  const runner = await new Models(t).runner('two');
  const ask = endpointOf(runner, { jobName: 'job' });
  const inputs: SentTensor[] = [
    { name: 'b', datatype: 'INT64', shape: [3, 1], bytes: bytesOf(BigInt64Array.of(1n, 2n, 3n)) },
    { name: 'a', datatype: 'FP32', shape: [3, 2], bytes: floats(1, 2, 3, 4, 5, 6) },
  ];
  for (const id of ['', 'x', 'ünï', 'a longer one']) {
    const { status, headers, received } = await ask(
      inferRequest(inputs, { id, ...ALL_BINARY }),
      '/v2/models/job/versions/test/infer',
    );
    assert.equal(status, 200);
    assert.equal(headers['content-type'], 'application/octet-stream');
    assert.equal(headers['model-version'], 'test');
    assert.equal(Number(headers['inference-header-content-length']) % 8, 0);
    const { json, outputs } = received();
    assert.deepEqual([json['model_name'], json['model_version'], json['id']], ['job', 'test', id]);
    assert.deepEqual(outputs, [
      { name: 'a_out', datatype: 'FP32', shape: [3, 2], bytes: inputs[1]?.bytes },
      { name: 'b_out', datatype: 'INT64', shape: [3, 1], bytes: inputs[0]?.bytes },
    ]);
  }
  const { received, headers } = await ask(inferRequest(inputs), '/v2/models/job/infer');
  assert.equal('id' in received().json, false);
  assert.equal(headers['content-type'], 'application/json; charset=utf-8');
  assert.equal(headers['inference-header-content-length'], undefined);
});

test('outputs come in the order they were asked for, each as it was asked for', async (t) => {
  const ask = endpointOf(await new Models(t).runner('two'));
  const inputs: SentTensor[] = [
    { name: 'a', datatype: 'FP32', shape: [1, 2], data: [1, 2] },
    { name: 'b', datatype: 'INT64', shape: [1, 1], data: [3] },
  ];
  const outputs = [{ name: 'b_out', parameters: { binary_data: true } }, { name: 'a_out' }];
  const both = (await ask(inferRequest(inputs, { outputs }))).received().outputs;
  assert.deepEqual(both, [
    { name: 'b_out', datatype: 'INT64', shape: [1, 1], bytes: bytesOf(BigInt64Array.of(3n)) },
    { name: 'a_out', datatype: 'FP32', shape: [1, 2], data: [1, 2] },
  ]);
  const one = (await ask(inferRequest(inputs, { outputs: outputs.slice(1) }))).received().outputs;
  assert.deepEqual(one, both.slice(1));
});

describe('a shape has the batch dimension, whatever the job says of its instances', () => {
  for (const inputAlreadyBatched of [true, false]) {
    it(`inputAlreadyBatched: ${inputAlreadyBatched}`, async (t) => {
      const bytes = identityModel([{ name: 'x', dtype: 'float32', shape: ['N', 2] }]);
      const ask = endpointOf(await openModelBytes(t, bytes, { inputAlreadyBatched, batchSize: 2 }));
      for (const rows of [1, 2, 3, 1_001]) {
        const input = pairs(...Array.from({ length: rows * 2 }, (_, i) => i));
        const [output] = (await ask(inferRequest([input], ALL_BINARY))).received().outputs;
        assert.deepEqual(output?.shape, [rows, 2]);
        assert.deepEqual(output.bytes, input.bytes);
      }
      const row = { name: 'x', datatype: 'FP32', shape: [2], data: [1, 2] };
      const { status, error } = await ask(inferRequest([row]));
      assert.equal(status, 400);
      assert.match(error().error, /^input "x": expected float32 \[N,2\], got shape \[2\]$/);
    });
  }

  it('a batch that the model fixes is taken as it is, and no other', async (t) => {
    const ask = endpointOf(await new Models(t).runner('fixed'));
    const input = pairs(1, 2, 3, 4, 5, 6, 7, 8);
    const [output] = (await ask(inferRequest([input], ALL_BINARY))).received().outputs;
    assert.deepEqual(output?.bytes, input.bytes);
    for (const rows of [1, 3, 8]) {
      const { status, error } = await ask(inferRequest([pairs(...Array<number>(rows * 2).fill(0))]));
      assert.equal(status, 400);
      assert.equal(error().error, `input "x": expected float32 [4,2], got shape [${rows},2]`);
    }
  });

  it('outputs that do not follow the rows are given whole', async (t) => {
    const model = onnxModel({
      inputs: [{ name: 'x', dtype: 'float32', shape: ['N', 2] }],
      outputs: [{ name: 'sum', dtype: 'float32', shape: [] }],
      nodes: [{ op: 'ReduceSum', inputs: ['x'], outputs: ['sum'], attributes: { keepdims: 0 } }],
    });
    const ask = endpointOf(await openModelBytes(t, model));
    const [output] = (await ask(inferRequest([pairs(1, 2, 3, 4)]))).received().outputs;
    assert.deepEqual(output, { name: 'sum', datatype: 'FP32', shape: [], data: [10] });
  });
});

test('numbers of another datatype are taken where each of them fits', async (t) => {
  const ask = endpointOf(await new Models(t).runner('pair'));
  const small = { name: 'x', datatype: 'UINT8', shape: [1, 2], bytes: Uint8Array.of(7, 255) };
  assert.deepEqual((await ask(inferRequest([small]))).received().outputs[0]?.data, [7, 255]);
  const large = { name: 'x', datatype: 'FP64', shape: [1, 2], data: [1, 1e39] };
  const { status, error } = await ask(inferRequest([large]));
  assert.equal(status, 400);
  assert.match(error().error, /^input "x": expected at most 3\.40.*\(float32\), got 1e\+39$/);
});

describe('a body of one tensor without JSON', () => {
  const raw = (bytes: Uint8Array, type = 'application/octet-stream'): SentRequest => ({
    body: Buffer.from(bytes),
    headers: { 'content-type': type, 'inference-header-content-length': '0' },
  });
  const values = floats(1, 2, 3, 4, 5, 6, 7, 8);
  const served: readonly (readonly [ModelName, Uint8Array, readonly number[]])[] = [
    ['pair', values, [4, 2]],
    ['vector', values, [1, 8]],
    ['fixed', values, [4, 2]],
    ['bool', Uint8Array.of(1, 0, 1, 1), [2, 2]],
    ['double', bytesOf(Float64Array.of(1, 2)), [1, 2]],
  ];
  for (const [model, bytes, shape] of served) {
    it(`${model}: its shape is [${shape.join()}], and its outputs are binary`, async (t) => {
      const { received } = await endpointOf(await new Models(t).runner(model))(raw(bytes));
      const [output] = received().outputs;
      assert.deepEqual(output?.shape, shape);
      assert.deepEqual(output.bytes, Buffer.from(bytes));
    });
  }

  const refused: readonly (readonly [string, ModelName, SentRequest, RegExp])[] = [
    [
      'half a row',
      'pair',
      raw(floats(1, 2, 3)),
      /12 bytes do not make FP32 \[N,2\], which takes 8 times a whole/,
    ],
    ['nothing', 'pair', raw(Buffer.alloc(0)), /0 bytes do not make/],
    [
      'a row too few',
      'fixed',
      raw(floats(1, 2, 3, 4, 5, 6)),
      /24 bytes do not make FP32 \[4,2\], which takes 32$/,
    ],
    ['two inputs', 'two', raw(values), /the model has 2 inputs, expected one/],
    ['texts', 'texts', raw(textBytes(['a'])), /the model takes texts/],
    [
      'height and width',
      'grid',
      raw(values),
      /FP32 \[N,h,w\] has more free dimensions than its length tells/,
    ],
    [
      'text',
      'pair',
      raw(Buffer.from('12345678'), 'application/json'),
      /it came as text; send it with content-type/,
    ],
    ['2 as a flag', 'bool', raw(Uint8Array.of(1, 2)), /^input "x": expected bytes of 0 and 1/],
  ];
  for (const [name, model, request, message] of refused) {
    it(`is refused: ${name}`, async (t) => {
      const { status, error } = await endpointOf(await new Models(t).runner(model))(request);
      assert.match(error().error, message);
      assert.equal(status, 400);
    });
  }
});

test('a gzipped body is read, and its header counts the bytes of the JSON before', async (t) => {
  const ask = endpointOf(await new Models(t).runner('pair'));
  const { body, headers } = inferRequest([pairs(1, 2)]);
  const zipped = { body: gzipSync(body), headers: { ...headers, 'content-encoding': 'gzip' } };
  assert.deepEqual((await ask(zipped)).received().outputs[0]?.data, [1, 2]);
});

test('the tensors of a base64 body begin on a boundary of 8 and share its memory', async () => {
  let seen: readonly TypedArray[] = [];
  const runner: Runner = {
    version: 'v',
    async run(records) {
      const values = [...(records[0] as Inputs).values()];
      seen = values.map((value) =>
        value.kind === 'tensor' ? (value.tensor.data as TypedArray) : assert.fail(),
      );
      return [{ ok: true, outputs: [] }];
    },
    close: async () => undefined,
  };
  const ask = endpointOf(runner);
  for (let length = 1; length < 20; length++) {
    const { status } = await ask(
      inferRequest([
        { name: 'x'.repeat(length), datatype: 'FP64', shape: [1], bytes: bytesOf(Float64Array.of(length)) },
        { name: 'y', datatype: 'INT64', shape: [1], bytes: bytesOf(BigInt64Array.of(7n)) },
      ]),
    );
    assert.equal(status, 200);
    const [x, y] = seen as [Float64Array, BigInt64Array];
    assert.deepEqual([x[0], y[0], x.byteOffset % 8], [length, 7n, 0]);
    assert.equal(y.buffer, x.buffer);
  }
});

test('an answer that Lambda would not carry is refused, with its size', async (t) => {
  const model = onnxModel({
    inputs: [{ name: 'x', dtype: 'float32', shape: ['N', 1] }],
    outputs: [{ name: 'y', dtype: 'float32', shape: ['N', 1_200_000] }],
    nodes: [{ op: 'Tile', inputs: ['x', 'times'], outputs: ['y'] }],
    weights: [{ name: 'times', dtype: 'int64', shape: [2], data: BigInt64Array.of(1n, 1_200_000n) }],
  });
  const ask = endpointOf(await openModelBytes(t, model));
  const input = { name: 'x', datatype: 'FP32', shape: [1, 1], data: [0.125] };
  for (const rest of [ALL_BINARY, {}]) {
    const { status, error } = await ask(inferRequest([input], rest));
    assert.equal(status, 413);
    assert.match(error().error, /the answer .*over the limit of 6291456/);
  }
});

describe('paths', () => {
  test('metadata says what the model takes and gives, free dimensions as -1', async (t) => {
    const runner = await new Models(t).runner('two');
    const expected = {
      name: 'job',
      versions: ['test'],
      platform: 'onnxruntime_onnx',
      inputs: [
        { name: 'a', datatype: 'FP32', shape: [-1, 2] },
        { name: 'b', datatype: 'INT64', shape: [-1, 1] },
      ],
      outputs: [
        { name: 'a_out', datatype: 'FP32', shape: [-1, 2] },
        { name: 'b_out', datatype: 'INT64', shape: [-1, 1] },
      ],
    };
    const ask = get(runner, { jobName: 'job' });
    for (const path of ['/v2/models/job', '/v2/models/job/versions/test'])
      for (const method of ['GET', 'HEAD'])
        assert.deepEqual(await ask(path, method), { status: 200, body: expected });
  });

  test('outputs whose last axis counts classes alone have names', async (t) => {
    const [x] = [{ name: 'x', dtype: 'float32', shape: ['N', 2] }] as const;
    const outputs = [x, { ...x, name: 'rows', shape: ['N'] }];
    const names = { columns: { x: ['age', 'fare'] }, labels: { x: ['a', 'b'], rows: ['a', 'b'] } };
    const runner = await openModelBytes(t, identityModel([x]));
    const { body } = await get({ ...runner, inputs: [x], outputs, names })('/v2/models/serving_stream');
    const named = (ports: unknown) =>
      (ports as { parameters?: { names?: string[] } }[]).map(({ parameters }) => parameters?.names);
    assert.deepEqual(named(body['inputs']), [['age', 'fare']]);
    assert.deepEqual(named(body['outputs']), [['a', 'b'], undefined]);
  });

  test('server metadata has the version of package.json', async (t) => {
    const { version } = JSON.parse(await readFile(join(ROOT, 'package.json'), 'utf8')) as { version: string };
    assert.equal(SERVER_VERSION, version);
    const { body } = await get(await new Models(t).runner('pair'))('/v2');
    assert.deepEqual([body['name'], body['version']], ['cluster-serving', version]);
  });

  const ready: readonly (readonly [string, object])[] = [
    ['/v2/health/live', { live: true }],
    ['/v2/health/ready', { ready: true }],
    ['/v2/models/serving_stream/ready', { name: 'serving_stream', ready: true }],
    ['/v2/models/serving_stream/versions/test/ready', { name: 'serving_stream', ready: true }],
  ];
  for (const [path, body] of ready) {
    test(`GET ${path} answers 200`, async (t) => {
      assert.deepEqual(await get(await new Models(t).runner('pair'))(path), { status: 200, body });
    });
  }

  test('without a model the server lives and is not ready', async (t) => {
    const model = {
      use: () => Promise.reject(new ServingError('model_unavailable', 's3://secret/place is empty')),
    };
    const ask = get(await new Models(t).runner('pair'), { model });
    assert.equal((await ask('/v2/health/live')).status, 200);
    assert.equal((await ask('/v2')).status, 200);
    for (const path of ['/v2/health/ready', '/v2/models/serving_stream/ready', '/v2/models/serving_stream']) {
      const { status, body } = await ask(path);
      assert.equal(status, 503);
      assert.equal(body['error'], 'no model is loaded (yet); the log says why');
    }
  });

  const missing: readonly (readonly [string, string, RegExp])[] = [
    ['GET', '/v2/models/other', /^no model "other"; the model of this job is "serving_stream"$/],
    ['GET', '/v2/models/other/ready', /^no model "other"/],
    ['POST', '/v2/models/other/infer', /^no model "other"/],
    [
      'GET',
      '/v2/models/serving_stream/versions/1',
      /^no version "1" of "serving_stream"; version "test" serves$/,
    ],
    ['GET', '/v2/models/serving_stream/versions/1/ready', /^no version "1"/],
    ['POST', '/v2/models/serving_stream/versions/1/infer', /^no version "1"/],
    ['GET', '/v2/models', /^no such path: GET "\/v2\/models"$/],
    ['GET', '/v2/models/serving_stream/infer', /^no such path: GET/],
    ['POST', '/v2/models/serving_stream', /^no such path: POST/],
    ['GET', '/v2/repository/index', /^no such path: GET "\/v2\/repository\/index"$/],
    ['POST', '/v2/models/stats', /^no such path/],
    ['GET', '/v2/models/other/stats', /^no model "other"/],
    ['GET', '/v2/health/ready/now', /^no such path/],
    ['GET', '/v2/models/serving_stream/versions/1/config', /^no version "1"/],
    ['POST', '/v2/models/serving_stream/config', /^no such path/],
  ];
  for (const [method, path, message] of missing) {
    test(`${method} ${path} answers 404 in the protocol's form`, async (t) => {
      const handle = handlerOf(await new Models(t).runner('pair'));
      const { status, error } = answerOf(await handle(eventOf(inferRequest([pairs(1, 2)]), path, method)));
      assert.equal(status, 404);
      assert.match(error().error, message);
    });
  }
});

test('infer takes a token, and what only asks takes none', async (t) => {
  let asked = 0;
  const limiter = {
    acquire() {
      asked++;
      return Promise.reject(
        new ServingError('rate_limited', 'over 1 requests per second', { retryAfterSeconds: 2 }),
      );
    },
  };
  const runner = await new Models(t).runner('pair');
  for (const path of ['/v2', '/v2/health/ready', '/v2/models/serving_stream'])
    assert.equal((await get(runner, { limiter })(path)).status, 200);
  assert.equal(asked, 0);
  const { status, headers, error } = await endpointOf(runner, { limiter })(inferRequest([pairs(1, 2)]));
  assert.deepEqual([asked, status, headers['retry-after']], [1, 429, '2']);
  assert.equal(error().error, 'over 1 requests per second');
});

test('a run for which there is no time is not begun', async (t) => {
  const left = [29_000, 29_000, 0];
  const clock = { getRemainingTimeInMillis: () => left.shift() ?? 0 };
  const handle = handlerOf(await new Models(t).runner('pair'));
  const { status, error } = answerOf(await handle(eventOf(inferRequest([pairs(1, 2)])), clock));
  assert.equal(status, 504);
  assert.match(error().error, /no time left/);
});

test('rows are counted, and a failure by its code', async (t) => {
  const counted: number[] = [];
  const observers = quietObservers({ rowsRead: (rows) => counted.push(rows) });
  const handle = handlerOf(await new Models(t).runner('pair'), { observers });
  await handle(eventOf(inferRequest([pairs(1, 2, 3, 4, 5, 6)])));
  assert.deepEqual(counted, [3]);
  const { error } = answerOf(await handle(eventOf(inferRequest([]))));
  assert.equal(error().code, 'bad_request');
});
