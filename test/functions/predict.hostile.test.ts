/** POST /predict through its handler, with real models in onnxruntime. */
import assert from 'node:assert/strict';
import { describe, it, type TestContext, test } from 'node:test';
import {
  assertRefusal,
  type BodyCase,
  bodyOf,
  type InstanceCase,
  textOf,
  watchMemory,
} from './hostile/cases.ts';
import { withImage } from './hostile/encoded-images.ts';
import { type Endpoint, predictEndpoint } from './hostile/endpoints.ts';
import { GOOD, type ModelName, Models } from './hostile/models.ts';
import { BASE64, CUT_IMAGES, IMAGES } from './hostile/tables/images.ts';
import { SPARSE } from './hostile/tables/sparse.ts';
import { BARE, CUTS, STRUCTURE, SYNTAX } from './hostile/tables/syntax.ts';
import { POSITIONS, VALUES } from './hostile/tables/values.ts';

const around = (instance: string) => `{"instances":[${instance}]}`;
const byPosition = (instance: string) => `{"instances":[${instance}],"bindByPosition":true}`;

async function assertServes(endpoint: Endpoint, model: ModelName): Promise<void> {
  const { status, body } = await endpoint(around(GOOD[model]));
  assert.equal(status, 200, JSON.stringify(body).slice(0, 300));
  assert.equal((body['predictions'] as string[]).length, 1);
}

function bodies(title: string, cases: readonly BodyCase[]): void {
  test(title, async (t: TestContext) => {
    const endpoint = predictEndpoint(await new Models(t).runner('pair'));
    const assertMemory = watchMemory();
    for (const [name, body, code, message] of cases) {
      await t.test(name, async () => assertRefusal(await endpoint(bodyOf(body)), code, message));
    }
    await assertServes(endpoint, 'pair');
    assertMemory();
  });
}

function instances(title: string, cases: readonly InstanceCase[], body = around): void {
  test(title, async (t: TestContext) => {
    const models = new Models(t);
    const assertMemory = watchMemory();
    const used = new Set<ModelName>();
    for (const [name, model, instance, code, message] of cases) {
      used.add(model);
      const endpoint = predictEndpoint(await models.runner(model));
      await t.test(name, async () => {
        assertRefusal(await endpoint(body(textOf(instance))), code, message);
      });
    }
    for (const model of used) await assertServes(predictEndpoint(await models.runner(model)), model);
    assertMemory();
  });
}

bodies('a body that is no JSON is refused, and the next one is served', SYNTAX);
bodies('a body without proper instances is refused, and the next one is served', STRUCTURE);
bodies('instances that are values and do not fit are refused, and the next one is served', BARE);
instances('numbers, texts, shapes and names that do not fit are refused, and the next is served', VALUES);
instances('inputs that bind by position are refused as others are', POSITIONS, byPosition);
instances('a sparse tensor that does not fit is refused, and the next is served', SPARSE);
instances('broken base64 is refused, and the next image is served', BASE64);
instances('an image that cannot be decoded is refused, and the next is served', IMAGES);

test('a good body that is cut at any byte is refused', async (t) => {
  const endpoint = predictEndpoint(await new Models(t).runner('pair'));
  for (const cut of CUTS) assertRefusal(await endpoint(cut), 'bad_request', /^the body is (not JSON|empty)/);
  await assertServes(endpoint, 'pair');
});

test('a good image that is cut at any of 50 places is refused', async (t) => {
  const endpoint = predictEndpoint(await new Models(t).runner('image'));
  for (const cut of CUT_IMAGES) {
    assertRefusal(
      await endpoint(around(withImage(cut))),
      'bad_input',
      /broken (PNG|JPEG): |expected a JPEG, .* image, got \d+ bytes/,
    );
  }
  await assertServes(endpoint, 'image');
});

