/** The number of each row as an index of the rows: proven where a row takes itself, and nowhere else. */
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import type { Tensor } from '../../../lib/contract/tensor.ts';
import { readModel } from '../../../onnx-import/batching/model.ts';
import { proofOf } from '../../../onnx-import/batching/proof.ts';
import { fixture } from '../../support/fixtures.ts';
import type { NodeSpec } from '../../support/onnx.ts';
import { temporaryFolder } from '../../support/runner.ts';
import { compareRows } from './compare-rows.ts';
import { node, type Sample, writeSample } from './prove-sample.ts';
import { random } from './random-graphs.ts';

const BATCHES = 200;
/** `r` are the numbers of the rows of `x`. */
const NUMBERS: readonly NodeSpec[] = [
  node('Shape', 'x', 's', { start: 0, end: 1 }),
  node('Squeeze', 's zero', 'n'),
  node('Squeeze', 'zero zero', 'from'),
  node('Squeeze', 'one zero', 'step'),
  node('Range', 'from n step', 'r'),
];
const INTS = {
  zero: [0],
  one: [1],
  minus: [-1],
  two: [2],
  four: [4],
  column: [-1, 1],
  pair: [1, 2],
  five: [5],
};
const INPUTS = { x: ['N', 4] };

function sample(nodes: readonly NodeSpec[], rest: Partial<Sample> = {}): Sample {
  return { inputs: INPUTS, ints: INTS, outputShape: ['N', 'a'], nodes: [...NUMBERS, ...nodes], ...rest };
}

const PROVEN: Readonly<Record<string, Sample>> = {
  'a gather': sample([node('Gather', 'x r', 'y')]),
  'a gather by an int32': sample([node('Cast', 'r', 'c', { to: 6 }), node('Gather', 'x c', 'y')]),
  'a gather by a moved and repeated number': sample(
    [
      node('Reshape', 'r column', 'c'),
      node('Tile', 'c pair', 't'),
      node('Transpose', 't', 'u', { perm: [1, 0] }),
      node('Transpose', 'u', 'v', { perm: [1, 0] }),
      node('Gather', 'x v', 'y'),
    ],
    { outputShape: ['N', 2, 4] },
  ),
  'a gather of several places': sample([node('Unsqueeze', 'r one', 'c'), node('GatherND', 'x c', 'y')]),
  'index tuples of the row and places of its own': sample(
    [
      node('Unsqueeze', 'r one', 'c'),
      node('Concat', 'c i', 'tuples', { axis: 1 }),
      node('GatherND', 'x tuples', 'y'),
    ],
    { inputs: { ...INPUTS, i: ['N', 1] }, outputShape: ['N'] },
  ),
};

/** `f` are the places of all rows of `z`, with `w` for each row; `k` are the places of one row, `c` the numbers of the rows. */
const PLACES: readonly NodeSpec[] = [
  node('Shape', 'z', 'ws', { start: 1, end: 2 }),
  node('Squeeze', 'ws zero', 'w'),
  node('Range', 'from w step', 'places'),
  node('Unsqueeze', 'places zero', 'k'),
  node('Reshape', 'z minus', 'f'),
  node('Unsqueeze', 'r one', 'c'),
];
const flat = (nodes: readonly NodeSpec[], rest: Partial<Sample> = {}) =>
  sample([...PLACES, ...nodes], { inputs: { ...INPUTS, z: ['N', 'w'] }, ...rest });
