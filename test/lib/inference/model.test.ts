import assert from 'node:assert/strict';
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { PutObjectCommand } from '@aws-sdk/client-s3';
import { decodeInstances } from '../../../lib/codecs/instances.ts';
import { openModel } from '../../../lib/compose/model.ts';
import type { ServingError } from '../../../lib/contract/errors.ts';
import { downloadModel, readPointer } from '../../../lib/registry/download.ts';
import { publishModel } from '../../../lib/registry/publish.ts';
import { startAws } from '../../../local/aws/aws.ts';
import { onnxModel } from '../../support/onnx.ts';
import { temporaryFolder } from '../../support/runner.ts';
import { until } from '../../support/until.ts';

const LOCATION = { bucket: 'models', prefix: 'models/job/' };
const quiet = { info: () => undefined, warn: () => undefined, error: () => undefined };

/** y = x + n: which version answered shows in the answer. */
const plus = (n: number) =>
  onnxModel({
    inputs: [{ name: 'x', dtype: 'float32', shape: ['N', 1] }],
    outputs: [{ name: 'y', dtype: 'float32', shape: ['N', 1] }],
    nodes: [{ op: 'Add', inputs: ['x', 'n'], outputs: ['y'] }],
    weights: [{ name: 'n', dtype: 'float32', shape: [1], data: Float32Array.of(n) }],
  });

async function bucket(t: TestContext) {
  const aws = await startAws({ port: 0, log: quiet });
  t.after(() => aws.close());
  await aws.createBucket(LOCATION.bucket);
  return aws.s3;
}

async function modelFolder(t: TestContext, bytes: Uint8Array): Promise<string> {
  const folder = await temporaryFolder(t);
  await writeFile(join(folder, 'model.onnx'), bytes);
  return folder;
}

async function host(t: TestContext, s3: Awaited<ReturnType<typeof bucket>>, refreshMs = 0) {
  const errors: ServingError[] = [];
  const directory = await temporaryFolder(t);
  const model = openModel({
    s3,
    location: LOCATION,
    directory,
    settings: { threads: 1, batchSize: 8, inputAlreadyBatched: false, image: {} },
    refreshMs,
    now: () => performance.now(),
    onError: (error) => errors.push(error),
  });
  t.after(() => model.close());
  const answer = () =>
    model.use(async (runner) => {
      const [outcome] = await runner.run(decodeInstances('{"instances":[{"x":1}]}'));
      assert.ok(outcome?.ok);
      return outcome.outputs[0]?.data[0];
    });
  return { model, errors, answer, directory };
}

test('a published model is downloaded, verified and serves', async (t) => {
  const s3 = await bucket(t);
  const { version } = await publishModel(s3, LOCATION, await modelFolder(t, plus(1)));
  const { model, answer } = await host(t, s3);
  assert.equal(await answer(), 2);
  assert.equal(model.version, version);
});

test('publishing the same files again gives the same version', async (t) => {
  const s3 = await bucket(t);
  const folder = await modelFolder(t, plus(1));
  assert.equal(
    (await publishModel(s3, LOCATION, folder)).version,
    (await publishModel(s3, LOCATION, folder)).version,
  );
});

test('a model that was just copied into the bucket serves too', async (t) => {
  const s3 = await bucket(t);
  await s3.send(new PutObjectCommand({ Bucket: 'models', Key: 'models/job/any.onnx', Body: plus(5) }));
  const { answer } = await host(t, s3);
  assert.equal(await answer(), 6);
});

test('a new version takes over without a failed request, and the old download is removed', async (t) => {
  const s3 = await bucket(t);
  await publishModel(s3, LOCATION, await modelFolder(t, plus(1)));
  const { model, answer, directory } = await host(t, s3);
  assert.equal(await answer(), 2);
  const { version } = await publishModel(s3, LOCATION, await modelFolder(t, plus(2)));
  const seen: unknown[] = [];
  await until(async () => {
    seen.push(await answer());
    return seen.at(-1) === 3;
  });
  assert.ok(seen.every((value) => value === 2 || value === 3));
  assert.equal(model.version, version);
  await until(async () => (await readdir(directory)).join() === version);
});

