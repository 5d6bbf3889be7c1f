/** Malicious files: each ends in one bad_model error, or in a graph. CS_FUZZ makes more of them. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ServingError } from '../../../lib/contract/errors.ts';
import { type Case, convertBytes, readCases, shapesOf } from '../support/bigdl/cases.ts';
import { moduleBytes, textsAttribute } from '../support/bigdl/writer.ts';

const ROUNDS = Number(process.env['CS_FUZZ'] ?? 60);
const NAMES = ['LeNet', 'LSTM', 'Graph', 'keras-Conv2D', 'Padding', 'Transpose', 'AvgNHWC', 'Lookup'];

/** True when it was refused as bad_model; anything but that or a graph fails the test. */
async function isRefused(model: Buffer, inputs: Case['inputs']): Promise<boolean> {
  try {
    await convertBytes(model, shapesOf(inputs));
    return false;
  } catch (error) {
    assert.ok(error instanceof ServingError && error.code === 'bad_model', String((error as Error).stack));
    assert.ok(error.message.length < 20_000);
    return true;
  }
}

function numbers(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
}

/** Cuts, flips, repeats or puts huge numbers into a part of the file. */
function mutated(model: Buffer, next: () => number): Buffer {
  const at = Math.floor(next() * model.length);
  const kind = Math.floor(next() * 4);
  if (kind === 0) return model.subarray(0, at);
  const broken = Buffer.from(model);
  if (kind === 1) broken[at] = Math.floor(next() * 256);
  else if (kind === 2) {
    const part = broken.subarray(at, at + Math.floor(next() * 200));
    return Buffer.concat([broken.subarray(0, at), part, broken.subarray(at)]);
  } else broken.fill(0xff, at, Math.min(broken.length, at + Math.floor(next() * 9)));
  return broken;
}

const cases = readCases();
for (const name of NAMES)
  test(`mutations of ${name} are refused or converted, never worse`, async () => {
    const one = cases.find((each) => each.name === name);
    assert.ok(one, name);
    const { model, inputs } = one;
    const right = Buffer.from(model, 'base64');
    const next = numbers(name.length * 7919);
    let refused = 0;
    for (let i = 0; i < ROUNDS; i++) if (await isRefused(mutated(right, next), inputs)) refused++;
    assert.ok(refused > 0);
  });

const ONE: Case['inputs'] = [{ shape: [1, 2], data: [] }];

test('modules nested without end are refused', async () => {
  let model = moduleBytes({ type: 'nn.Tanh' });
  for (let i = 0; i < 5000; i++) model = moduleBytes({ type: 'nn.Sequential', children: [model] });
  assert.ok(await isRefused(model, ONE));
});

test('a long chain in a graph is converted without running out of stack', async () => {
  const length = 20_000;
  const children = Array.from({ length }, (_, i) =>
    moduleBytes({
      type: i === 0 ? 'nn.Input' : 'nn.Identity',
      name: `m${i}`,
      before: i === 0 ? [] : [`m${i - 1}`],
    }),
  );
  const attributes = { inputNames: textsAttribute('m0'), outputNames: textsAttribute(`m${length - 1}`) };
  const model = moduleBytes({ type: 'nn.StaticGraph', attributes, children: children.reverse() });
  await convertBytes(model, { inputShapes: { m0: [1, 2] } });
});

test('huge sizes in attributes are refused before anything is made', async () => {
  const huge = 2 ** 31 - 1;
  const models = [
    { type: 'nn.Replicate', attributes: { nFeatures: huge, dim: 2, nDim: huge } },
    { type: 'nn.Padding', attributes: { dim: 2, pad: huge, nInputDim: 2, nIndex: 1 } },
    { type: 'nn.Transpose', attributes: { size: huge } },
    { type: 'nn.LookupTable', attributes: { nIndex: huge, nOutput: huge } },
    { type: 'nn.Tile', attributes: { dim: 2, copies: huge } },
    { type: 'nn.BatchNormalization', attributes: { nOutput: huge, affine: false } },
    {
      type: 'nn.LocallyConnected2D',
      attributes: {
        nInputPlane: huge,
        nOutputPlane: huge,
        inputHeight: huge,
        inputWidth: huge,
        kernelH: 1000,
        kernelW: 1000,
      },
    },
  ];
  for (const model of models) assert.ok(await isRefused(moduleBytes(model), ONE), model.type);
});
