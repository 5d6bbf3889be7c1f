/** Answers in plain JSON: which requests get them, and what they hold. */
import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { describe, test } from 'node:test';
import type { PredictDeps } from '../../../functions/predict.ts';
import { openOnnx } from '../../../lib/compose/onnx.ts';
import { encodePng } from '../../../lib/http/worker/png.ts';
import type { OnnxSettings } from '../../../lib/inference/runner.ts';
import { parseFilter } from '../../../lib/pipeline/answer/postprocess.ts';
import { predictEndpoint } from '../../functions/hostile/endpoints.ts';
import { identityModel } from '../../support/onnx.ts';
import { type Hooks, openModelBytes, SETTINGS, temporaryFolder } from '../../support/runner.ts';
import { passing } from '../../support/tensorflow-serving.ts';

type Values = Parameters<typeof passing>[0];

async function asking(
  t: Hooks,
  values: Values,
  settings: Partial<OnnxSettings> = {},
  deps: Partial<PredictDeps> = {},
) {
  const ask = predictEndpoint(await openModelBytes(t, passing(values), settings), deps);
  return async (body: unknown, query: Record<string, string> = {}) => {
    const answer = await ask(JSON.stringify(body), { query });
    return answer.status === 200 ? answer.body : answer.error;
  };
}

const PAIR: Values = { x: ['float32', 'N', 2] };

describe('the body decides the form of the answer', () => {
  test('objects of inputs by name have the texts of the contract, and plain JSON on request', async (t) => {
    const ask = await asking(t, PAIR);
    const named = { instances: [{ x: [1, 2] }, { x: [3, 4.5] }] };
    assert.deepEqual(Object.keys((await ask(named)) as object), ['predictions']);
    const plain = { outputs: { x_out: [[1, 2], [3, 4.5]] }, model: 'test' }; // biome-ignore format: short
    assert.deepEqual(await ask(named, { form: 'plain' }), plain);
    assert.equal(await ask(named, { form: 'short' }), 'form: expected plain, got "short"');
    for (const body of [
      { instances: [[1, 2], [3, 4.5]] },
      { inputs: [[1, 2], [3, 4.5]] },
      { inputs: { x: [[1, 2], [3, 4.5]] } },
      { inputs: [{ x: [1, 2] }, { x: [3, 4.5] }] },
    ]) // biome-ignore format: short
      assert.deepEqual(await ask(body), plain, JSON.stringify(body));
  });

  test('long rows without names are read as others are', async (t) => {
    const row = Array.from({ length: 5_000 }, (_, i) => i / 8);
    const ask = await asking(t, { x: ['float32', 'N', 5_000] });
    for (let turn = 0; turn < 2; turn++) {
      assert.deepEqual(await ask({ instances: [row, row] }), {
        outputs: { x_out: [row, row] },
        model: 'test',
      });
    }
  });

  test('columns of several inputs make rows; what is no list is shared by all', async (t) => {
    const ask = await asking(t, { a: ['float32', 'N'], b: ['string', 'N'] });
    assert.deepEqual(await ask({ inputs: { b: 'same', a: [1, 2] } }), {
      outputs: { a_out: [1, 2], b_out: ['same', 'same'] },
      model: 'test',
    });
    assert.deepEqual(await ask({ inputs: { a: 1, b: 'one' } }), {
      outputs: { a_out: [1], b_out: ['one'] },
      model: 'test',
    });
    assert.match(
      String(await ask({ inputs: [1, 2] })),
      /instances\[0\]: missing input "a", "b", unknown input "\(value\)"/,
    );
  });

  test('one text is one row', async (t) => {
    const ask = await asking(t, { text: ['string', 'N'] });
    assert.deepEqual(await ask({ inputs: 'a text', parameters: {} }), {
      outputs: { text_out: ['a text'] },
      model: 'test',
    });
  });
});

test('labels are those of the largest value, by the one rule for ties and NaN', async (t) => {
  const file = join(await temporaryFolder(t), 'model.onnx');
  await writeFile(file, passing({ x: ['float32', 'N', 3] }));
  await writeFile(join(dirname(file), 'labels.txt'), 'cat\ndog\nbird\n');
  const runner = await openOnnx(file, 'test', SETTINGS);
  t.after(() => runner.close());
  const endpoint = predictEndpoint(runner);
  const ask = async (body: unknown) => (await endpoint(JSON.stringify(body))).body;
  assert.deepEqual(await ask({ instances: [[0, 2, 1], [1, 1, 0], [0, 0, 3]] }), {
    outputs: { x_out: [[0, 2, 1], [1, 1, 0], [0, 0, 3]] },
    labels: { x_out: ['dog', 'cat', 'bird'] },
    model: 'test',
  }); // biome-ignore format: short
});

test('a filter keeps its form, as JSON', async (t) => {
  const ask = await asking(t, PAIR, {}, { filter: parseFilter('topN(1)') });
  assert.deepEqual(await ask({ instances: [[1, 2], [4, 3]] }), { filtered: [[[1, 2]], [[0, 4]]], model: 'test' }); // biome-ignore format: short
});

test('an instance that does not fit fails its request with its index', async (t) => {
  const ask = await asking(t, PAIR);
  assert.equal(
    await ask({ instances: [[1, 2], [1]] }),
    'instances[1]: input "(value)": expected float32 [2], got shape [1]',
  );
});

test('a form has images and texts as inputs by name', async (t) => {
  const png = Buffer.from(await encodePng({ width: 1, height: 1, data: Uint8Array.of(10, 20, 30) }));
  const model = identityModel([
    { name: 'picture', dtype: 'float32', shape: ['N', 3, 1, 1] },
    { name: 'word', dtype: 'string', shape: ['N'] },
    { name: 'age', dtype: 'float32', shape: ['N'] },
  ]);
  const ask = predictEndpoint(await openModelBytes(t, model));
  const field = (name: string, content: Buffer | string) =>
    Buffer.concat([
      Buffer.from(`--b\r\ncontent-disposition: form-data; name="${name}"\r\n\r\n`),
      Buffer.from(content),
      Buffer.from('\r\n'),
    ]);
  const post = async (...fields: Buffer[]) => {
    const headers = { 'content-type': 'multipart/form-data; boundary=b' };
    const answer = await ask(Buffer.concat([...fields, Buffer.from('--b--\r\n')]), { headers });
    return answer.status === 200 ? answer.body['outputs'] : answer.error;
  };
  assert.deepEqual(await post(field('picture', png), field('word', 'größe'), field('age', '42')), {
    picture_out: [[[[30]], [[20]], [[10]]]],
    word_out: ['größe'],
    age_out: [42],
  });
  assert.match(
    String(await post(field('picture', png), field('word', Buffer.of(0xff)))),
    /the field "word" of the form is neither/,
  );
  assert.match(String(await post(field('uri', 'a'))), /no field for an input/);
});
