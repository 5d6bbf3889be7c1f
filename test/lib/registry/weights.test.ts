/** Weights in a file of their own change no answer, and what cannot be split is left alone. */
import assert from 'node:assert/strict';
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import fc from 'fast-check';
import { asError, badModel } from '../../../lib/contract/errors.ts';
import { downloadModel, readPointer } from '../../../lib/registry/download.ts';
import { publishModel } from '../../../lib/registry/publish.ts';
import { splitWeights } from '../../../lib/registry/weights.ts';
import { startAws } from '../../../local/aws/aws.ts';
import { MODEL } from '../../../onnx-import/onnx/tables.ts';
import { readMessage } from '../../../onnx-import/wire/binary.ts';
import { bytes, type Chunk, integer, message, packedFloats, text } from '../../../onnx-import/wire/chunk.ts';
import { messageOf, messagesOf, textOf } from '../../../onnx-import/wire/message.ts';
import { firstAnswers } from '../../support/first-answers.ts';
import { onnxModel } from '../../support/onnx.ts';
import { temporaryFolder } from '../../support/runner.ts';

const ALL = { leastModel: 0, leastWeight: 1 };
const quiet = { info: () => undefined, warn: () => undefined, error: () => undefined };
const LOCATION = { bucket: 'models', prefix: 'models/job/' };

/** x: float32 [N, 8] -> y: float32 [N, 8], with weights of 8 x `size` and `size` x 8. */
function twoLayers(size: number): Uint8Array {
  const data = new Float32Array(8 * size);
  for (let i = 0; i < data.length; i++) data[i] = Math.sin(i);
  return onnxModel({
    inputs: [{ name: 'x', dtype: 'float32', shape: ['N', 8] }],
    outputs: [{ name: 'y', dtype: 'float32', shape: ['N', 8] }],
    nodes: [
      { op: 'MatMul', inputs: ['x', 'up'], outputs: ['h'] },
      { op: 'MatMul', inputs: ['h', 'down'], outputs: ['y'] },
    ],
    weights: [
      { name: 'up', dtype: 'float32', shape: [8, size], data },
      { name: 'down', dtype: 'float32', shape: [size, 8], data },
    ],
  });
}

/** The fields of a weight of 8 x 8. */
const WEIGHT = {
  dims: [integer(1, 8), integer(1, 8)],
  type: integer(2, 1),
  name: text(8, 'w'),
  values: packedFloats(
    4,
    Array.from({ length: 64 }, (_, i) => i / 7),
  ),
};

/** x -> y = x w, of which each part can be replaced. */
function written(weight: readonly Chunk[], graphs = 1): Uint8Array {
  const node = message([text(1, 'x'), text(1, 'w'), text(2, 'y'), text(4, 'MatMul')]);
  const value = (name: string) => {
    const dims = [bytes(1, message([text(2, 'N')])), bytes(1, message([integer(1, 8)]))];
    const tensor = message([integer(1, 1), bytes(2, message(dims))]);
    return message([text(1, name), bytes(2, message([bytes(1, tensor)]))]);
  };
  const graph = message([
    bytes(1, node),
    text(2, 'graph'),
    bytes(5, message(weight)),
    bytes(11, value('x')),
    bytes(12, value('y')),
  ]);
  const opset = bytes(8, message([integer(2, 17)]));
  const all = [integer(1, 8), ...Array.from({ length: graphs }, () => bytes(7, graph)), opset];
  return Buffer.concat(message(all).parts);
}

async function split(t: TestContext, content: Uint8Array, limits = ALL) {
  const folder = await temporaryFolder(t);
  await mkdir(join(folder, 'copy'));
  const [model, copy] = [join(folder, 'model.onnx'), join(folder, 'copy', 'model.onnx')];
  writeFileSync(model, content);
  return { model, copy, isSplit: splitWeights(model, copy, limits) };
}

test('a model with its weights in a second file answers bit for bit as before', async (t) => {
  const { model, copy, isSplit } = await split(t, twoLayers(5_000));
  assert.equal(isSplit, true);
  const own = readFileSync(copy).length;
  assert.ok(own < 500, `${own} bytes stay`);
  // Both weights have 160,000 bytes, and the second begins on a page.
  assert.equal(readFileSync(`${copy}.data`).length, 163_840 + 160_000);
  const answers = await firstAnswers(model);
  assert.equal(answers?.length, 1);
  assert.deepEqual(await firstAnswers(copy), answers);
});

test('weights that are a list of floats become a part of the second file, too', async (t) => {
  const { dims, type, name, values } = WEIGHT;
  const { model, copy, isSplit } = await split(t, written([...dims, type, values, name]));
  assert.equal(isSplit, true);
  assert.equal(readFileSync(`${copy}.data`).length, 256);
  const answers = await firstAnswers(model);
  assert.equal(answers?.length, 1);
  assert.deepEqual(await firstAnswers(copy), answers);
});

