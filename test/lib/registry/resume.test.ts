import assert from 'node:assert/strict';
import { createCipheriv, createHash } from 'node:crypto';
import { appendFile, readdir, readFile, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { PutObjectCommand } from '@aws-sdk/client-s3';
import { downloadModel, type ModelPointer } from '../../../lib/registry/download.ts';
import { removeOthers } from '../../../lib/registry/download-folder.ts';
import { deferredS3 } from '../../../lib/s3/objects.ts';
import { startAws } from '../../../local/aws/aws.ts';
import { startHttpProxy } from '../../support/faults/http-proxy.ts';
import { temporaryFolder } from '../../support/runner.ts';

const MB = 1024 * 1024;
const LOCATION = { bucket: 'models', prefix: '' };
const KEY = 'model.onnx';

/** A bucket with one file of 20 MiB, in three parts, and what was asked of it. */
async function scene(t: TestContext, { isSigned }: { isSigned: boolean }) {
  const aws = await startAws({ port: 0, log: { info() {}, warn() {}, error() {} } });
  t.after(() => aws.close());
  await aws.createBucket(LOCATION.bucket);
  const proxy = await startHttpProxy(t, aws.url);
  const put = async (seed: number): Promise<Uint8Array> => {
    const content = createCipheriv('aes-128-ctr', Buffer.alloc(16, seed), Buffer.alloc(16)).update(
      Buffer.alloc(20 * MB),
    );
    await aws.s3.send(new PutObjectCommand({ Bucket: LOCATION.bucket, Key: KEY, Body: content }));
    return content;
  };
  const asked: { range: string; etag: string | undefined }[] = [];
  proxy.onRequest = ({ headers }) => {
    asked.push({ range: String(headers.range), etag: headers['if-match'] });
    return { kind: 'pass' };
  };
  const { accessKeyId, secretAccessKey } = aws.credentials;
  const credentials = { accessKeyId, secretAccessKey, sessionToken: undefined };
  const place = { region: aws.region, credentials, endpoint: proxy.url };
  const s3 = deferredS3({
    load: async () => (await import('../../../lib/s3/client.ts')).openS3(place),
    readPlace: () => (isSigned ? place : undefined),
  });
  t.after(() => s3.destroy());
  const directory = await temporaryFolder(t);
  /** Stops it when about half of it is there. */
  const stopped = async (pointer: ModelPointer) => {
    const before = proxy.onRequest;
    const stop = new AbortController();
    let halves = 0;
    proxy.onRequest = (request) => {
      before(request);
      const after = () => (++halves === 3 ? setTimeout(() => stop.abort(new Error('over')), 100) : 0);
      return { kind: 'stall', share: 0.5, after: () => void after() };
    };
    await assert.rejects(
      downloadModel(s3, LOCATION, pointer, directory, { signal: stop.signal, keeps: true }),
      /over/,
    );
    proxy.onRequest = before;
    asked.length = 0;
  };
  const download = (pointer: ModelPointer) =>
    downloadModel(s3, LOCATION, pointer, directory, { keeps: true });
  return { put, asked, directory, stopped, download, proxy, s3 };
}

function pointerOf(content: Uint8Array, version = 'v1'): ModelPointer {
  const sha256 = createHash('sha256').update(content).digest('hex');
  return { version, files: [{ path: KEY, bytes: content.byteLength, sha256, key: KEY }] };
}

const bytesOf = (asked: readonly { range: string }[]) =>
  asked.reduce((sum, { range }) => {
    const [, from, to] = /bytes=(\d+)-(\d+)/.exec(range) ?? [];
    return sum + Number(to) - Number(from) + 1;
  }, 0);

for (const isSigned of [true, false]) {
  const by = isSigned ? 'signed reads' : "the SDK's reads";

  test(`${by}: a download that was stopped continues at the byte of each part, under the ETag that it began with`, async (t) => {
    const { put, asked, stopped, download, directory } = await scene(t, { isSigned });
    const content = await put(1);
    await stopped(pointerOf(content));
    const folder = await download(pointerOf(content));
    assert.ok((await readFile(join(folder, KEY))).equals(content));
    assert.deepEqual(await readdir(directory), ['v1']);
    assert.deepEqual(await readdir(folder), [KEY]);
    assert.ok(bytesOf(asked) <= 0.8 * content.byteLength, JSON.stringify(asked));
    assert.ok(asked.every(({ etag }) => etag !== undefined));
  });
}

test('an object that was replaced meanwhile is read from its beginning', async (t) => {
  const { put, stopped, download } = await scene(t, { isSigned: true });
  const first = await put(1);
  await stopped(pointerOf(first));
  const second = await put(2);
  const folder = await download(pointerOf(second));
  assert.ok((await readFile(join(folder, KEY))).equals(second));
});

test('what is left is not trusted beyond the digest: a byte that is another is an error, and then all is read again', async (t) => {
  const { put, stopped, download, directory } = await scene(t, { isSigned: true });
  const content = await put(1);
  await stopped(pointerOf(content));
  const [left = ''] = await readdir(directory);
  const file = join(directory, left, KEY);
  const bytes = await readFile(file);
  bytes[7] = (bytes[7] as number) ^ 1;
  await writeFile(file, bytes);
  await assert.rejects(download(pointerOf(content)), /sha256 is/);
  assert.deepEqual(await readdir(directory), []);
  await download(pointerOf(content));
});

test('the next process of the environment continues, unless only the size of the file could be compared', async (t) => {
  const { put, asked, stopped, download, directory } = await scene(t, { isSigned: true });
  const content = await put(1);
  const asOther = async () => {
    const left = (await readdir(directory)).find((name) => name.includes('.partial-')) ?? '';
    // A process that has ended, in the middle of a line.
    await appendFile(join(directory, left, '.parts'), '[0,1,');
    await rename(join(directory, left), join(directory, left.replace(/-\d+-/, '-2147483646-')));
  };
  await stopped(pointerOf(content));
  await asOther();
  await download(pointerOf(content));
  assert.ok(bytesOf(asked) <= 0.8 * content.byteLength);

  const { files } = pointerOf(content);
  const copied = {
    version: 'v2',
    files: files.map(({ path, bytes, key }) => ({ path, bytes, key, etagIsDigest: false })),
  };
  await stopped(copied);
  await asOther();
  await download(copied);
  assert.equal(bytesOf(asked), content.byteLength);
});

test('what is left of a version stays while that version is wanted, and makes room for another', async (t) => {
  const { put, stopped, directory } = await scene(t, { isSigned: true });
  await stopped(pointerOf(await put(1)));
  await removeOthers(directory, new Set(['v1']));
  assert.equal((await readdir(directory)).length, 1);
  await removeOthers(directory, new Set(['v2']));
  assert.deepEqual(await readdir(directory), []);
});

test('connections that break while the bytes come cost what was on the way, and no error', async (t) => {
  const { put, asked, download, proxy } = await scene(t, { isSigned: true });
  const content = await put(1);
  let cuts = 0;
  proxy.onRequest = ({ headers }) => {
    asked.push({ range: String(headers.range), etag: headers['if-match'] });
    return ++cuts <= 9 ? { kind: 'cut', share: 0.3 } : { kind: 'pass' };
  };
  const folder = await download(pointerOf(content));
  assert.ok((await readFile(join(folder, KEY))).equals(content));
});
