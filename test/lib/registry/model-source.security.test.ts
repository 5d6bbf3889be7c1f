/** What lies in the bucket is not believed: a pointer names files of its own version only, a file is what its checksum says. */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { mkdir, readdir, readFile, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import {
  DeleteObjectCommand,
  GetObjectCommand,
  ListObjectsV2Command,
  type S3Client,
} from '@aws-sdk/client-s3';
import { downloadModel, readPointer } from '../../../lib/registry/download.ts';
import { publishModel } from '../../../lib/registry/publish.ts';
import { identityModel } from '../../support/onnx.ts';
import { LOCATION, openBucket, putObject } from '../../support/quiet-aws.ts';
import { temporaryFolder } from '../../support/runner.ts';

const MODEL = identityModel([{ name: 'x', dtype: 'float32', shape: ['N', 2] }]);
const POINTER = `${LOCATION.prefix}current.json`;
const sha256 = (bytes: string | Uint8Array) => createHash('sha256').update(bytes).digest('hex');
const SHA = sha256(MODEL);
const good = { path: 'm.onnx', bytes: MODEL.length, sha256: SHA };
const pointer = (files: unknown, version: unknown = 'v1') => JSON.stringify({ version, files });

async function modelFolder(t: TestContext): Promise<string> {
  const folder = await temporaryFolder(t);
  await writeFile(join(folder, 'm.onnx'), MODEL);
  return folder;
}

async function download(t: TestContext, s3: S3Client, directory?: string): Promise<string> {
  const folder = directory ?? (await temporaryFolder(t));
  return downloadModel(s3, LOCATION, await readPointer(s3, LOCATION), folder);
}

const BAD_POINTERS: readonly (readonly [what: string, text: string])[] = [
  ['a version with ..', pointer([good], '..')],
  ['a version that climbs', pointer([good], 'v/../../other')],
  ['a version that is absolute', pointer([good], '/etc')],
  ['a version that is a number', pointer([good], 7)],
  ['a version like a half download', pointer([good], 'v1.partial-1-0')],
  ['a version of 81 characters', pointer([good], 'v'.repeat(81))],
  ['a version with a line break', pointer([good], 'v\n')],
  ...[
    '..',
    '../m.onnx',
    'a/../../m.onnx',
    '/etc/passwd',
    '//host/m.onnx',
    'C:\\m.onnx',
    '..\\m.onnx',
    '%2e%2e/m.onnx',
    'a\0b',
    'a\nb',
    's3://other/m.onnx',
    'file:///etc/passwd',
    'http://127.0.0.1/',
    '.hidden',
    '',
    'x'.repeat(257),
    'м.onnx',
  ].map((path) => [`the path ${JSON.stringify(path).slice(0, 40)}`, pointer([{ ...good, path }])] as const),
  ['a path that is a list', pointer([{ ...good, path: ['m.onnx'] }])],
  ['two files of one path', pointer([good, good])],
  ['files that are a text', pointer('m.onnx')],
  ['files that are an object', pointer({ length: 1, 0: good })],
  ['a file that is null', pointer([null])],
  ['a file that is a text', pointer(['m.onnx'])],
  ['1,001 files', pointer(Array.from({ length: 1001 }, (_, i) => ({ ...good, path: `f${i}` })))],
  ['negative bytes', pointer([{ ...good, bytes: -1 }])],
  ['fractional bytes', pointer([{ ...good, bytes: 1.5 }])],
  ['bytes as a text', pointer([{ ...good, bytes: '1' }])],
  ['bytes beyond 2^53', pointer([{ ...good, bytes: 2 ** 60 }])],
  ['no sha256', pointer([{ path: 'm.onnx', bytes: MODEL.length }])],
  ['an empty sha256', pointer([{ ...good, sha256: '' }])],
  ['a sha256 with a dash, as ETags have that say nothing', pointer([{ ...good, sha256: `${SHA}-2` }])],
  ['a short sha256', pointer([{ ...good, sha256: SHA.slice(1) }])],
  ['a sha256 that is null', pointer([{ ...good, sha256: null }])],
  ['null', 'null'],
  ['a text', '"v1"'],
  ['no JSON', '<html>'],
  ['nothing', ''],
  ['a thousand levels', '['.repeat(1000)],
  ['10 MB', pointer(Array.from({ length: 60_000 }, (_, i) => ({ ...good, path: `f${i}` })))],
];

test('a pointer that is not exactly one is refused before anything is asked for', async (t) => {
  const s3 = await openBucket(t);
  for (const [what, text] of BAD_POINTERS) {
    await putObject(s3, POINTER, text);
    await assert.rejects(
      readPointer(s3, LOCATION),
      {
        code: 'model_unavailable',
        message: /^s3:\/\/models\/models\/job\/current\.json is no model pointer: /,
      },
      what,
    );
  }
});

test('a pointer with __proto__ and constructor in it changes no prototype', async (t) => {
  const s3 = await openBucket(t);
  const text = pointer([good]).replace(
    '{',
    '{"__proto__":{"owned":1},"constructor":{"prototype":{"owned":1}},',
  );
  await putObject(s3, POINTER, text);
  assert.equal((await readPointer(s3, LOCATION)).version, 'v1');
  assert.equal(({} as { owned?: unknown }).owned, undefined);
});

test('every key a pointer leads to is under its own version', async (t) => {
  const s3 = await openBucket(t);
  await putObject(s3, POINTER, pointer([good, { ...good, path: 'sub/w.bin' }]));
  const { files } = await readPointer(s3, LOCATION);
  assert.deepEqual(
    files.map(({ key }) => key),
    ['models/job/versions/v1/m.onnx', 'models/job/versions/v1/sub/w.bin'],
  );
});

test('a file that was changed after it was published never gets to a session', async (t) => {
  const s3 = await openBucket(t);
  const { files } = await publishModel(s3, LOCATION, await modelFolder(t));
  const [{ key } = { key: '' }] = files;
  const directory = await temporaryFolder(t);
  const flipped = Uint8Array.from(MODEL, (byte, i) => (i === 20 ? byte ^ 1 : byte));
  for (const [bytes, message] of [
    [flipped, /sha256 is [0-9a-f]{64}, expected [0-9a-f]{64}/],
    [MODEL.subarray(0, -1), /expected \d+ bytes, got \d+/],
    [new Uint8Array(), /expected \d+ bytes, got 0|range/],
  ] as const) {
    await putObject(s3, key, bytes);
    await assert.rejects(download(t, s3, directory), { code: 'model_unavailable', message });
    assert.deepEqual(await readdir(directory), [], 'nothing of it stays');
  }
});

test('a pointer that promises more bytes than there are is refused without waiting for them', async (t) => {
  const s3 = await openBucket(t);
  await putObject(s3, `${LOCATION.prefix}versions/v1/m.onnx`, MODEL);
  for (const bytes of [MODEL.length + 1, 2 ** 31, 2 ** 52]) {
    await putObject(s3, POINTER, pointer([{ ...good, bytes }]));
    const directory = await temporaryFolder(t);
    await assert.rejects(download(t, s3, directory), { code: 'model_unavailable' }, String(bytes));
    assert.deepEqual(await readdir(directory), []);
  }
});

test('bytes behind the end that the pointer gives are never read', async (t) => {
  const s3 = await openBucket(t);
  const { files } = await publishModel(s3, LOCATION, await modelFolder(t));
  await putObject(s3, (files[0] as { key: string }).key, Buffer.concat([MODEL, Buffer.from('more')]));
  const folder = await download(t, s3);
  assert.deepEqual(await readFile(join(folder, 'm.onnx')), Buffer.from(MODEL));
});

test('what an ended process left of a download is not taken for the model', async (t) => {
  const s3 = await openBucket(t);
  const { version } = await publishModel(s3, LOCATION, await modelFolder(t));
  const directory = await temporaryFolder(t);
  const leftover = join(directory, `${version}.partial-${process.pid}-999`);
  await mkdir(leftover);
  await writeFile(join(leftover, 'm.onnx'), 'half');
  const folder = await download(t, s3, directory);
  assert.equal(folder, join(directory, version));
  assert.deepEqual(await readFile(join(folder, 'm.onnx')), Buffer.from(MODEL));
});

test('objects that somebody copied into the prefix cannot name a place outside of the download', async (t) => {
  const s3 = await openBucket(t);
  await putObject(s3, `${LOCATION.prefix}m.onnx`, MODEL);
  const directory = await temporaryFolder(t);
  for (const name of ['..', '.']) {
    await putObject(s3, LOCATION.prefix + name, 'x');
    await assert.rejects(download(t, s3, directory), { code: 'model_unavailable' }, name);
    await s3.send(new DeleteObjectCommand({ Bucket: LOCATION.bucket, Key: LOCATION.prefix + name }));
  }
  assert.deepEqual(await readdir(directory), []);
});

test('a directory with a link in it is not published, neither the link nor what it leads to', async (t) => {
  const s3 = await openBucket(t);
  const outside = await temporaryFolder(t);
  await writeFile(join(outside, 'secret.bin'), 'secret');
  const links: readonly (readonly [name: string, target: string])[] = [
    ['link.bin', join(outside, 'secret.bin')],
    ['folder', outside],
    ['inside.bin', 'm.onnx'],
    ['broken.bin', join(outside, 'gone')],
  ];
  for (const [name, target] of links) {
    const folder = await modelFolder(t);
    await mkdir(join(folder, 'sub'));
    await symlink(target, join(folder, 'sub', name));
    await assert.rejects(
      publishModel(s3, LOCATION, folder),
      {
        code: 'model_unavailable',
        message: new RegExp(`sub/${name}: expected a file, found a symbolic link`),
      },
      name,
    );
  }
  const { Contents = [] } = await s3.send(new ListObjectsV2Command({ Bucket: LOCATION.bucket }));
  assert.deepEqual(Contents, []);
});

test('a model file that is a link is refused when it is published, not when it should serve', async (t) => {
  const s3 = await openBucket(t);
  const [folder, real] = [await temporaryFolder(t), await modelFolder(t)];
  await symlink(join(real, 'm.onnx'), join(folder, 'm.onnx'));
  await assert.rejects(publishModel(s3, LOCATION, folder), {
    code: 'model_unavailable',
    message: /m\.onnx: expected a file, found a symbolic link; put a copy in its place/,
  });
});

for (const name of ['a\nb.bin', 'a\u0007.bin', 'a..b.bin', 'weights (1).bin', 'gewicht-ä.bin', '-w.bin']) {
  test(`a file named ${JSON.stringify(name)} is refused when it is published: no pointer could name it`, async (t) => {
    const s3 = await openBucket(t);
    const folder = await modelFolder(t);
    await writeFile(join(folder, name), 'w');
    await assert.rejects(publishModel(s3, LOCATION, folder), (error: Error & { code: string }) => {
      assert.equal(error.code, 'model_unavailable');
      assert.match(error.message, /expected a path of letters, digits/);
      assert.ok(
        error.message.split('').every((character) => character >= ' '),
        'no control character gets through',
      );
      return true;
    });
  });
}

test('a directory of 10,000 files is refused before the first is read', async (t) => {
  const s3 = await openBucket(t);
  const folder = await modelFolder(t);
  for (let i = 0; i < 10_000; i++) writeFileSync(join(folder, `f${i}`), '');
  await assert.rejects(publishModel(s3, LOCATION, folder), {
    code: 'model_unavailable',
    message: /10001 files, over the limit of 1000/,
  });
});

test('hidden files and folders, as git and downloads leave them, stay at home', async (t) => {
  const s3 = await openBucket(t);
  const folder = await modelFolder(t);
  await mkdir(join(folder, '.git', 'hooks'), { recursive: true });
  await writeFile(join(folder, '.git', 'config'), 'url = https://user:password@host/');
  await symlink('/etc', join(folder, '.git', 'hooks', 'link'));
  await writeFile(join(folder, '.env'), 'KEY=1');
  await mkdir(join(folder, 'notes', '.cache'), { recursive: true });
  await writeFile(join(folder, 'notes', '.cache', 'draft'), 'KEY=2');
  const { files } = await publishModel(s3, LOCATION, folder);
  assert.deepEqual(
    files.map(({ path }) => path),
    ['m.onnx'],
  );
});

test('whatever can be published can be read again', async (t) => {
  const s3 = await openBucket(t);
  const folder = await modelFolder(t);
  await mkdir(join(folder, 'deep', 'er'), { recursive: true });
  for (const name of ['w_1.bin', 'deep/w-2.bin', 'deep/er/a b.bin', 'nul.data.0'])
    await writeFile(join(folder, name), name);
  const { files } = await publishModel(s3, LOCATION, folder);
  const read = await readPointer(s3, LOCATION);
  assert.deepEqual(read.files, files);
  const downloaded = await download(t, s3);
  for (const { path } of files)
    assert.deepEqual(await readFile(join(downloaded, path)), await readFile(join(folder, path)));
  const stored = await s3.send(new GetObjectCommand({ Bucket: LOCATION.bucket, Key: POINTER }));
  assert.ok(Number(stored.ContentLength) < 1024 * 1024);
});