const FLAT: Readonly<Record<string, Sample>> = {
  'a gather of flat places, as older exporters index two axes': flat([
    node('Mul', 'c w', 'first'),
    node('Add', 'k first', 'at'),
    node('Gather', 'f at', 'y'),
  ]),
  'a gather of flat places in the other order': flat([
    node('Cast', 'k', 'k2', { to: 6 }),
    node('Cast', 'k2', 'k3', { to: 7 }),
    node('Mul', 'w c', 'first'),
    node('Add', 'first k3', 'at'),
    node('Gather', 'f at', 'y'),
  ]),
  'a gather of one flat place of four': flat(
    [
      node('Mul', 'c four', 'first'),
      node('Add', 'first two', 'at'),
      node('Reshape', 'x minus', 'g'),
      node('Gather', 'g at', 'y'),
    ],
    { outputShape: ['N', 1] },
  ),
};
const FLAT_REFUSED: Readonly<Record<string, Sample>> = {
  'flat places of the next row': flat([
    node('Mul', 'c w', 'first'),
    node('Add', 'k one', 'next'),
    node('Add', 'next first', 'at'),
    node('Gather', 'f at', 'y'),
  ]),
  'a flat place that a row does not have': flat([
    node('Mul', 'c four', 'first'),
    node('Add', 'first four', 'at'),
    node('Reshape', 'x minus', 'g'),
    node('Gather', 'g at', 'y'),
  ]),
  'flat places with another size for each row': flat([
    node('Mul', 'c four', 'first'),
    node('Add', 'k first', 'at'),
    node('Gather', 'f at', 'y'),
  ]),
  'flat places, the number of the row without its size': flat([
    node('Add', 'k c', 'at'),
    node('Gather', 'f at', 'y'),
  ]),
  'flat places with the places of the row twice': flat([
    node('Mul', 'c w', 'first'),
    node('Add', 'k first', 'one_'),
    node('Add', 'k one_', 'at'),
    node('Gather', 'f at', 'y'),
  ]),
  'flat places of a tensor that was turned': flat([
    node('Mul', 'c w', 'first'),
    node('Add', 'k first', 'at'),
    node('Transpose', 'z', 't'),
    node('Reshape', 't minus', 'g'),
    node('Gather', 'g at', 'y'),
  ]),
  'flat places that index the rows': flat([
    node('Mul', 'c w', 'first'),
    node('Add', 'k first', 'at'),
    node('Gather', 'x at', 'y'),
  ]),
  'flat places as data': flat([
    node('Mul', 'c w', 'first'),
    node('Add', 'k first', 'at'),
    node('Cast', 'at', 'y', { to: 1 }),
  ]),
  'flat places of the rows by the sizes of a column': flat([
    node('Mul', 'k n', 'first'),
    node('Add', 'c first', 'at'),
    node('Gather', 'f at', 'y'),
  ]),
};

