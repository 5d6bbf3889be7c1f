/** A record for a model of texts has one, also where its client sends it as a list. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { TensorSpec, Value } from '../../../lib/contract/values.ts';
import { bindRecord } from '../../../lib/pipeline/bind/bind.ts';

const TEXT: TensorSpec = { name: 'text', dtype: 'string', shape: ['N'], isText: true };
const LIST: Value = { kind: 'json', value: ['good'] };
const FORMS: readonly Value[] = [
  { kind: 'json', value: 'good' },
  LIST,
  { kind: 'tensor', tensor: { dtype: 'string', shape: [], data: ['good'] } },
  { kind: 'tensor', tensor: { dtype: 'string', shape: [1], data: ['good'] } },
];

async function bind(value: Value, spec: TensorSpec, inputAlreadyBatched = false) {
  const settings = { inputAlreadyBatched, image: {} };
  const { tensors, keepsBatchDim } = await bindRecord(new Map([['text', value]]), [spec], settings);
  return { tensors, keepsBatchDim };
}

test('a text is one row, and its answer has no axis of the batch', async () => {
  const tensors = [{ dtype: 'string', shape: [1], data: ['good'] }];
  for (const value of FORMS) assert.deepEqual(await bind(value, TEXT), { tensors, keepsBatchDim: false });
});

test('a list of one is a batch where the caller says so, and not a row of another input', async () => {
  assert.equal((await bind(LIST, TEXT, true)).keepsBatchDim, true);
  await assert.rejects(bind(LIST, { ...TEXT, isText: false }), { code: 'bad_input' });
});
