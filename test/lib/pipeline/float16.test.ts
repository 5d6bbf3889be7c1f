/** float16 is raw bits inside; people and clients read it as numbers. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { resultLines } from '../../../cli/results.ts';
import { decodeArrowResult } from '../../../lib/codecs/arrow/result.ts';
import type { Inputs, NamedTensor } from '../../../lib/contract/values.ts';
import { resultText } from '../../../lib/pipeline/answer/result-text.ts';
import { computedBits, computedValue, float16Bits, float16Value } from '../../../lib/pipeline/bind/cast.ts';
import { parseResult, serializeResult } from '../../../lib/results/fields.ts';
import { HttpResults } from '../../../sdk/http-results.ts';
import { toInputs } from '../../../sdk/inputs.ts';
import { identityModel } from '../../support/onnx.ts';
import { openModelBytes } from '../../support/runner.ts';

const VALUES = [-1, 2, 0.1, Number.NaN];
const halves = () => Uint16Array.from(VALUES, float16Bits);
const half: NamedTensor = { name: 'y', dtype: 'float16', shape: [4], data: halves() };
const label: NamedTensor = { name: 'label', dtype: 'string', shape: [1], data: ['cat'] };

test('a float16 output beside a text is stored as numbers, and comes back as it was', () => {
  const fields = serializeResult({ ok: true, outputs: [half, label] }, undefined);
  assert.equal(fields.value, '[{"data":[-1.0,2.0,0.1,null],"shape":[4]},{"data":["cat"],"shape":[1]}]');
  assert.deepEqual(parseResult('u', { ...fields })?.outputs, [half, label]);
});

test('the filter of a stored float16 output orders its numbers', () => {
  const fields = serializeResult({ ok: true, outputs: [half] }, { kind: 'topN', n: 3 });
  assert.equal(fields.value, '[[1,2.0],[2,0.1],[0,-1.0]]');
});

test('an old client reads a float16 output as the float32 nearest to it', () => {
  const { value } = serializeResult({ ok: true, outputs: [half] }, undefined);
  const [tensor] = decodeArrowResult(Buffer.from(value, 'base64'));
  assert.deepEqual(tensor?.data, Float32Array.of(-1, 2, 0.0999755859375, Number.NaN));
});

test('a float16 result over HTTP has short numbers, and the client has the same bits again', async () => {
  const result = { uri: 'u', outputs: [half], filtered: undefined, model: 'v', finishedAt: 0, identity: 'i' };
  const text = resultText(result);
  assert.match(text, /"dtype":"float16","shape":\[4\],"data":\[-1\.0,2\.0,0\.1,null\]/);
  const results = new HttpResults('http://localhost', async () => new Response(text));
  assert.deepEqual((await results.get('u'))?.outputs, [half]);
});

test('query shows the numbers of a float16 output, and which is the largest', () => {
  const outputs = [{ ...half, shape: [3], data: halves().slice(0, 3) }];
  const result = { uri: 'u', outputs, filtered: undefined, model: 'v', finishedAt: 0, identity: 'i' };
  assert.equal(resultLines(result), 'u  y float16[3]  largest 2 at 1  -1, 2, 0.1');
});

test('the float16 tensor of a result may be sent unchanged, and reaches a model of any dtype as its numbers', async (t) => {
  const data = Uint16Array.from([-1, 2, 0.5], float16Bits);
  const sent: Inputs = await toInputs({ x: { dtype: 'float16', shape: [3], data } });
  for (const dtype of ['float16', 'float32'] as const) {
    const runner = await openModelBytes(t, identityModel([{ name: 'x', dtype, shape: ['N', 3] }]));
    const [outcome] = await runner.run([sent]);
    assert.ok(outcome?.ok);
    assert.deepEqual(outcome.outputs[0]?.data, dtype === 'float16' ? data : Float32Array.of(-1, 2, 0.5));
  }
});

test('the replacements of the DataView methods that Node 20 lacks agree on every half and between any two', () => {
  for (let bits = 0; bits < 65_536; bits++) {
    const value = float16Value(bits);
    assert.ok(Object.is(computedValue(bits), value), `${bits}`);
    const next = float16Value(bits + 1);
    for (const between of [
      value,
      (value + next) / 2,
      value + (next - value) * 0.499,
      value + (next - value) * 0.501,
    ])
      if (!Number.isNaN(between)) assert.equal(computedBits(between), float16Bits(between), `${between}`);
  }
  for (const value of [65_519.99, 65_520, -65_520, 1e300, Infinity, -Infinity, 5e-324, -0, 2 ** -25])
    assert.equal(computedBits(value), float16Bits(value), `${value}`);
});
