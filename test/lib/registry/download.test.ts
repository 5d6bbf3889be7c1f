import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { GetObjectCommand, ListObjectsV2Command } from '@aws-sdk/client-s3';
import { downloadModel, readPointer } from '../../../lib/registry/download.ts';
import type { S3Client } from '../../../lib/s3/objects.ts';
import { temporaryFolder } from '../../support/runner.ts';

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

test('a file is read in parts of 8 MiB, the last of which is what is left', async (t) => {
  const part = 8 * 1024 * 1024;
  for (const [length, expected] of [
    [3, ['bytes=0-2']],
    [part, [`bytes=0-${part - 1}`]],
    [part + 5, [`bytes=0-${part - 1}`, `bytes=${part}-${part + 4}`]],
  ] as const) {
    const content = Buffer.alloc(length, 'model');
    const ranges: string[] = [];
    const s3 = {
      send: async ({ input }: { input: { Range: string } }) => {
        ranges.push(input.Range);
        const [start = 0, end = 0] = (/(\d+)-(\d+)/.exec(input.Range) ?? []).slice(1).map(Number);
        const body = async function* () {
          yield content.subarray(start, end + 1);
        };
        return { ETag: '"1"', Body: body() };
      },
    } as unknown as S3Client;
    const sha256 = createHash('sha256').update(content).digest('hex');
    const files = [{ path: 'model.onnx', bytes: length, sha256, key: 'model.onnx' }];
    const folder = await downloadModel(s3, LOCATION, { version: 'v1', files }, await temporaryFolder(t));
    assert.deepEqual(ranges.sort(), expected);
    assert.ok(content.equals(await readFile(join(folder, 'model.onnx'))));
  }
});

/** Small files of a version, whose reads wait until `together` of them were asked for. */
function versionOf(together: number, failing?: string) {
  const paths = Array.from({ length: 12 }, (_, i) => `file-${i}`);
  const content = (path: string) => Buffer.from(`content of ${path}`);
  const files = paths.map((path) => ({
    path,
    key: path,
    bytes: content(path).length,
    sha256: createHash('sha256').update(content(path)).digest('hex'),
  }));
  const asked: string[] = [];
  let underWay = 0;
  let mostUnderWay = 0;
  const enough = Promise.withResolvers<void>();
  const s3 = {
    send: async ({ input }: { input: { Key: string } }) => {
      asked.push(input.Key);
      mostUnderWay = Math.max(mostUnderWay, ++underWay);
      if (asked.length === together) enough.resolve();
      await enough.promise;
      underWay--;
      if (input.Key === failing)
        throw Object.assign(new Error('denied'), { $metadata: { httpStatusCode: 403 } });
      const body = async function* () {
        yield content(input.Key);
      };
      return { ETag: '"1"', Body: body() };
    },
  } as unknown as S3Client;
  const check = async (folder: string) => {
    for (const path of paths) assert.deepEqual(await readFile(join(folder, path)), content(path));
  };
  return { s3, files, asked, check, most: () => mostUnderWay };
}

test('eight files of a version are read at the same time', async (t) => {
  const { s3, files, asked, check, most } = versionOf(8);
  await check(await downloadModel(s3, LOCATION, { version: 'v1', files }, await temporaryFolder(t)));
  assert.deepEqual([asked.length, most()], [12, 8]);
});

test('a file that cannot be read ends the download of the others, and nothing of it is left', async (t) => {
  const { s3, files, asked } = versionOf(8, 'file-3');
  const directory = await temporaryFolder(t);
  const options = { keeps: true };
  await assert.rejects(downloadModel(s3, LOCATION, { version: 'v1', files }, directory, options), {
    code: 'model_unavailable',
    message: /denied/,
  });
  assert.ok(asked.length < 12, `${asked.length} files were asked for`);
  assert.deepEqual(await readdir(directory), []);
});
