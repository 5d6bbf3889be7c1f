/** Random graphs of the operators that have rules: what the analysis proves must hold on onnxruntime. */
import { test } from 'node:test';
import { assertPlantedNeverProven, assertProofsHold } from './assert-proofs.ts';

test('of 200 random graphs, every one that is proven answers alone as in company', async (t) => {
  await assertProofsHold(t, { from: 0, count: 200 });
});

test('of 100 random graphs with an operator that mixes rows, none is proven', async (t) => {
  await assertPlantedNeverProven(t, { from: 0, count: 100 });
});