test('a run in flight keeps its model open while another takes over', async (t) => {
  const s3 = await bucket(t);
  await publishModel(s3, LOCATION, await modelFolder(t, plus(1)));
  const { model } = await host(t, s3, 1e9);
  const records = decodeInstances('{"instances":[{"x":1}]}');
  await model.use(async (runner) => {
    await publishModel(s3, LOCATION, await modelFolder(t, plus(2)));
    await model.refresh();
    const [old] = await runner.run(records);
    assert.ok(old?.ok);
    assert.equal(old.outputs[0]?.data[0], 2);
  });
  const [fresh] = await model.use((runner) => runner.run(records));
  assert.ok(fresh?.ok);
  assert.equal(fresh.outputs[0]?.data[0], 3);
});

test('a broken new version is reported and the old one keeps serving', async (t) => {
  const s3 = await bucket(t);
  await publishModel(s3, LOCATION, await modelFolder(t, plus(1)));
  const { model, answer, errors } = await host(t, s3, 1e9);
  assert.equal(await answer(), 2);
  await publishModel(s3, LOCATION, await modelFolder(t, Buffer.from('not a model')));
  await model.refresh();
  assert.equal(await answer(), 2);
  assert.equal(errors.length, 1);
  assert.match(errors[0]?.message as string, /cannot load the model/);
});

test('a model that is not there yet is asked for again by the next request', async (t) => {
  const s3 = await bucket(t);
  const { answer } = await host(t, s3);
  await assert.rejects(answer(), { code: 'model_unavailable', message: /expected one \*\.onnx, found none/ });
  await publishModel(s3, LOCATION, await modelFolder(t, plus(1)));
  assert.equal(await answer(), 2);
});

test('a file that differs from its checksum never serves', async (t) => {
  const s3 = await bucket(t);
  const { files } = await publishModel(s3, LOCATION, await modelFolder(t, plus(1)));
  const bytes = plus(2);
  await s3.send(new PutObjectCommand({ Bucket: 'models', Key: files[0]?.key, Body: bytes }));
  const { answer, directory } = await host(t, s3);
  await assert.rejects(answer(), { code: 'model_unavailable', message: /sha256 is .* expected/ });
  assert.deepEqual(await readdir(directory), []);
});

test('a large file arrives whole in parallel parts', async (t) => {
  const s3 = await bucket(t);
  // Three parts and a rest, no two bytes of a part boundary alike.
  const bytes = Buffer.alloc(3 * 8 * 1024 * 1024 + 12_345);
  for (let i = 0; i < bytes.length; i += 4)
    bytes.writeUInt32LE((i * 2_654_435_761) >>> 0, Math.min(i, bytes.length - 4));
  const folder = await modelFolder(t, plus(1));
  await mkdir(join(folder, 'weights'));
  await writeFile(join(folder, 'weights/large.bin'), bytes);
  await publishModel(s3, LOCATION, folder);
  const target = await temporaryFolder(t);
  const downloaded = await downloadModel(s3, LOCATION, await readPointer(s3, LOCATION), target);
  assert.ok(bytes.equals(await readFile(join(downloaded, 'weights/large.bin'))));
});

test('a directory with two models, or none, or that is missing is refused by name', async (t) => {
  const s3 = await bucket(t);
  const folder = await modelFolder(t, plus(1));
  await writeFile(join(folder, 'other.onnx'), plus(2));
  await assert.rejects(publishModel(s3, LOCATION, folder), {
    message: /expected one \*\.onnx file, found model.onnx, other.onnx/,
  });
  await assert.rejects(publishModel(s3, LOCATION, await temporaryFolder(t)), {
    message: /found none in 0 files/,
  });
  await assert.rejects(publishModel(s3, LOCATION, join(folder, 'nowhere')), {
    message: /nowhere cannot be read/,
  });
});

for (const pointer of [
  '{',
  '[]',
  '{"version":"../x","files":[]}',
  '{"version":"..","files":[{"path":"m.onnx","bytes":1,"sha256":"a"}]}',
  '{"version":"v","files":[]}',
  '{"version":"v","files":[{"path":"../../etc/passwd","bytes":1,"sha256":"a"}]}',
]) {
  test(`the pointer ${pointer} is refused`, async (t) => {
    const s3 = await bucket(t);
    await s3.send(new PutObjectCommand({ Bucket: 'models', Key: 'models/job/current.json', Body: pointer }));
    await assert.rejects(readPointer(s3, LOCATION), {
      code: 'model_unavailable',
      message: /is not a model pointer/,
    });
  });
}