const { dims, type, name, values } = WEIGHT;
const location = bytes(13, message([text(1, 'location'), text(2, 'other.data')]));
const LEFT_ALONE: readonly (readonly [why: string, content: Uint8Array, limits?: typeof ALL])[] = [
  ['is small', twoLayers(5_000), { ...ALL, leastModel: 1_000_000 }],
  ['has small weights only', twoLayers(50), { ...ALL, leastWeight: 10_000 }],
  ['has two graphs, which protobuf merges', written([...dims, type, values, name], 2)],
  ['has weights in another file', written([...dims, type, values, name, location, integer(14, 1)])],
  [
    'has weights of another size than their shape',
    written([integer(1, 9), integer(1, 8), type, values, name]),
  ],
  ['has weights of texts', written([...dims, integer(2, 8), values, name])],
  ['has the same weights twice', written([...dims, type, values, values, name])],
  ['has a size that is not a number', written([bytes(1, message([text(1, 'x')])), type, values, name])],
  ['is not a model', Buffer.from('{"message": "Not Found"}')],
  ['is empty', Buffer.alloc(0)],
];
for (const [why, content, limits] of LEFT_ALONE) {
  test(`a model that ${why} is left alone`, async (t) => {
    const { copy, isSplit } = await split(t, content, limits);
    assert.deepEqual([isSplit, existsSync(copy), existsSync(`${copy}.data`)], [false, false, false]);
  });
}

/** As the file says it, with the weights of the second file in their places. */
function meaningOf(path: string) {
  const model = readMessage(readFileSync(path), MODEL);
  const graph = messageOf(model, 'graph') ?? {};
  const tensors = messagesOf(graph, 'tensors').map(({ external, location: _location, ...tensor }) => {
    if (!Array.isArray(external)) return tensor;
    const entries = messagesOf({ external }, 'external').map((entry) => [
      textOf(entry, 'key'),
      textOf(entry, 'value'),
    ]);
    const { offset, length } = Object.fromEntries(entries);
    const data = readFileSync(`${path}.data`);
    return { ...tensor, raw: new Uint8Array(data.subarray(Number(offset), Number(offset) + Number(length))) };
  });
  return { ...model, graph: { ...graph, tensors } };
}

function orError<T>(read: () => T): T | string {
  try {
    return read();
  } catch (error) {
    return asError(error).message.replace(/ \(at byte \d+\)/, '');
  }
}

test('a model that is damaged in one place, or ends early, is left alone or says the same in two files', async (t) => {
  const folder = await temporaryFolder(t);
  const whole = twoLayers(40);
  const damage = fc.record({
    // Most bytes are weights; the others are at both ends.
    place: fc.oneof(
      fc.nat(150),
      fc.nat(whole.length - 1),
      fc.nat(150).map((from) => whole.length - 1 - from),
    ),
    byte: fc.nat(255),
    isCut: fc.boolean(),
  });
  let runs = 0;
  let splits = 0;
  const check = ({ place, byte, isCut }: { place: number; byte: number; isCut: boolean }) => {
    const content = Buffer.from(isCut ? whole.subarray(0, place) : whole);
    if (!isCut) content[place] = byte;
    const [model, copy] = [join(folder, `${++runs}.onnx`), join(folder, `${runs}-copy.onnx`)];
    writeFileSync(model, content);
    if (!splitWeights(model, copy, ALL)) return assert.equal(existsSync(copy), false);
    splits++;
    // A message that is damaged deeper is copied as it is.
    assert.deepEqual(
      orError(() => meaningOf(copy)),
      orError(() => meaningOf(model)),
    );
  };
  fc.assert(fc.property(damage, check), { numRuns: 400, seed: 7 });
  assert.ok(splits > 50, `${splits} of 400 were split`);
});

async function bucket(t: TestContext) {
  const aws = await startAws({ port: 0, log: quiet });
  t.after(() => aws.close());
  await aws.createBucket(LOCATION.bucket);
  return aws;
}

const copies = () => readdirSync(tmpdir()).filter((entry) => entry.startsWith('cluster-serving-split-'));

test('a large model is published in two files, with all that is beside it, and is the same version each time', async (t) => {
  const { s3 } = await bucket(t);
  const folder = await temporaryFolder(t);
  const content = twoLayers(300_000);
  writeFileSync(join(folder, 'model.onnx'), content);
  await mkdir(join(folder, 'golden'));
  writeFileSync(join(folder, 'golden', 'one.json'), '{}');
  const before = copies();
  const { version, files } = await publishModel(s3, LOCATION, folder);
  assert.deepEqual(
    files.map(({ path }) => path),
    ['golden/one.json', 'model.onnx', 'model.onnx.data'],
  );
  const own = files[1]?.bytes ?? 0;
  assert.ok(own > 0 && own < 500, `${own} bytes`);
  const served = await downloadModel(s3, LOCATION, await readPointer(s3, LOCATION), await temporaryFolder(t));
  assert.deepEqual(
    await firstAnswers(join(served, 'model.onnx')),
    await firstAnswers(join(folder, 'model.onnx')),
  );
  assert.equal((await publishModel(s3, LOCATION, folder)).version, version);
  assert.deepEqual(readFileSync(join(folder, 'model.onnx')), Buffer.from(content));
  assert.deepEqual(copies(), before);
});

test('an error about the copy names the file of the user', async (t) => {
  const { s3 } = await bucket(t);
  const folder = await temporaryFolder(t);
  writeFileSync(join(folder, 'model.onnx'), twoLayers(300_000));
  const verify = (file: string) => Promise.reject(badModel(`${file}: it answers nothing`));
  await assert.rejects(publishModel(s3, LOCATION, folder, { verify }), {
    code: 'bad_model',
    message: `${join(folder, 'model.onnx')}: it answers nothing`,
  });
});
