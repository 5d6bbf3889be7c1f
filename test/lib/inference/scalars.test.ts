/** Inputs and outputs of rank 0: all rows of a run share them, so records with other values never share its answer. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { encodeBase64 } from '../../../lib/codecs/encode-base64.ts';
import { encodeMessage } from '../../../lib/codecs/message.ts';
import type { Tensor } from '../../../lib/contract/tensor.ts';
import type { Runner, Value } from '../../../lib/contract/values.ts';
import { openCopied, openVerified } from '../../onnx-import/support/verified.ts';
import { encodeArrowRecord } from '../../support/arrow-record.ts';
import { handlerOf } from '../../support/inference-endpoint.ts';
import { onnxModel } from '../../support/onnx.ts';
import { answerOf, eventOf } from '../../support/open-inference.ts';
import { servingOf } from '../../support/tensorflow-serving.ts';
import { runMessageBodies, throughPredict, throughQueue, throughV2 } from '../../support/three-paths.ts';

const tensor = (dtype: 'float32' | 'bool', shape: readonly number[], ...values: number[]): Tensor => ({
  dtype,
  shape,
  data: dtype === 'bool' ? Uint8Array.from(values) : Float32Array.from(values),
});

/** y = x * rate where isOn, else x. */
const scaling = onnxModel({
  inputs: [
    { name: 'x', dtype: 'float32', shape: ['N', 2] },
    { name: 'rate', dtype: 'float32', shape: [] },
    { name: 'isOn', dtype: 'bool', shape: [] },
  ],
  outputs: [{ name: 'y', dtype: 'float32', shape: ['N', 2] }],
  nodes: [
    { op: 'Mul', inputs: ['x', 'rate'], outputs: ['scaled'] },
    { op: 'Where', inputs: ['isOn', 'scaled', 'x'], outputs: ['y'] },
  ],
});

/** As many as an element of a row would be broadcast with. */
const RECORDS = [
  { x: [1, 2], rate: 10, isOn: true },
  { x: [3, 4], rate: 100, isOn: true },
] as const;
const MORE = [...RECORDS, { x: [5, 6], rate: 10, isOn: false }, { x: [7, 8], rate: 10, isOn: true }] as const;
const answers = (records: typeof MORE | typeof RECORDS) =>
  records.map(({ x, rate, isOn }) => [{ shape: [2], data: x.map((one) => (isOn ? one * rate : one)) }]);
const tensors = (records: typeof MORE | typeof RECORDS) =>
  records.map(({ x, rate, isOn }) => ({
    x: tensor('float32', [2], ...x),
    rate: tensor('float32', [], rate),
    isOn: tensor('bool', [], Number(isOn)),
  }));
const arrow = (record: Readonly<Record<string, Value>>) =>
  JSON.stringify({ uri: 'u', data: encodeBase64(encodeArrowRecord(new Map(Object.entries(record)))) });

async function post(runner: Runner, path: string, body: string, type = 'application/json') {
  const event = eventOf({ body: Buffer.from(body), headers: { 'content-type': type } }, path);
  const { status, bytes } = answerOf(await handlerOf(runner, { jobName: 'half' })(event));
  return { status, text: bytes.toString() };
}

for (const [how, open, more] of [
  ['was verified', openVerified, {}],
  ['was verified and takes batches', openVerified, { inputAlreadyBatched: true }],
  ['nobody verified', openCopied, {}],
  ['nobody verified and the owner lets share runs', openCopied, { batching: 'always' }],
] as const)
  suite(`records with scalars of a model that ${how}`, () => {
    const isBatched = 'inputAlreadyBatched' in more;

    test('are each answered with their own, through POST /predict and the queue', async (t) => {
      const runner = await open(t, scaling, more);
      for (const records of [RECORDS, MORE]) {
        const given = isBatched ? records.map((record) => ({ ...record, x: [record.x] })) : records;
        const expected = answers(records).map(([y]) => [isBatched ? { shape: [1, 2], data: y?.data } : y]);
        assert.deepEqual(await throughPredict(runner, given), expected);
        const sent = tensors(records).map((record) =>
          isBatched ? { ...record, x: { ...record.x, shape: [1, 2] } } : record,
        );
        assert.deepEqual(await throughQueue(runner, sent), expected);
        const old = sent.map((record) =>
          arrow(
            Object.fromEntries(
              Object.entries({ ...record, isOn: tensor('float32', [], record.isOn.data[0] as number) }).map(
                ([name, one]) => [name, { kind: 'tensor', tensor: one }],
              ),
            ),
          ),
        );
        assert.deepEqual(await runMessageBodies(runner, old), expected);
      }
    });

    test('are each answered with their own as rows for TensorFlow Serving', async (t) => {
      const ask = servingOf(await open(t, scaling, more));
      for (const instances of [RECORDS, MORE, RECORDS.slice(0, 1)]) {
        const { status, text } = await ask('half:predict', { instances });
        const predictions = answers(instances as typeof MORE).map(([y]) => y?.data);
        assert.deepEqual([status, JSON.parse(text)], [200, { predictions }]);
      }
    });

    test('of a batch are one value for all its rows', async (t) => {
      const runner = await open(t, scaling, more);
      const columns = { x: [[1, 2], [3, 4]], rate: 10, isOn: true }; // biome-ignore format: short
      const { text } = await servingOf(runner)('half:predict', { inputs: columns });
      assert.deepEqual(JSON.parse(text), { outputs: [[10, 20], [30, 40]] }); // biome-ignore format: short
      const [y] = await throughV2(runner, {
        x: tensor('float32', [2, 2], 1, 2, 3, 4),
        rate: tensor('float32', [], 10),
        isOn: tensor('bool', [], 1),
      });
      assert.deepEqual(y, { shape: [2, 2], data: [10, 20, 30, 40] });
    });
  });

