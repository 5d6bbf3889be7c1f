import assert from 'node:assert/strict';
import { test } from 'node:test';
import { GetObjectCommand, ListObjectsV2Command } from '@aws-sdk/client-s3';
import { readPointer } from '../../../lib/registry/download.ts';
import type { S3Client } from '../../../lib/s3/objects.ts';

const LOCATION = { bucket: 'models', prefix: 'models/job/' };

/** A bucket without current.json, in which somebody copied these files, by name with their tags. */
function s3With(files: Readonly<Record<string, string>>): S3Client {
  const send = async (command: unknown) => {
    if (command instanceof GetObjectCommand) throw Object.assign(new Error('none'), { name: 'NoSuchKey' });
    assert.ok(command instanceof ListObjectsV2Command);
    const Contents = Object.entries(files).map(([name, ETag]) => ({
      Key: `${LOCATION.prefix}${name}`,
      Size: 1,
      ETag,
    }));
    return { Contents };
  };
  return { send } as unknown as S3Client;
}

test('of a copied model the whole folder is taken, and any change of it is another version', async () => {
  const first = await readPointer(s3With({ 'a.onnx': '"1"', weights: '"2"' }), LOCATION);
  assert.deepEqual(
    first.files.map(({ path }) => path),
    ['a.onnx', 'weights'],
  );
  const same = await readPointer(s3With({ 'a.onnx': '"1"', weights: '"2"' }), LOCATION);
  const changed = await readPointer(s3With({ 'a.onnx': '"1"', weights: '"3"' }), LOCATION);
  assert.equal(same.version, first.version);
  assert.notEqual(changed.version, first.version);
});

test('two models in one folder, or none, are refused with what is there', async () => {
  const two = readPointer(s3With({ 'a.onnx': '"1"', 'b.onnx': '"2"' }), LOCATION);
  const message = /expected one \*\.onnx, found models\/job\/a\.onnx, models\/job\/b\.onnx/;
  await assert.rejects(two, { code: 'model_unavailable', message });
  await assert.rejects(readPointer(s3With({ weights: '"1"' }), LOCATION), /found none/);
});