describe('what only looks wrong is served', () => {
  const SERVED: readonly (readonly [name: string, model: ModelName, body: string, prediction: string])[] = [
    ['a byte order mark', 'pair', `\ufeff${around(GOOD.pair)}`, '{value={"data":[1.0,2.0],"shape":[2]}}'],
    ['-0', 'pair', around('{"x":[-0,0]}'), '{value={"data":[-0.0,0.0],"shape":[2]}}'],
    ['-0 as an integer', 'int8', around('{"x":[-0,0]}'), '{value={"data":[0,0],"shape":[2]}}'],
    ['1.0 as an integer', 'int32', around('{"x":[1.0,1e2]}'), '{value={"data":[1,100],"shape":[2]}}'],
    [
      '2^53 - 1',
      'int64',
      around('{"x":[9007199254740991,-9007199254740991]}'),
      '{value={"data":[9007199254740991,-9007199254740991],"shape":[2]}}',
    ],
    [
      'every digit of int64',
      'int64',
      around('{"x":[9223372036854775807,-9007199254740993]}'),
      '{value={"data":[9223372036854775807,-9007199254740993],"shape":[2]}}',
    ],
    [
      'an integer of many digits as a float',
      'pair',
      around('{"x":[9007199254740993,12345678901234567890]}'),
      '{value={"data":[9.007199E15,1.2345679E19],"shape":[2]}}',
    ],
    [
      'a number too small for a float',
      'pair',
      around('{"x":[1e-320,0]}'),
      '{value={"data":[0.0,0.0],"shape":[2]}}',
    ],
    [
      'a name twice, the last one good',
      'pair',
      around('{"x":"no","x":[3,4]}'),
      '{value={"data":[3.0,4.0],"shape":[2]}}',
    ],
    [
      '__proto__ as the only name',
      'pair',
      around('{"__proto__":[3,4]}'),
      '{value={"data":[3.0,4.0],"shape":[2]}}',
    ],
    [
      'emoji and a replacement character',
      'texts',
      around('{"x":["😀\\ufffd"]}'),
      '{value={"data":["😀\ufffd"],"shape":[1]}}',
    ],
    [
      'unsorted points',
      'grid',
      around('{"x":{"shape":[1,3],"data":[7,8,9],"indices":[[0,2],[0,0],[0,1]]}}'),
      '{value={"data":[8.0,9.0,7.0],"shape":[1,3]}}',
    ],
    [
      'a batch of one more than batchSize',
      'whole',
      around(`{"a":[${Array(33).fill('[1,2]').join()}],"b":[${Array(33).fill('[3]').join()}]}`),
      `{value=[{"data":[${Array(33).fill('1.0,2.0').join()}],"shape":[33,2]},{"data":[${Array(33).fill(3).join()}],"shape":[33,1]}]}`,
    ],
    ['16 dimensions', 'pair', around(`{"x":${'['.repeat(15)}[1,2]${']'.repeat(15)}}`), 'refused'],
  ];
  for (const [name, model, body, prediction] of SERVED) {
    it(name, async (t) => {
      const answer = await predictEndpoint(await new Models(t).runner(model))(body);
      if (prediction === 'refused') return assertRefusal(answer, 'bad_input', /got shape \[1,1,/);
      assert.deepEqual(answer.body, { predictions: [prediction] });
    });
  }
});

test('the first bad instance is named, and fails its request', async (t) => {
  const endpoint = predictEndpoint(await new Models(t).runner('pair'));
  const good = GOOD.pair;
  for (const index of [0, 1, 499, 999]) {
    const list = Array.from({ length: 1000 }, (_, i) => (i < index ? good : '{"x":[1]}'));
    const answer = await endpoint(`{"instances":[${list.join()}]}`);
    assertRefusal(
      answer,
      'bad_input',
      new RegExp(`^instances\\[${index}\\]: input "x": expected float32 \\[2\\]`),
    );
  }
  const { body } = await endpoint(`{"instances":[${Array(1000).fill(good).join()}]}`);
  assert.equal((body['predictions'] as string[]).length, 1000);
});