test('an array for a scalar is refused on every path, with the shape that is expected', async (t) => {
  const runner = await openVerified(t, scaling);
  const expected = /input \\?"rate\\?": expected float32 \[\], got shape \[2\] \(it has no rows/;
  const rate = [10, 100];
  await assert.rejects(throughPredict(runner, [{ ...RECORDS[0], rate }]), expected);
  const [record] = tensors(RECORDS);
  const two = { ...record, rate: tensor('float32', [2], ...rate) };
  await assert.rejects(throughQueue(runner, [two] as never), expected);
  const batch = { x: tensor('float32', [2, 2], 1, 2, 3, 4), isOn: tensor('bool', [], 1) };
  await assert.rejects(throughV2(runner, { ...batch, rate: tensor('float32', [2], ...rate) }), expected);
  await assert.rejects(
    throughV2(runner, { ...batch, rate: tensor('float32', [1, 1], 10) }),
    /expected float32 \[\], got shape \[1,1\]/,
  );
  const columns = { x: [[1, 2], [3, 4]], rate, isOn: true }; // biome-ignore format: short
  const refused = await servingOf(runner)('half:predict', { inputs: columns });
  assert.equal(refused.status, 400);
  assert.match(refused.text, expected);
  const sparse = { shape: [2], data: [10], indices: [[0]] };
  await assert.rejects(throughPredict(runner, [{ ...RECORDS[0], rate: sparse }]), expected);
});

test('a list of one value is that value for a scalar, and is never broadcast', async (t) => {
  const runner = await openVerified(t, scaling, { batching: 'always' });
  const given = MORE.map(({ x, rate, isOn }) => ({ x, rate: [rate], isOn: [isOn] }));
  assert.deepEqual(await throughPredict(runner, given), answers(MORE));
  const { text } = await servingOf(runner)('half:predict', { instances: given });
  assert.deepEqual(JSON.parse(text), { predictions: answers(MORE).map(([y]) => y?.data) });
  const [y] = await throughV2(runner, {
    x: tensor('float32', [2, 2], 1, 2, 3, 4),
    rate: tensor('float32', [1], 10),
    isOn: tensor('bool', [1], 1),
  });
  assert.deepEqual(y, { shape: [2, 2], data: [10, 20, 30, 40] });
});

test('an array for an input that may be a scalar runs alone, also where the owner lets records share runs', async (t) => {
  const squares = onnxModel({
    inputs: [
      { name: 'x', dtype: 'float32', shape: ['N', 2, 2] },
      { name: 'rate', dtype: 'float32', shape: [] },
    ],
    outputs: [{ name: 'y', dtype: 'float32', shape: ['N', 2, 2] }],
    nodes: [{ op: 'Mul', inputs: ['x', 'rate'], outputs: ['y'] }],
  });
  const runner = await openCopied(t, squares, { batching: 'always' });
  const ones = Array.from({ length: 2 }, () => [1, 1]);
  // Stacked, the first would be the rate of the first lines and the second that of the others.
  const answered = await throughPredict(
    runner,
    [10, 100].map((rate) => ({ x: ones, rate: [rate] })),
  );
  assert.deepEqual(
    answered.map(([y]) => y?.data),
    [Array(4).fill(10), Array(4).fill(100)],
  );
});

test('records whose scalars are equal share a run, and others do not', async (t) => {
  // Each record is answered with how many rows its run has.
  const counting = onnxModel({
    inputs: [
      { name: 'x', dtype: 'float32', shape: ['N', 1] },
      { name: 'rate', dtype: 'float32', shape: [] },
    ],
    outputs: [{ name: 'y', dtype: 'float32', shape: ['N', 1] }],
    nodes: [
      { op: 'Shape', inputs: ['x'], outputs: ['shape'] },
      { op: 'Gather', inputs: ['shape', 'first'], outputs: ['count'] },
      { op: 'Cast', inputs: ['count'], outputs: ['rows'], attributes: { to: 1 } },
      { op: 'Mul', inputs: ['x', 'rate'], outputs: ['scaled'] },
      { op: 'Add', inputs: ['scaled', 'rows'], outputs: ['y'] },
    ],
    weights: [{ name: 'first', dtype: 'int64', shape: [1], data: BigInt64Array.of(0n) }],
  });
  const runner = await openVerified(t, counting, { batching: 'always' });
  const given = [0, 2, 0, 0].map((rate) => ({ x: [100], rate }));
  const rows = (await throughPredict(runner, given)).map(([y]) => y?.data[0]);
  assert.deepEqual(rows, [3, 201, 3, 3]);
});

test('the proof takes a scalar for what all rows share, without a word in config.yaml', async (t) => {
  const runner = await openVerified(t, scaling);
  assert.equal(runner.separable, true);
  assert.deepEqual(
    runner.inputs.map(({ batchAxis, isScalar }) => [batchAxis, isScalar]),
    [
      [undefined, undefined],
      ['none', true],
      ['none', true],
    ],
  );
  const told = await openVerified(t, scaling, { batchAxes: { rate: 'none' } });
  assert.equal(told.separable, true);
  await assert.rejects(openVerified(t, scaling, { batchAxes: { rate: 1 } }), /beyond its shape \[\]/);
});

test('a cell of a table is a scalar, of numbers, booleans and texts', async (t) => {
  const dtypes = ['float32', 'int64', 'bool', 'string'] as const;
  const passing = onnxModel({
    inputs: dtypes.map((dtype) => ({ name: dtype, dtype, shape: [] })),
    outputs: dtypes.map((dtype) => ({ name: `${dtype}_out`, dtype, shape: [] })),
    nodes: dtypes.map((dtype) => ({ op: 'Identity', inputs: [dtype], outputs: [`${dtype}_out`] })),
  });
  const runner = await openVerified(t, passing);
  const csv = ['float32,int64,bool,string', '0.5,9007199254740993,true,a|b', ',1,0,"c, d"'].join('\n');
  const { status, text } = await post(runner, '/predict', csv, 'text/csv');
  assert.equal(status, 200, text);
  const { predictions } = JSON.parse(text) as { predictions: string[] };
  assert.deepEqual(predictions, [
    '{value=[{"data":[0.5],"shape":[]},{"data":[9007199254740993],"shape":[]},{"data":[true],"shape":[]},{"data":["a|b"],"shape":[]}]}',
    '{value=[{"data":[null],"shape":[]},{"data":[1],"shape":[]},{"data":[false],"shape":[]},{"data":["c, d"],"shape":[]}]}',
  ]);
  // A text of the old wire is one cell.
  const values: Record<string, Value> = {
    float32: { kind: 'tensor', tensor: tensor('float32', [], 2) },
    int64: { kind: 'tensor', tensor: tensor('float32', [], 3) },
    bool: { kind: 'tensor', tensor: tensor('float32', [], 1) },
    string: { kind: 'text', text: 'one|text' },
  };
  // Clients of which a text alone is a path send a list of one.
  const list: Value = { kind: 'tensor', tensor: { dtype: 'string', shape: [1], data: ['one|text'] } };
  for (const body of [
    arrow(values),
    encodeMessage('u', new Map(Object.entries({ ...values, string: list }))),
  ]) {
    const [[, , , last] = []] = await runMessageBodies(runner, [body]);
    assert.deepEqual(last, { shape: [], data: ['one|text'] });
  }
});

test('a scalar output is that of its own record, and stands beside the rows of a batch', async (t) => {
  // The sum of all that shares a run.
  const totalling = onnxModel({
    inputs: [{ name: 'x', dtype: 'float32', shape: ['N', 2] }],
    outputs: [
      { name: 'y', dtype: 'float32', shape: ['N', 2] },
      { name: 'total', dtype: 'float32', shape: [] },
    ],
    nodes: [
      { op: 'Neg', inputs: ['x'], outputs: ['y'] },
      { op: 'ReduceSum', inputs: ['x'], outputs: ['total'], attributes: { keepdims: 0 } },
    ],
  });
  const expected = [
    [{ shape: [2], data: [-1, -2] }, { shape: [], data: [3] }],
    [{ shape: [2], data: [-3, -4] }, { shape: [], data: [7] }],
  ]; // biome-ignore format: short
  for (const runner of [
    await openVerified(t, totalling),
    await openVerified(t, totalling, { batching: 'always' }),
    await openCopied(t, totalling),
  ]) {
    assert.deepEqual(await throughPredict(runner, [{ x: [1, 2] }, { x: [3, 4] }]), expected);
    assert.deepEqual(
      await throughQueue(runner, [{ x: tensor('float32', [2], 1, 2) }, { x: tensor('float32', [2], 3, 4) }]),
      expected,
    );
    const batch = [[1, 2], [3, 4]]; // biome-ignore format: short
    const rows = await servingOf(runner)('half:predict', { instances: batch });
    assert.deepEqual(JSON.parse(rows.text), {
      predictions: [{ y: [-1, -2], total: 3 }, { y: [-3, -4], total: 7 }],
    }); // biome-ignore format: short
    const columns = await servingOf(runner)('half:predict', { inputs: batch });
    assert.deepEqual(JSON.parse(columns.text), { outputs: { y: [[-1, -2], [-3, -4]], total: 10 } }); // biome-ignore format: short
    const whole = await throughV2(runner, { x: tensor('float32', [2, 2], 1, 2, 3, 4) });
    assert.deepEqual(whole[1], { shape: [], data: [10] });
  }
});

test('an input with a default is none of the inputs, and a constant of rank 0 no scalar input', async (t) => {
  const model = onnxModel({
    inputs: [
      { name: 'x', dtype: 'float32', shape: ['N'] },
      { name: 'rate', dtype: 'float32', shape: [] },
    ],
    outputs: [{ name: 'y', dtype: 'float32', shape: ['N'] }],
    nodes: [{ op: 'Mul', inputs: ['x', 'rate'], outputs: ['y'] }],
    weights: [{ name: 'rate', dtype: 'float32', shape: [], data: Float32Array.of(3) }],
  });
  const runner = await openVerified(t, model);
  assert.deepEqual(
    runner.inputs.map(({ name }) => name),
    ['x'],
  );
  assert.deepEqual(await throughPredict(runner, [{ x: 1 }, { x: 2 }]), [
    [{ shape: [], data: [3] }],
    [{ shape: [], data: [6] }],
  ]);
});

test('the metadata tells a scalar from an unknown rank', async (t) => {
  const shapeless = onnxModel({
    inputs: [
      { name: 'x', dtype: 'float32', shape: undefined },
      { name: 'rate', dtype: 'float32', shape: [] },
    ],
    outputs: [{ name: 'y', dtype: 'float32', shape: undefined }],
    nodes: [{ op: 'Mul', inputs: ['x', 'rate'], outputs: ['y'] }],
  });
  const ranks = async (runner: Runner) => {
    const { text } = await servingOf(runner)('half/metadata');
    const { inputs } = JSON.parse(text).metadata.signature_def.signature_def.serving_default;
    return Object.values(inputs as Record<string, { tensor_shape: { unknown_rank: boolean } }>).map(
      ({ tensor_shape }) => tensor_shape.unknown_rank,
    );
  };
  const verified = await openVerified(t, shapeless);
  assert.deepEqual(await ranks(verified), [true, false]);
  assert.deepEqual(await ranks(await openCopied(t, shapeless)), [true, true]);
  // A row of one record is a row of several, and a number stays a number.
  for (const x of [
    [
      [1, 2],
      [3, 4],
    ],
    [1, 2],
  ]) {
    // biome-ignore format: short
    const instances = x.map((one) => ({ x: one, rate: 2 }));
    const { text } = await servingOf(verified)('half:predict', { instances });
    const predicted = await throughPredict(verified, instances);
    const nested = ({ shape, data }: { shape: readonly number[]; data: readonly unknown[] }) =>
      shape.length === 0 ? data[0] : shape.length === 1 ? data : [data];
    assert.deepEqual(JSON.parse(text), {
      predictions: predicted.map(([y]) => nested(y as { shape: number[]; data: number[] })),
    });
  }
});
