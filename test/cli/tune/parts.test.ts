/** The parts of `tune` that need no process: sizes of inputs, events and batch sizes. */
import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import type { APIGatewayProxyEventV2, SQSEvent } from 'aws-lambda';
import { messageOf, predictEvent, queueEvent, requestBody, resolver } from '../../../cli/tune/events.ts';
import { madeUpRecords, recordsOfFiles, type Sizes, sizedSpecs } from '../../../cli/tune/inputs.ts';
import { batchSizes } from '../../../cli/tune/measure.ts';
import type { ModelFacts } from '../../../cli/tune/points.ts';
import { decodeInstances } from '../../../lib/codecs/instances.ts';
import { decodeMessage } from '../../../lib/codecs/message.ts';
import type { Inputs, TensorSpec } from '../../../lib/contract/values.ts';
import { readRequest } from '../../../lib/http/request.ts';
import { bindRecord, type Feeds } from '../../../lib/pipeline/bind/bind.ts';
import { npyBytes } from '../../onnx-import/support/npy-bytes.ts';
import { temporaryFolder } from '../../support/runner.ts';

const NONE: Sizes = { dims: {}, shapes: {} };
const spec = (
  name: string,
  shape: TensorSpec['shape'],
  dtype: TensorSpec['dtype'] = 'float32',
): TensorSpec => ({
  name,
  dtype,
  shape,
});
const shapesOf = (specs: readonly TensorSpec[]) => specs.map(({ shape }) => shape);

test('the batch in front stays free, and every other free size has to be said', () => {
  assert.deepEqual(shapesOf(sizedSpecs([spec('x', ['N', 3])], [], NONE, {})), [['N', 3]]);
  const open = [spec('x', ['N', 3, 'h', 'w']), spec('y', ['N', ''])];
  assert.throws(
    () => sizedSpecs(open, [], NONE, {}),
    /leaves free: "x" \[N,3,h,w\], "y" \[N,\?\]; say them, e\.g\. --dim h=8 --dim w=8 --shape y=1,8$/,
  );
  const sizes = { dims: { h: 32, w: 16 }, shapes: { y: [1, 7] } };
  assert.deepEqual(shapesOf(sizedSpecs(open, [], sizes, {})), [
    ['N', 3, 32, 16],
    ['N', 7],
  ]);
});

test('the size that the config scales pictures to is a size that was said', () => {
  const image = { height: 48, width: 64 };
  const open = [spec('x', ['N', 3, 'h', 'w']), spec('z', ['N', '', '', 3])];
  assert.deepEqual(shapesOf(sizedSpecs(open, [], NONE, { ...image })), [
    ['N', 3, 48, 64],
    ['N', 48, 64, 3],
  ]);
});

test('an input without a rank needs its shape', () => {
  const unknown = [spec('x', [])];
  assert.throws(() => sizedSpecs(unknown, ['x'], NONE, {}), /--shape x=1,3,224,224/);
  assert.deepEqual(shapesOf(sizedSpecs(unknown, ['x'], { dims: {}, shapes: { x: [1, 5] } }, {})), [[1, 5]]);
});

test('sizes for nothing are refused, and shapes that are not the input’s', () => {
  const specs = [spec('x', ['N', 3, 'h'])];
  const wrong: readonly (readonly [Sizes, RegExp])[] = [
    [{ dims: { H: 3 }, shapes: {} }, /no free size "H"; it has h$/],
    [{ dims: {}, shapes: { y: [1] } }, /no input "y"; it has "x"$/],
    [
      { dims: {}, shapes: { x: [8, 3, 5] } },
      /expected \[1,3,h\], got \[8,3,5\]; batches are measured by themselves/,
    ],
    [{ dims: {}, shapes: { x: [1, 4, 5] } }, /expected \[1,3,h\]/],
  ];
  for (const [sizes, expected] of wrong) assert.throws(() => sizedSpecs(specs, [], sizes, {}), expected);
});

function messagesOf(records: readonly Inputs[], count: number): string[] {
  const { Records } = JSON.parse(queueEvent(records, count)) as SQSEvent;
  return Records.map(({ body }) => body);
}

