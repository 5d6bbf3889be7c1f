/** A model beside which an import put a tokenizer is opened as one of texts. */
import assert from 'node:assert/strict';
import { copyFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { openOnnx } from '../../../lib/compose/onnx.ts';
import { expectedAnswers, textModelFolder } from '../../support/text-models.ts';

const SETTINGS = { threads: 1, batchSize: 8, inputAlreadyBatched: false, image: {} };
const TEXTS = {
  version: 1,
  kind: 'embedding',
  output: 'last_hidden_state',
  activation: 'none',
  pooling: ['mean'],
  normalize: true,
  maxTokens: 40,
  lowercase: false,
  pair: false,
  padding: { id: 0, type: 0, side: 'right', multipleOf: 1, fixed: null },
};

test('the vectors of an encoder are those of its texts', async (t) => {
  const folder = textModelFolder(t, 'encoder');
  const file = join(folder, 'model.onnx');
  await copyFile(join(folder, 'onnx/model.onnx'), file);
  const plain = await openOnnx(file, '1', SETTINGS);
  assert.ok(plain.inputs.length > 1 && plain.inputs.every(({ isText }) => !isText));
  await plain.close();
  await writeFile(join(folder, 'text.json'), JSON.stringify(TEXTS));
  const runner = await openOnnx(file, '1', SETTINGS);
  t.after(() => runner.close());
  assert.deepEqual(
    runner.inputs.map(({ name, isText }) => [name, isText]),
    [['text', true]],
  );
  const wanted = expectedAnswers('encoder').filter(({ pair }) => !pair);
  assert.ok(wanted.length > 1);
  const outcomes = await runner.run(
    wanted.map(({ text }) => new Map([['text', { kind: 'json', value: text } as const]])),
  );
  for (const [i, { text, embedding = [], tokens }] of wanted.entries()) {
    const outcome = outcomes[i];
    assert.ok(outcome?.ok, text);
    const [output] = outcome.outputs;
    assert.deepEqual(output?.tokens, [tokens], text);
    for (const [at, value] of embedding.entries())
      assert.ok(Math.abs(Number(output?.data[at]) - value) < 1e-5, `${text}: ${at}`);
  }
});

test('settings that no import wrote are refused', async (t) => {
  const folder = textModelFolder(t, 'encoder');
  const file = join(folder, 'model.onnx');
  await copyFile(join(folder, 'onnx/model.onnx'), file);
  for (const wrong of [
    '{',
    'null',
    JSON.stringify({ ...TEXTS, version: 2 }),
    JSON.stringify({ ...TEXTS, pooling: ['sum'] }),
  ]) {
    await writeFile(join(folder, 'text.json'), wrong);
    await assert.rejects(openOnnx(file, '1', SETTINGS), {
      code: 'bad_model',
      message: /text\.json: it is not what/,
    });
  }
});
