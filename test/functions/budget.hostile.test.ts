/** What the images and sparse tensors of one request, or of one queued record, may become together. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { decodeInstances } from '../../lib/codecs/instances.ts';
import { encodeMessage } from '../../lib/codecs/message.ts';
import { ServingError } from '../../lib/contract/errors.ts';
import { LIMITS } from '../../lib/contract/limits.ts';
import type { Inputs, TensorSpec, Value } from '../../lib/contract/values.ts';
import { assertDecodedSize } from '../../lib/pipeline/bind/decoded-size.ts';
import { infer } from '../../lib/pipeline/infer.ts';
import { identityModel } from '../support/onnx.ts';
import { openModelBytes } from '../support/runner.ts';
import { assertRefusal, type Refusal } from './hostile/cases.ts';
import { flatPng, greyPng, headerPng, withImage } from './hostile/encoded-images.ts';
import {
  deliver,
  openStore,
  predictEndpoint,
  predictionsEndpoint,
  storedFailure,
} from './hostile/endpoints.ts';
import { GOOD, Models } from './hostile/models.ts';

const SIDE = 4096;
const bodyOf = (instances: readonly string[]) => `{"instances":[${instances.join()}]}`;
const largest = flatPng(SIDE, SIDE, 1);
const pixels = (count: number, what: string) =>
  new RegExp(
    `^the images of this ${what} have ${count} pixels together, over the limit of ${LIMITS.pixelsPerRequest} \\(pixelsPerRequest\\)$`,
  );

test('four images of the largest size are one request, and a pixel more is too much', async (t) => {
  const endpoint = predictEndpoint(await new Models(t).runner('image'));
  const four = Array<string>(4).fill(withImage(largest));
  const { status, body } = await endpoint(bodyOf(four));
  assert.equal(status, 200);
  assert.equal((body['predictions'] as string[]).length, 4);
  const more = bodyOf([...four, withImage(greyPng(1, 1))]);
  assertRefusal(await endpoint(more), 'too_large', pixels(4 * SIDE * SIDE + 1, 'request'));
});

test('a request of 300 images that are five gigapixels is refused by their headers alone', async (t) => {
  const endpoint = predictEndpoint(await new Models(t).runner('image'));
  const real = bodyOf(Array<string>(300).fill(withImage(largest)));
  assert.ok(real.length < 1_000_000, `${real.length} bytes`);
  assertRefusal(await endpoint(real), 'too_large', pixels(300 * SIDE * SIDE, 'request'));
  // These end right behind their header: decoding any of them would be another error.
  const headers = bodyOf(Array<string>(300).fill(withImage(headerPng(SIDE, SIDE))));
  assertRefusal(await endpoint(headers), 'too_large', pixels(300 * SIDE * SIDE, 'request'));
  assert.equal((await endpoint(bodyOf([GOOD.image]))).status, 200);
});

test('a thousand thumbnails are one request', async (t) => {
  const endpoint = predictEndpoint(await new Models(t).runner('image'));
  const { status, body } = await endpoint(bodyOf(Array<string>(1000).fill(withImage(greyPng(16, 16)))));
  assert.equal(status, 200);
  assert.equal((body['predictions'] as string[]).length, 1000);
});

test('an image over its own limit is refused for that, among however many others', async (t) => {
  const endpoint = predictEndpoint(await new Models(t).runner('image'));
  const bodies = [...Array<string>(9).fill(GOOD.image), withImage(headerPng(14_000, 14_000))];
  assertRefusal(
    await endpoint(bodyOf(bodies)),
    'too_large',
    /^instances\[9\]: input "x": an image of 14000x14000 pixels/,
  );
});

test('images that cannot be read count nothing, and the first of them is named', async (t) => {
  const endpoint = predictEndpoint(await new Models(t).runner('image'));
  const bodies = [GOOD.image, '{"x":"*"}', ...Array<string>(300).fill('{"x":"%"}')];
  assertRefusal(await endpoint(bodyOf(bodies)), 'bad_input', /^instances\[1\]: .* unexpected "\*"/);
});

test('text that happens to be an image counts nothing for a model of texts', async (t) => {
  const endpoint = predictEndpoint(await new Models(t).runner('texts'));
  const { x } = JSON.parse(withImage(largest)) as { x: string };
  const { status } = await endpoint(bodyOf(Array<string>(300).fill(JSON.stringify({ x: [x] }))));
  assert.equal(status, 200);
});

const grid: TensorSpec = { name: 'x', dtype: 'float32', shape: ['N', 'h', 'w'] };
const image: TensorSpec = { name: 'x', dtype: 'float32', shape: ['N', 3, 'h', 'w'] };
const sparse = (rows: number, columns: number): Inputs =>
  new Map([
    [
      'x',
      {
        kind: 'sparse',
        shape: [rows, columns],
        indices: Int32Array.of(0, 0),
        indicesShape: [1, 2],
        values: { dtype: 'float32', shape: [1], data: Float32Array.of(1) },
      } satisfies Value,
    ],
  ]);

function refusalOf(work: () => void): Refusal {
  try {
    work();
  } catch (error) {
    assert.ok(error instanceof ServingError);
    return { code: error.code, error: error.message };
  }
  return {};
}

test('sparse tensors are counted by what they become', async (t) => {
  const four = Array.from({ length: 4 }, () => sparse(8192, 8192));
  assert.deepEqual(
    refusalOf(() => assertDecodedSize(four, [grid], {}, 'request')),
    {},
  );
  const refused = refusalOf(() => assertDecodedSize([...four, sparse(1, 1)], [grid], {}, 'request'));
  const message =
    /^the images and sparse tensors of this request become 268435457 elements together, over the limit of 268435456 \(elementsPerRequest\)$/;
  assertRefusal(refused, 'too_large', message);
  const endpoint = predictEndpoint(await new Models(t).runner('grid'));
  const one = '{"x":{"shape":[8192,8192],"data":[1],"indices":[[0,0]]}}';
  assertRefusal(
    await endpoint(bodyOf(Array<string>(1000).fill(one))),
    'too_large',
    /become 67108864000 elements/,
  );
  // 10^18 is no shape that any tensor may have: it counts nothing, and is refused where it is bound.
  const huge = '{"x":{"shape":[1e9,1e9],"data":[1],"indices":[[0,0]]}}';
  assertRefusal(
    await endpoint(bodyOf(Array<string>(1000).fill(huge))),
    'too_large',
    /^instances\[0\]: input "x": shape \[1000000000,1000000000\] is over the limit of 67108864 elements/,
  );
});

test('small images that a model wants large are counted by what they become', () => {
  const dot: Inputs = new Map([['x', { kind: 'image', bytes: greyPng(1, 1) }]]);
  const large = { width: SIDE, height: SIDE };
  const five = [dot, dot, dot, dot, dot];
  assert.deepEqual(
    refusalOf(() => assertDecodedSize(five, [image], large, 'request')),
    {},
  );
  const refused = refusalOf(() => assertDecodedSize([...five, dot], [image], large, 'request'));
  assertRefusal(refused, 'too_large', /become 301989888 elements together/);
});

test('a queued record has the budget of a request, and an event of many records has not', async (t) => {
  const store = await openStore(t);
  const names = ['a', 'b', 'c', 'd', 'e'];
  const runner = await openModelBytes(
    t,
    identityModel(names.map((name) => ({ name, dtype: 'float32', shape: ['N', 1, 8, 8] }))),
  );
  const of = (bytes: Uint8Array): Inputs =>
    new Map(
      names.map((name, i): [string, Value] => [
        name,
        { kind: 'image', bytes: i > 0 ? bytes : greyPng(1, 1) },
      ]),
    );
  const small = greyPng(16, 16);
  const records: [string, Inputs][] = [
    ['small', of(small)],
    ['just too large', of(largest)],
    ['within', of(flatPng(SIDE, SIDE - 1, 1))],
    ['headers', of(headerPng(SIDE, SIDE))],
    ['large beside it', of(flatPng(SIDE, 2048, 1))],
    ['after', of(small)],
  ];
  const messages = records.map(([uri, inputs]) => ({ id: uri, body: encodeMessage(uri, inputs) }));
  assert.deepEqual(await deliver(store, runner, messages), []);
  for (const uri of ['just too large', 'headers']) {
    const failure = (await storedFailure(store, uri)) as Refusal;
    assertRefusal(failure, 'too_large', pixels(4 * SIDE * SIDE + 1, 'record'));
  }
  for (const uri of ['small', 'within', 'large beside it', 'after']) {
    assert.equal(await storedFailure(store, uri), undefined);
  }
});

test('POST /predictions takes what may be too much: each record is judged when it runs', async () => {
  const { endpoint, sent } = predictionsEndpoint();
  const { status } = await endpoint(bodyOf(Array<string>(300).fill(withImage(largest))));
  assert.equal(status, 202);
  assert.equal(sent.length, 300);
});

const pair: TensorSpec = { name: 'x', dtype: 'float32', shape: ['N', 2] };
const settings = {
  maxRows: 2,
  maxBytes: 1,
  separable: true,
  inputAlreadyBatched: false,
  image: {},
};

/** A record that must not be looked into. */
class Untouchable extends Map<string, Value> {
  override get(): never {
    throw new Error('it was looked into');
  }
}