const TYPES = ['float32', 'float16', 'float64', 'int64', 'uint8', 'bool', 'string'] as const;
for (const dtype of TYPES) {
  test(`a made-up record of ${dtype} is the same by JSON and by message as it was made, and the same every time`, async () => {
    const specs = [spec('x', ['N', 2, 3], dtype)];
    const [record] = madeUpRecords(specs, false, 'random') as [Inputs];
    assert.deepEqual(madeUpRecords(specs, false, 'random')[0], record);
    const settings = { inputAlreadyBatched: false, image: {} };
    const bound = async (inputs: Inputs): Promise<Feeds> => bindRecord(inputs, specs, settings);
    const made = await bound(record);
    assert.deepEqual(made.tensors[0]?.shape, [1, 2, 3]);
    const [sent] = decodeInstances(requestBody(record)) as [Inputs];
    assert.deepEqual(await bound(sent), made);
    if (dtype === 'string') return;
    const { inputs } = decodeMessage(messagesOf([record], 1)[0] as string);
    assert.deepEqual(await bound(inputs as Inputs), made);
  });
}

test('an event has as many messages as were asked for, each with a uri of its own', () => {
  const records = madeUpRecords([spec('x', ['N', 2])], false, 'random');
  const uris = messagesOf(records, 40).map((body) => decodeMessage(body).uri);
  assert.equal(new Set(uris).size, 40);
});

test('a request arrives at the function as it was', () => {
  const event = JSON.parse(predictEvent('{"instances":[]}')) as APIGatewayProxyEventV2;
  assert.deepEqual([readRequest(event).method, readRequest(event).body()], ['POST', '{"instances":[]}']);
});

test('an array file with the batch in front is as many records', async (t) => {
  const path = join(await temporaryFolder(t), 'x.npy');
  await writeFile(path, npyBytes([3, 2], Float32Array.of(1, 2, 3, 4, 5, 6)));
  const specs = [spec('x', ['N', 2])];
  const records = await recordsOfFiles([{ input: undefined, path }], specs, false);
  assert.equal(records.length, 3);
  const { tensors } = await bindRecord(records[2] as Inputs, specs, {
    inputAlreadyBatched: false,
    image: {},
  });
  assert.deepEqual([...(tensors[0]?.data ?? [])], [5, 6]);
  const two = [...specs, spec('y', ['N'])];
  await assert.rejects(
    recordsOfFiles([{ input: undefined, path }], two, false),
    /pass --data <input>=x\.npy for each/,
  );
  await assert.rejects(recordsOfFiles([{ input: 'z', path }], two, false), /no input "z"; it has "x", "y"/);
  await assert.rejects(recordsOfFiles([{ input: 'x', path }], two, false), /--data: nothing for input "y"/);
});

const FACTS: ModelFacts = {
  inputs: [],
  outputs: [],
  shapes: [],
  fixedRows: null,
  shared: true,
  loadMs: 1,
  messageBytes: 1_000,
  eventBytes: 2_000,
  requestBytes: 1_000,
  data: 'random',
};

test('batches double up to the limit that was set, and end where an event is full', () => {
  assert.deepEqual(batchSizes(FACTS, 20), { sizes: [1, 2, 4, 8, 16], limit: undefined });
  const large = batchSizes({ ...FACTS, messageBytes: 800_000, eventBytes: 800_900 }, 256);
  assert.deepEqual(large, { sizes: [1, 2, 4], limit: '7 records of 800900 bytes fill an event (6 MiB)' });
  assert.deepEqual(batchSizes({ ...FACTS, fixedRows: 6 }, 20).sizes, [6, 12]);
  assert.deepEqual(batchSizes({ ...FACTS, fixedRows: 64 }, 20).sizes, [64]);
  assert.deepEqual(batchSizes({ ...FACTS, fixedRows: 64, eventBytes: 800_900 }, 256).sizes, [7]);
  assert.deepEqual(batchSizes({ ...FACTS, shared: false }, 4).sizes, [1, 2, 4]);
});

test('a record that is too large for a message is a pointer in its event, and comes back whole', async () => {
  const records = madeUpRecords([spec('x', ['N', 300_000])], false, 'zeros').slice(0, 2);
  const event = queueEvent(records, 5, true);
  assert.ok(event.length < 10_000);
  const { Records } = JSON.parse(event) as SQSEvent;
  const found = await resolver(records)(Records.map(({ body }) => body));
  assert.deepEqual(
    found,
    [0, 1, 0, 1, 0].map((index) => messageOf(records, index)),
  );
});
