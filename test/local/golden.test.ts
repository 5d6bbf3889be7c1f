/** A version in S3 is asked its golden requests in a copy, of which nothing is left. */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { readdir } from 'node:fs/promises';
import { test } from 'node:test';
import { readConfigText } from '../../lib/config/file.ts';
import { assertGoldenHere } from '../../local/console/golden.ts';
import { strictStore } from '../lib/registry/publish-store.ts';
import { onnxModel } from '../support/onnx.ts';
import { temporaryFolder } from '../support/runner.ts';

const MODEL = Buffer.from(
  onnxModel({
    inputs: [{ name: 'x', dtype: 'float32', shape: ['N'] }],
    outputs: [{ name: 'y', dtype: 'float32', shape: ['N'] }],
    nodes: [{ op: 'Neg', inputs: ['x'], outputs: ['y'] }],
  }),
);
const sha256 = (body: Buffer) => createHash('sha256').update(body).digest('hex');

test('a version without golden requests may serve, one that cannot be read or is wrong says so, and no copy stays', async (t) => {
  const { s3, objects } = await strictStore(t);
  const { job } = readConfigText('{}', 'config.yaml');
  const place = { s3, location: { bucket: 'models', prefix: 'a/' } };
  const folder = await temporaryFolder(t);
  const { TMPDIR } = process.env;
  process.env['TMPDIR'] = folder;
  t.after(() => {
    if (TMPDIR === undefined) delete process.env['TMPDIR'];
    else process.env['TMPDIR'] = TMPDIR;
  });
  const check = (files: Readonly<Record<string, Buffer>>, digest = sha256) => {
    const listed = Object.entries(files).map(([path, body]) => {
      objects.set(`a/v1/${path}`, body);
      return { path, bytes: body.length, sha256: digest(body), key: `a/v1/${path}` };
    });
    return assertGoldenHere(place, { version: 'v1', files: listed }, job);
  };
  await check({ 'model.onnx': MODEL });
  await assert.rejects(
    check({ 'model.onnx': MODEL }, () => '0'.repeat(64)),
    {
      code: 'model_unavailable',
      message: /^a\/v1\/model\.onnx: sha256 is /,
    },
  );
  await assert.rejects(check({ 'readme.txt': MODEL }), {
    code: 'model_unavailable',
    message: 'model directory version v1: expected one *.onnx file, found none in 1 files: readme.txt',
  });
  await assert.rejects(check({ 'model.onnx': MODEL, 'golden/one.json': Buffer.from('{}') }), {
    code: 'bad_model',
    message: /^version v1\/golden\/one\.json: /,
  });
  assert.deepEqual(await readdir(folder), []);
});