test('the instances of one request are decoded up to the first that fails, and no further', async () => {
  const records = decodeInstances('{"instances":[{"x":[1,2]},{"x":[1]}]}');
  const untouchable = new Untouchable([['x', { kind: 'json', value: [1, 2] }]]);
  let runs = 0;
  const run = async () => {
    runs++;
    return [{ name: 'y', dtype: 'float32' as const, shape: [1, 2], data: Float32Array.of(1, 2) }];
  };
  await assert.rejects(infer([...records, untouchable], [pair], settings, run, { failFast: true }), {
    code: 'bad_input',
    message: /^instances\[1\]: input "x": expected float32 \[2\]/,
  });
  assert.equal(runs, 1, 'the first instance filled its run before the second was looked at');
  const apart = await infer([...records, untouchable], [pair], settings, run);
  assert.deepEqual(
    apart.map((outcome) => outcome.ok || outcome.error.code),
    [true, 'bad_input', 'internal'],
  );
});

test('when the model fails on one instance of a request, nothing runs after it', async () => {
  const records = decodeInstances(bodyOf(Array<string>(10).fill('{"x":[1,2]}')));
  let runs = 0;
  const run = async () => {
    if (++runs === 3) throw new Error('no');
    return [{ name: 'y', dtype: 'float32' as const, shape: [1, 2], data: Float32Array.of(1, 2) }];
  };
  await assert.rejects(infer(records, [pair], settings, run, { failFast: true }), {
    code: 'model_failed',
    message: 'instances[2]: the model failed on this record: no',
  });
  assert.equal(runs, 3);
});

