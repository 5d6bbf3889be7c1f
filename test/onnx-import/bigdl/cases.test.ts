/**
 * Every module against BigDL itself: cases.jsonl.gz holds models that BigDL 0.13 saved, with an input and its answer.
 * generate/README.md says how the file is made.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { sliceTensor, type Tensor } from '../../../lib/contract/tensor.ts';
import type { Conversion } from '../../../onnx-import/conversion.ts';
import { type Case, convertBytes, readCases, runGraph, shapesOf, tensorOf } from '../support/bigdl/cases.ts';

/** Relative to the largest element of an output. */
const TOLERANCE = 1e-5;

const SHIFTING = /has left thresholds other than 0, with which each of its answers differs/;
const DROPPING = /has a cell with dropout, which BigDL applies at random/;
const UNKNOWN = /is not supported/;

/** Cases that are refused, because of what they are or because there is no rule. */
const REFUSED: readonly (readonly [name: RegExp, message: RegExp])[] = [
  [/^(SReLU|SReLU[34]|keras-SReLU)$/, SHIFTING],
  [/drop$|Drop$/, DROPPING],
  [/^(Max|Avg)-6-3-2-0-true/, /rounds only the height up/],
  [/^MixtureTable$/, /needs 2 tensors/],
  [/^Q/, /import the model as it was before quantize\(\)/],
  [/^VolFull/, UNKNOWN],
  [/^(SubtractiveNorm|DivisiveNorm|ConvMap|Local1D|PriorBox\w*|RoiPooling|MultiRNN|Decoder)$/, UNKNOWN],
];

/** Modules whose answer for one record depends on the others, or on the number of them. */
const BOUND = /^(ReshapeWhole|ReshapeNone|ViewAll|InferReshape|Index|VolConv4|SoftM(ax|in)3?)$/;

function convert({ name, model, weights, inputs }: Case): Promise<Conversion> {
  // Models in Keras's style say their shapes.
  const options = name.startsWith('keras-') ? {} : shapesOf(inputs);
  const bytes = (text: string) => Buffer.from(text, 'base64');
  return convertBytes(bytes(model), options, weights === undefined ? undefined : bytes(weights));
}

function assertEqual(actual: readonly Tensor[], expected: readonly Tensor[]): void {
  assert.deepEqual(
    actual.map(({ shape }) => shape),
    expected.map(({ shape }) => shape),
  );
  for (const [i, { data }] of expected.entries()) {
    const wanted = data as Float32Array;
    const spread = wanted.reduce((most, x) => Math.max(most, Math.abs(x)), 1e-6);
    for (const [j, want] of wanted.entries()) {
      const got = actual[i]?.data[j] as number;
      assert.ok(
        Object.is(got, want) || Math.abs(got - want) <= TOLERANCE * spread,
        `output ${i}, element ${j}: ${got}, BigDL answers ${want}`,
      );
    }
  }
}

function firstRow(tensor: Tensor): Tensor {
  const [rows, ...shape] = tensor.shape;
  return sliceTensor(tensor, [1, ...shape], 0, tensor.data.length / (rows as number));
}

async function check(one: Case): Promise<void> {
  const made = await convert(one);
  const [inputs, outputs] = [one.inputs.map(tensorOf), one.outputs.map(tensorOf)];
  const isFree = made.graph.inputs.every(({ shape }) => shape?.[0] === 'N');
  const rows = isFree ? inputs.map(firstRow) : undefined;
  const [all, first] = await runGraph(made, rows ? [inputs, rows] : [inputs]);
  assertEqual(all as Tensor[], outputs);
  if (first) assertEqual(first, outputs.map(firstRow));
  const isBatch = inputs.every(({ shape }) => shape.length > 1 && shape[0] === 2);
  if (isBatch && !BOUND.test(one.name)) assert.ok(isFree, `the batch is not free: ${made.notes.join('; ')}`);
}

const cases = readCases();

test('the cases are there', () => {
  assert.ok(cases.length > 400);
  assert.equal(new Set(cases.map(({ name }) => name)).size, cases.length);
});

for (const one of cases) {
  const refusal = REFUSED.find(([name]) => name.test(one.name));
  if (refusal)
    test(`${one.name} is refused by name`, async () => {
      await assert.rejects(convert(one), { code: 'bad_model', message: refusal[1] });
    });
  else
    test(`${one.name} answers as BigDL does`, async () => {
      assert.ok(!one.unstable, 'BigDL answered differently the second time');
      await check(one);
    });
}