const asIndex = (name: string) => node('Gather', `x ${name}`, 'y');
const REFUSED: Readonly<Record<string, Sample>> = {
  'the rows of a constant table': sample([node('Gather', 'w r', 'y')], { floats: { w: [9, 4] } }),
  'another axis of the rows': sample([node('Gather', 'x r', 'y', { axis: 1 })]),
  'the number plus one': sample([node('Add', 'r one', 'p'), asIndex('p')]),
  'the number backwards': sample([node('Sub', 'n r', 'b'), node('Sub', 'b one', 'p'), asIndex('p')]),
  'the number turned round': sample([node('Slice', 'r minus five zero minus', 'p'), asIndex('p')]),
  'a part of the numbers': sample([node('Slice', 'r one five', 'p'), asIndex('p')]),
  'numbers from one on': sample([node('Range', 'step n step', 'p'), asIndex('p')]),
  'numbers in steps of two': sample([
    node('Squeeze', 'two zero', 't'),
    node('Range', 'from n t', 'p'),
    asIndex('p'),
  ]),
  'numbers downwards': sample([
    node('Squeeze', 'minus zero', 'm'),
    node('Range', 'n from m', 'p'),
    asIndex('p'),
  ]),
  'numbers of all places': sample(
    [
      node('Shape', 'x', 'all'),
      node('ReduceProd', 'all', 'p', { keepdims: 0 }),
      node('Range', 'from p step', 'q'),
      node('Reshape', 'x flat', 'f'),
      node('Gather', 'f q', 'y'),
    ],
    { ints: { ...INTS, flat: [-1] } },
  ),
  'the number of a row among places': sample([node('Reshape', 'x flat', 'f'), node('Gather', 'f r', 'y')], {
    ints: { ...INTS, flat: [-1] },
  }),
  'as many numbers as a row has places': sample([
    node('Shape', 'x', 'w', { start: 1, end: 2 }),
    node('Squeeze', 'w zero', 'width'),
    node('Range', 'from width step', 'p'),
    asIndex('p'),
  ]),
  'the number as data': sample([node('Cast', 'r', 'f', { to: 1 }), node('Mul', 'f f', 'y')]),
  'the number as output': sample([node('Identity', 'r', 'i')], { outputs: ['i'] }),
  'the number in eight bits': sample([
    node('Cast', 'r', 'c', { to: 3 }),
    node('Cast', 'c', 'd', { to: 7 }),
    asIndex('d'),
  ]),
  'the number twice in a tuple': sample([
    node('Unsqueeze', 'r one', 'c'),
    node('Concat', 'c c', 'tuples', { axis: 1 }),
    node('GatherND', 'x tuples', 'y'),
  ]),
  'the number repeated into a tuple': sample([
    node('Unsqueeze', 'r one', 'c'),
    node('Tile', 'c pair', 'tuples'),
    node('GatherND', 'x tuples', 'y'),
  ]),
  'the number second in a tuple': sample(
    [
      node('Unsqueeze', 'r one', 'c'),
      node('Concat', 'i c', 'tuples', { axis: 1 }),
      node('GatherND', 'x tuples', 'y'),
    ],
    { inputs: { ...INPUTS, i: ['N', 1] } },
  ),
  'a tuple with the number as data': sample(
    [
      node('Unsqueeze', 'r one', 'c'),
      node('Concat', 'c i', 'tuples', { axis: 1 }),
      node('Cast', 'tuples', 'y', { to: 1 }),
    ],
    { inputs: { ...INPUTS, i: ['N', 1] } },
  ),
  'a tuple that takes from a constant': sample(
    [
      node('Unsqueeze', 'r one', 'c'),
      node('Concat', 'c i', 'tuples', { axis: 1 }),
      node('GatherND', 'w tuples', 'y'),
    ],
    { inputs: { ...INPUTS, i: ['N', 1] }, floats: { w: [9, 9] } },
  ),
  'rows that are placed by their numbers': sample([
    node('Unsqueeze', 'r one', 'c'),
    node('ScatterND', 'x c x', 'y'),
  ]),
};

for (const [title, graph] of Object.entries({ ...PROVEN, ...FLAT })) {
  test(`${title} by the numbers of the rows is proven, and ${BATCHES} batches agree`, async (t) => {
    const file = await writeSample(t, graph);
    assert.equal(proofOf(readModel(file), new Map()).end?.message, undefined);
    const next = random(1);
    const rows = Array.from({ length: 12 }, () =>
      Object.entries(graph.inputs ?? {}).map(([name, shape]): Tensor => {
        const width = shape[1] === 'w' ? 5 : Number(shape[1]);
        const numbers = Array.from({ length: width }, () => Math.floor(next() * 4));
        return name === 'i'
          ? { dtype: 'int64', shape: [1, width], data: BigInt64Array.from(numbers, BigInt) }
          : { dtype: 'float32', shape: [1, width], data: Float32Array.from(numbers, (n) => n + next()) };
      }),
    );
    assert.deepEqual(await compareRows(file, rows, BATCHES), { kind: 'same' });
  });
}

for (const [title, graph] of Object.entries({ ...REFUSED, ...FLAT_REFUSED })) {
  test(`not proven: ${title}`, async (t) => {
    assert.notEqual(proofOf(readModel(await writeSample(t, graph)), new Map()).end, undefined);
  });
}

test('the mask of a transformer that is indexed by rows is proven, and batches agree', async (t) => {
  const bytes = await fixture(t, 'corpus/reported/folders/arange_batch_mask/model.onnx');
  if (!bytes) return;
  const file = join(await temporaryFolder(t), 'model.onnx');
  writeFileSync(file, bytes);
  assert.equal(proofOf(readModel(file), new Map()).end?.message, undefined);
  const next = random(2);
  const list = (below: number): Tensor => ({
    dtype: 'int64',
    shape: [1, 5],
    data: BigInt64Array.from({ length: 5 }, () => BigInt(Math.floor(next() * below))),
  });
  const rows = Array.from({ length: 12 }, () => [list(30), list(2)]);
  assert.deepEqual(await compareRows(file, rows, BATCHES), { kind: 'same' });
});