test('exactly the budget of elements is one request, and one element more is too much', () => {
  const specs: TensorSpec[] = [{ name: 'x', dtype: 'float32', shape: ['N', 'n'] }];
  const vector = (count: number): Inputs => {
    const values = { dtype: 'float32', shape: [0], data: new Float32Array(0) } as const;
    const indices = new Int32Array(0);
    return new Map([['x', { kind: 'sparse', shape: [count], indices, indicesShape: [0], values }]]);
  };
  const MiB = 1_048_576;
  const four = [64, 64, 64, 32].map((size) => vector(size * MiB));
  assertDecodedSize([...four, vector(32 * MiB)], specs, {}, 'request');
  assert.throws(() => assertDecodedSize([...four, vector(32 * MiB + 1)], specs, {}, 'request'), {
    code: 'too_large',
    message: /268435457 elements together/,
  });
});

test('images that come as {"b64"} count like others', () => {
  const specs: TensorSpec[] = [{ name: 'x', dtype: 'float32', shape: ['N', 3, 'h', 'w'] }];
  const b64 = Buffer.from(headerPng(SIDE, SIDE)).toString('base64');
  const five = Array.from({ length: 5 }, (): Inputs => new Map([['x', { kind: 'json', value: { b64 } }]]));
  assert.throws(() => assertDecodedSize(five, specs, {}, 'request'), {
    code: 'too_large',
    message: pixels(5 * SIDE * SIDE, 'request'),
  });
});
