/** A turn of Scan for each row keeps rows apart, whatever its body does; words of texts are padded to the longest of a run. */
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import type { DType } from '../../../lib/contract/tensor.ts';
import { readModel } from '../../../onnx-import/batching/model.ts';
import { type Proof, proofOf } from '../../../onnx-import/batching/proof.ts';
import { GraphBuilder } from '../../../onnx-import/graph/builder.ts';
import type { Attributes, Value } from '../../../onnx-import/graph/value.ts';
import { onnxBytes } from '../../../onnx-import/onnx/write.ts';
import { temporaryFolder } from '../../support/runner.ts';

async function prove(
  t: TestContext,
  dtype: DType,
  make: (g: GraphBuilder, x: Value) => Value,
): Promise<Proof> {
  const g = new GraphBuilder();
  g.output('y', make(g, g.input('x', dtype, dtype === 'string' ? ['N'] : ['N', 3])));
  const file = join(await temporaryFolder(t), 'model.onnx');
  writeFileSync(file, onnxBytes(g.finish()));
  return proofOf(readModel(file), new Map());
}

/** A Scan along axis 0 of x. The body may use what is outside of it. */
function scan(
  g: GraphBuilder,
  x: Value,
  make: (body: GraphBuilder, row: Value) => Value,
  attributes: Attributes = {},
): Value {
  const body = g.body();
  const made = make(body, body.input('row', x.dtype, x.shape?.slice(1)));
  body.output('made', made);
  return g.add(
    'Scan',
    [x],
    { body: { body: body.finish() }, num_scan_inputs: 1, ...attributes },
    {
      results: [{ dtype: made.dtype, shape: ['N', ...(made.shape ?? [])] }],
    },
  )[0] as Value;
}

const softmax = (body: GraphBuilder, row: Value) => body.one('Softmax', [row], { axis: 0 });

test('a turn for each row is proven, whatever its body mixes within the row', async (t) => {
  const proof = await prove(t, 'float32', (g, x) => scan(g, x, softmax));
  assert.equal(proof.end?.message, undefined);
});

test('a turn for each row is not proven when the rows come out in another order', async (t) => {
  for (const name of ['scan_input_directions', 'scan_output_directions']) {
    const proof = await prove(t, 'float32', (g, x) => scan(g, x, softmax, { [name]: [1] }));
    assert.match(proof.end?.message ?? '', /order of the rows/, name);
  }
});

test('a turn for each row is not proven when its body sees all rows', async (t) => {
  const sum = await prove(t, 'float32', (g, x) =>
    scan(g, x, (body, row) =>
      body.one('Add', [row, body.one('ReduceSum', [x, body.ints([0])], { keepdims: 0 })]),
    ),
  );
  assert.equal(sum.end?.operator, 'ReduceSum');
  const all = await prove(t, 'float32', (g, x) => scan(g, x, (body, row) => body.one('Mul', [row, x])));
  assert.match(all.end?.message ?? '', /sees all rows|not known/);
  const count = await prove(t, 'float32', (g, x) =>
    scan(g, x, (body, row) => {
      const rows = body.one('Shape', [x], { start: 0, end: 1 });
      return body.one('Mul', [row, body.one('Cast', [rows], { to: 1 })]);
    }),
  );
  assert.notEqual(count.end, undefined);
});

test('a change of case is proven, and is not when stop words may move the other texts', async (t) => {
  const lower = { case_change_action: 'LOWER', locale: 'C' };
  const plain = await prove(t, 'string', (g, x) => g.one('StringNormalizer', [x], lower));
  assert.equal(plain.end?.message, undefined);
  const stop = { ...lower, stopwords: { strings: ['the'] } };
  const stopped = await prove(t, 'string', (g, x) => g.one('StringNormalizer', [x], stop));
  assert.equal(stopped.end?.operator, 'StringNormalizer');
});

test('the words of texts are not proven, because a row is as long as the longest text', async (t) => {
  const attributes = { mark: 0, mincharnum: 1, pad_value: '', separators: { strings: [' '] } };
  const proof = await prove(t, 'string', (g, x) => g.one('com.microsoft:Tokenizer', [x], attributes));
  assert.match(proof.end?.message ?? '', /longest text of the run/);
});
