/** Modules of PyTorch's static quantization answer as torch does (quantized.py), within 1e-5 of the spread, or are refused. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { assertAnswers, importArchive, readCases } from '../support/pytorch/answers.ts';

const CASES = readCases(new URL('quantized.json.gz', import.meta.url)).map((each) => ({
  ...each,
  bytes: Buffer.from(each.model, 'latin1'),
  shapes: Object.fromEntries(Object.entries(each.inputs).map(([key, { shape }]) => [key, shape])),
}));

suite('quantized modules', () => {
  for (const { bytes, shapes, ...each } of CASES.filter(({ name }) => !name.startsWith('refused')))
    test(`${each.name}: the converted model answers as torch does`, async (t) => {
      await assertAnswers(t, await importArchive(t, 'model.pt', bytes, shapes), each);
    });

  const refused: readonly (readonly [name: string, message: RegExp])[] = [
    ['no dequantize', /the model returns a quantized tensor; let it end with dequantize\(\)/],
    [
      'dynamic',
      /ops\.quantized\.linear_dynamic \(node ".*"\): takes the range of the whole batch, so records would depend on each other; save the model before quantize_dynamic/,
    ],
  ];
  for (const [name, message] of refused)
    test(`${name} is refused with what to do`, async (t) => {
      const found = CASES.find((each) => each.name === `refused: ${name}`);
      assert.ok(found);
      await assert.rejects(importArchive(t, 'model.pt', found.bytes, found.shapes), message);
    });
});
