/** Versions of a model in S3: uploads that break off, promotions that meet, the way back, and what is deleted. */
import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { DeleteObjectCommand, HeadObjectCommand, PutObjectCommand } from '@aws-sdk/client-s3';
import type { Verification } from '../../../lib/contract/verification.ts';
import { downloadModel, readPointer } from '../../../lib/registry/download.ts';
import { promote, readCurrent } from '../../../lib/registry/pointer.ts';
import { type PublishOptions, publishModel } from '../../../lib/registry/publish.ts';
import {
  listVersions,
  readManifest,
  removeVersion,
  rollBack,
  surplus,
} from '../../../lib/registry/versions.ts';
import { openS3 } from '../../../lib/s3/client.ts';
import type { S3Client } from '../../../lib/s3/objects.ts';
import { uploadFile } from '../../../lib/s3/upload.ts';
import { startAws } from '../../../local/aws/aws.ts';
import { useAws } from '../../support/environment.ts';
import { startHttpProxy } from '../../support/faults/http-proxy.ts';
import { identityModel } from '../../support/onnx.ts';
import { temporaryFolder } from '../../support/runner.ts';
import { strictStore } from './publish-store.ts';

const LOCATION = { bucket: 'models', prefix: 'models/job/' };
const quiet = { info: () => undefined, warn: () => undefined, error: () => undefined };
const MiB = 1024 * 1024;
const PART_BYTES = 5 * MiB;

async function bucket(t: TestContext) {
  const aws = await startAws({ port: 0, log: quiet });
  t.after(() => aws.close());
  await aws.createBucket(LOCATION.bucket);
  return aws;
}

/** A model apart from those with another name. */
async function modelFolder(t: TestContext, name: string): Promise<string> {
  const folder = await temporaryFolder(t);
  await writeFile(join(folder, 'model.onnx'), identityModel([{ name, dtype: 'float32', shape: ['N', 1] }]));
  return folder;
}

async function publish(t: TestContext, s3: S3Client, name: string, options: PublishOptions = {}) {
  return publishModel(s3, LOCATION, await modelFolder(t, name), options);
}

const serving = async (s3: S3Client) => (await readPointer(s3, LOCATION)).version;

/** A file of three parts and a bit, in a bucket behind a proxy. */
async function largeFile(t: TestContext) {
  const aws = await bucket(t);
  const path = join(await temporaryFolder(t), 'large.bin');
  const content = randomBytes(3 * PART_BYTES + 12_345);
  await writeFile(path, content);
  const sha256 = createHash('sha256').update(content).digest('hex');
  const proxy = await startHttpProxy(t, aws.url);
  useAws(aws.environment);
  const s3 = openS3({ endpoint: proxy.url, region: aws.region });
  t.after(() => s3.destroy());
  const address = { bucket: LOCATION.bucket, key: 'large.bin' };
  const stored = () =>
    aws.s3.send(new HeadObjectCommand({ Bucket: address.bucket, Key: address.key })).then(
      ({ ContentLength }) => ContentLength,
      () => undefined,
    );
  return { aws, proxy, s3, address, stored, file: { path, bytes: content.length, sha256 }, content };
}

test('a large file arrives in parts, each counted, and a part whose connection breaks is sent again', async (t) => {
  const { proxy, s3, address, stored, file, aws, content } = await largeFile(t);
  const parts = new Map<string, number>();
  proxy.onRequest = ({ path }) => {
    const part = /partNumber=(\d+)/.exec(path)?.[1];
    if (part === undefined) return { kind: 'pass' };
    parts.set(part, (parts.get(part) ?? 0) + 1);
    return part === '2' && parts.get(part) === 1 ? { kind: 'reset' } : { kind: 'pass' };
  };
  const sent: number[] = [];
  await uploadFile(s3, address, file, { partBytes: PART_BYTES, onBytes: (bytes) => sent.push(bytes) });
  assert.deepEqual(
    [...parts].toSorted(([x], [y]) => x.localeCompare(y)),
    [
      ['1', 1],
      ['2', 2],
      ['3', 1],
      ['4', 1],
    ],
  );
  assert.deepEqual(
    sent.toSorted((a, b) => a - b),
    [12_345, PART_BYTES, PART_BYTES, PART_BYTES],
  );
  assert.equal(await stored(), file.bytes);
  const key = address.key;
  const folder = await temporaryFolder(t);
  const one = { path: 'large.bin', key, bytes: file.bytes, sha256: file.sha256 };
  await downloadModel(aws.s3, LOCATION, { version: 'v', files: [one] }, folder);
  assert.ok(content.equals(await readFile(join(folder, 'v', 'large.bin'))));
});

test('an upload that is broken off is called off: no part of it stays, and the next one is whole', async (t) => {
  const { proxy, s3, address, stored, file } = await largeFile(t);
  const stop = new AbortController();
  const seen: string[] = [];
  proxy.onRequest = ({ method, path }) => {
    seen.push(
      `${method} ${/partNumber=\d+/.exec(path) ? 'part' : path.includes('uploadId') ? 'upload' : 'other'}`,
    );
    if (path.includes('partNumber=3'))
      return { kind: 'stall', share: 0, after: () => stop.abort(new Error('enough')) };
    return { kind: 'pass' };
  };
  const broken = uploadFile(s3, address, file, { partBytes: PART_BYTES, signal: stop.signal });
  await assert.rejects(broken, { message: 'enough' });
  assert.equal(seen.at(-1), 'DELETE upload');
  assert.equal(await stored(), undefined);
  proxy.onRequest = () => ({ kind: 'pass' });
  await uploadFile(s3, address, file, { partBytes: PART_BYTES });
  assert.equal(await stored(), file.bytes);
});

test('a part that S3 refuses ends the upload at once, and it is called off', async (t) => {
  const { proxy, s3, address, stored, file } = await largeFile(t);
  let refused = 0;
  const deleted: string[] = [];
  proxy.onRequest = ({ method, path }) => {
    if (method === 'DELETE') deleted.push(path);
    if (!path.includes('partNumber=2')) return { kind: 'pass' };
    refused++;
    const body = Buffer.from('<Error><Code>AccessDenied</Code><Message>no</Message></Error>');
    return { kind: 'answer', answer: { status: 403, headers: {}, body } };
  };
  await assert.rejects(uploadFile(s3, address, file, { partBytes: PART_BYTES }), { name: 'AccessDenied' });
  assert.deepEqual([refused, deleted.length, await stored()], [1, 1, undefined]);
});

test('a file that changes while it is uploaded is refused, whole or in parts, and nothing of it is there', async (t) => {
  const { s3, address, stored, file } = await largeFile(t);
  const other = { ...file, sha256: '0'.repeat(64) };
  for (const partBytes of [PART_BYTES, 64 * MiB]) {
    await assert.rejects(uploadFile(s3, address, other, { partBytes }), {
      code: 'bad_request',
      message: /large\.bin has changed while it was uploaded/,
    });
    assert.equal(await stored(), undefined);
  }
});

test('what S3 holds after an upload is compared by size and by checksum', async (t) => {
  const store = await strictStore(t);
  const path = join(await temporaryFolder(t), 'file.bin');
  await writeFile(path, 'content');
  const file = { path, bytes: 7, sha256: createHash('sha256').update('content').digest('hex') };
  const address = { bucket: 'models', key: 'file.bin' };
  store.stored = () => Buffer.from('cut');
  await assert.rejects(uploadFile(store.s3, address, file), /expected 7 bytes, got 3/);
  store.stored = () => Buffer.from('CONTENT');
  await assert.rejects(uploadFile(store.s3, address, file), /expected SHA-256 .*, got /);
  // A store without checksums is read.
  store.keepsChecksums = false;
  await assert.rejects(uploadFile(store.s3, address, file), /expected SHA-256 .*, got /);
  store.stored = (_, body) => body;
  await uploadFile(store.s3, address, file);
  store.keepsChecksums = true;
  await uploadFile(store.s3, address, file);
});

test('a part that has no answer within its time is sent again', async (t) => {
  const store = await strictStore(t);
  const path = join(await temporaryFolder(t), 'file.bin');
  await writeFile(path, 'content');
  const file = { path, bytes: 7, sha256: createHash('sha256').update('content').digest('hex') };
  const address = { bucket: 'models', key: 'file.bin' };
  // Its fifteen seconds are over at once.
  const original = AbortSignal.timeout.bind(AbortSignal);
  t.mock.method(AbortSignal, 'timeout', (ms: number) => original(ms >= 15_000 ? 300 : ms));
  let puts = 0;
  store.hangs = () => ++puts === 1;
  await uploadFile(store.s3, address, file);
  assert.equal(puts, 2);
});

test('files that are there are passed over, and the same model twice is one version and one turn', async (t) => {
  const { s3 } = await bucket(t);
  const folder = await modelFolder(t, 'a');
  await mkdir(join(folder, 'extra'));
  await writeFile(join(folder, 'extra', 'labels.txt'), 'cat');
  const seen: [number, number][] = [];
  const first = await publishModel(s3, LOCATION, folder, { onBytes: (...bytes) => seen.push(bytes) });
  assert.deepEqual([first.skipped, first.before, first.serves], [0, undefined, true]);
  assert.deepEqual(seen.at(-1), [seen.at(-1)?.[1], seen.at(-1)?.[1]]);
  await s3.send(new DeleteObjectCommand({ Bucket: LOCATION.bucket, Key: first.files[0]?.key }));
  const again = await publishModel(s3, LOCATION, folder);
  assert.deepEqual([again.version, again.skipped, again.before], [first.version, 1, first.version]);
  assert.equal((await readCurrent(s3, LOCATION)).history.length, 1);
  for (const name of ['import-report.json', 'import-report.md'])
    await writeFile(join(folder, name), 'of an import');
  const imported = await publishModel(s3, LOCATION, folder);
  assert.deepEqual([imported.version, imported.files], [first.version, first.files]);
});

test('a version that was only uploaded does not serve; a rollback by its name lets it', async (t) => {
  const { s3 } = await bucket(t);
  const { version: a } = await publish(t, s3, 'a');
  const b = await publish(t, s3, 'b', { activate: false, source: { format: 'caffe' } });
  assert.deepEqual([b.serves, b.before, await serving(s3)], [false, a, a]);
  const listed = await listVersions(s3, LOCATION);
  assert.deepEqual(
    new Map(listed.map(({ version, format, serves, files }) => [version, [format, serves, files]])),
    new Map([
      [a, ['onnx', true, 1]],
      [b.version, ['caffe', false, 1]],
    ]),
  );
  assert.deepEqual(await rollBack(s3, LOCATION, b.version), { version: b.version, from: a });
  assert.equal(await serving(s3), b.version);
  await rollBack(s3, LOCATION, undefined);
  assert.equal(await serving(s3), a);
});

test('rollbacks go back turn by turn and never forward; a push after them begins from there', async (t) => {
  const { s3 } = await bucket(t);
  const versions: string[] = [];
  for (const name of ['a', 'b', 'c']) versions.push((await publish(t, s3, name)).version);
  const [a, b] = versions as [string, string, string];
  assert.equal((await rollBack(s3, LOCATION, undefined)).version, b);
  assert.equal((await rollBack(s3, LOCATION, undefined)).version, a);
  await assert.rejects(rollBack(s3, LOCATION, undefined), {
    code: 'not_found',
    message: /no version served before/,
  });
  assert.equal(await serving(s3), a);
  const { version: d } = await publish(t, s3, 'd');
  assert.deepEqual(
    (await readCurrent(s3, LOCATION)).history.map(({ version }) => version),
    [a, d],
  );
  assert.deepEqual(await rollBack(s3, LOCATION, undefined), { version: a, from: d });
});

test('a rollback to a version with a file that is gone, or cut, changes nothing', async (t) => {
  const { s3 } = await bucket(t);
  const { files } = await publish(t, s3, 'a');
  const { version: b } = await publish(t, s3, 'b');
  const Key = files[0]?.key;
  await s3.send(new PutObjectCommand({ Bucket: LOCATION.bucket, Key, Body: 'cut' }));
  await assert.rejects(rollBack(s3, LOCATION, undefined), {
    code: 'model_unavailable',
    message: /model\.onnx of version \w+: expected \d+ bytes, found 3; nothing was changed/,
  });
  await s3.send(new DeleteObjectCommand({ Bucket: LOCATION.bucket, Key }));
  await assert.rejects(rollBack(s3, LOCATION, undefined), /found nothing; nothing was changed/);
  await assert.rejects(rollBack(s3, LOCATION, 'feedfeed0000'), {
    code: 'not_found',
    message: /is not there/,
  });
  await assert.rejects(rollBack(s3, LOCATION, '../x'), { code: 'bad_config' });
  assert.equal(await serving(s3), b);
});

test('a HEAD that S3 refuses does not mean that the file is missing', async (t) => {
  const aws = await bucket(t);
  const proxy = await startHttpProxy(t, aws.url);
  useAws(aws.environment);
  const s3 = openS3({ endpoint: proxy.url, region: aws.region });
  t.after(() => s3.destroy());
  await publish(t, s3, 'a');
  const { version: b } = await publish(t, s3, 'b');
  const answer = { status: 403, headers: {}, body: Buffer.alloc(0) };
  proxy.onRequest = ({ method }) => (method === 'HEAD' ? { kind: 'answer', answer } : { kind: 'pass' });
  const unknown = { code: 'model_unavailable', message: /model\.onnx: S3 answered HEAD with 403$/ };
  await assert.rejects(rollBack(s3, LOCATION, undefined), unknown);
  const uploads = proxy.seen.length;
  await assert.rejects(publish(t, s3, 'c'), unknown);
  assert.ok(!proxy.seen.slice(uploads).some((request) => request.startsWith('PUT')));
  assert.equal(await serving(aws.s3), b);
});

test('a version that others let serve during an upload is not replaced by it, and the upload is there to be chosen', async (t) => {
  const store = await strictStore(t);
  const { version: a } = await publish(t, store.s3, 'a');
  const folder = await modelFolder(t, 'mine');
  const theirs = await modelFolder(t, 'theirs');
  const { version: other } = await publishModel(store.s3, LOCATION, theirs, { activate: false });
  const pointer = `${LOCATION.prefix}current.json`;
  store.beforePut = (key) => {
    if (!key.endsWith('/model.onnx')) return;
    const manifest = store.objects.get(`${LOCATION.prefix}manifests/${other}.json`) ?? '';
    const { files } = JSON.parse(manifest.toString()) as { files: unknown };
    store.objects.set(pointer, Buffer.from(JSON.stringify({ version: other, files })));
  };
  await assert.rejects(publishModel(store.s3, LOCATION, folder), {
    code: 'conflict',
    message: new RegExp(`version ${other} was made to serve in the meantime, instead of ${a}`),
  });
  assert.equal(await serving(store.s3), other);
  store.beforePut = () => undefined;
  const again = await publishModel(store.s3, LOCATION, folder);
  assert.deepEqual([again.skipped, again.before, await serving(store.s3)], [1, other, again.version]);
});

test('two promotions of one pointer: the store keeps the condition, the second is refused and told who serves', async (t) => {
  const store = await strictStore(t);
  const { version: a } = await publish(t, store.s3, 'a');
  const current = await readCurrent(store.s3, LOCATION);
  const files = [{ path: 'model.onnx', bytes: 1, sha256: '0'.repeat(64) }];
  const to = (version: string) => [...current.history, { version, at: '2026-11-21T00:00:00.000Z' }];
  // Between the last look and the put: only the condition can tell.
  const pointer = `${LOCATION.prefix}current.json`;
  store.beforePut = (key) => {
    if (key !== pointer) return;
    store.beforePut = () => undefined;
    store.objects.set(pointer, Buffer.from(JSON.stringify({ version: 'theirs', files })));
  };
  await assert.rejects(promote(store.s3, LOCATION, current, { files }, to('mine')), {
    code: 'conflict',
    message: new RegExp(`version theirs was made to serve in the meantime, instead of ${a}; mine was not`),
  });
  assert.equal(await serving(store.s3), 'theirs');
  // And the first pointer of all is as safe.
  store.objects.delete(pointer);
  const none = await readCurrent(store.s3, LOCATION);
  store.beforePut = () =>
    void store.objects.set(pointer, Buffer.from(JSON.stringify({ version: 'first', files })));
  await assert.rejects(promote(store.s3, LOCATION, none, { files }, to('mine')), { code: 'conflict' });
});

test('a promotion whose answer gets lost is not a conflict with itself', async (t) => {
  const store = await strictStore(t);
  await publish(t, store.s3, 'a');
  let lost = 0;
  let puts = 0;
  store.losesAnswer = (key) => key.endsWith('current.json') && lost++ === 0;
  store.beforePut = (key) => {
    if (key.endsWith('current.json')) puts++;
  };
  const { version: b } = await publish(t, store.s3, 'b');
  assert.equal(await serving(store.s3), b);
  assert.deepEqual([lost, puts], [1, 2]);
});

test('a pointer that makes no sense is replaced by a push, and a listing continues without it', async (t) => {
  const { s3 } = await bucket(t);
  const { version: a } = await publish(t, s3, 'a');
  const Key = `${LOCATION.prefix}current.json`;
  for (const Body of [
    '',
    '{"version"',
    '[]',
    '{"version":"../x"}',
    `{"version":"${a}","files":1,"history":[1]}`,
  ]) {
    await s3.send(new PutObjectCommand({ Bucket: LOCATION.bucket, Key, Body }));
    assert.deepEqual(
      (await listVersions(s3, LOCATION)).map(({ version }) => version),
      [a],
    );
    await publish(t, s3, 'a');
    assert.equal(await serving(s3), a);
  }
});

test('a prune keeps the newest and the one that serves, and no rollback reaches what it deletes', async (t) => {
  const { s3 } = await bucket(t);
  const names = ['a', 'b', 'c', 'd'];
  const versions: string[] = [];
  let at = Date.parse('2026-11-21T00:00:00Z');
  for (const name of names) versions.push((await publish(t, s3, name, { now: () => (at += 1_000) })).version);
  const [a, b, c, d] = versions as [string, string, string, string];
  await rollBack(s3, LOCATION, a);
  const all = await listVersions(s3, LOCATION);
  assert.deepEqual(
    all.map(({ version }) => version),
    [d, c, b, a],
  );
  const old = (keep: number) => surplus(all, keep).map(({ version }) => version);
  assert.deepEqual([old(0), old(1), old(2), old(4)], [[d, c, b], [d, c, b], [c, b], []]);
  assert.equal(await removeVersion(s3, LOCATION, b), true);
  assert.equal(await removeVersion(s3, LOCATION, a), false);
  assert.deepEqual(
    (await listVersions(s3, LOCATION)).map(({ version, format }) => [version, format]),
    [
      [d, 'onnx'],
      [c, 'onnx'],
      [a, 'onnx'],
    ],
  );
  await assert.rejects(rollBack(s3, LOCATION, b), { code: 'not_found', message: /to go back to: \w+, \w+$/ });
  assert.equal(await serving(s3), a);
});

test('S3 that cannot be reached is said to be that, with its address', async (t) => {
  const proxy = await startHttpProxy(t, 'http://127.0.0.1:1');
  useAws({ AWS_ACCESS_KEY_ID: 'x', AWS_SECRET_ACCESS_KEY: 'x' });
  const s3 = openS3({ endpoint: proxy.url, region: 'local' });
  t.after(() => s3.destroy());
  const body = Buffer.from('<Error><Code>AccessDenied</Code><Message>not you</Message></Error>');
  proxy.onRequest = () => ({ kind: 'answer', answer: { status: 403, headers: {}, body } });
  const expected = { code: 'model_unavailable', message: 's3://models/models/job/: not you' };
  await assert.rejects(publish(t, s3, 'a'), expected);
  await assert.rejects(listVersions(s3, LOCATION), expected);
  await assert.rejects(rollBack(s3, LOCATION, undefined), expected);
});

const VERIFICATION: Verification = {
  batching: { verdict: 'proven', analyser: 1 },
  runtime: { onnxruntime: '1.30.0', architecture: 'x64', level: 'all', disabledOptimizers: [] },
  comparison: 'agrees',
};

test('a model whose verification fails leaves nothing in S3, and one that is there is verified with what is stored', async (t) => {
  const store = await strictStore(t);
  const folder = await modelFolder(t, 'a');
  const broken = new Error('never ready');
  const failing = publishModel(store.s3, LOCATION, folder, { verify: () => Promise.reject(broken) });
  await assert.rejects(failing, /never ready/);
  assert.deepEqual([...store.objects.keys()], []);
  const verified: [string, Verification | undefined][] = [];
  const verify = async (file: string, stored: Verification | undefined) => {
    verified.push([file, stored]);
    return stored ?? VERIFICATION;
  };
  for (let i = 0; i < 2; i++) await publishModel(store.s3, LOCATION, folder, { verify });
  const file = join(folder, 'model.onnx');
  assert.deepEqual(verified, [
    [file, undefined],
    [file, VERIFICATION],
  ]);
});

test('a file that is there in another size is uploaded again, and the same files are the same version', async (t) => {
  const store = await strictStore(t);
  const folder = await modelFolder(t, 'a');
  for (const name of ['b.bin', 'a.bin', 'c.bin', 'd.bin', 'e.bin']) await writeFile(join(folder, name), name);
  const { version, files } = await publishModel(store.s3, LOCATION, folder);
  assert.deepEqual(
    files.map(({ path }) => path),
    ['a.bin', 'b.bin', 'c.bin', 'd.bin', 'e.bin', 'model.onnx'],
  );
  const [first] = files;
  assert.ok(first);
  const whole = store.objects.get(first.key);
  store.objects.set(first.key, Buffer.from('torn'));
  const again = await publishModel(store.s3, LOCATION, folder);
  assert.deepEqual([again.version, again.skipped], [version, 5]);
  assert.deepEqual(store.objects.get(first.key), whole);
});

test('the pointer keeps the last fifty turns', async (t) => {
  const store = await strictStore(t);
  const { version } = await publish(t, store.s3, 'a');
  const current = await readCurrent(store.s3, LOCATION);
  const turns = Array.from({ length: 60 }, (_, i) => ({ version: `v${i}`, at: new Date(i).toISOString() }));
  await promote(store.s3, LOCATION, current, { files: [] }, turns);
  const { history } = await readCurrent(store.s3, LOCATION);
  assert.deepEqual([history.length, history[0]?.version, history.at(-1)?.version], [50, 'v10', 'v59']);
  assert.notEqual(history.at(-1)?.version, version);
});

test('a pointer that changed after it was read is not replaced, also by a store that keeps no conditions', async (t) => {
  const store = await strictStore(t);
  await publish(t, store.s3, 'a');
  const current = await readCurrent(store.s3, LOCATION);
  await publish(t, store.s3, 'b');
  const serves = await serving(store.s3);
  const puts: unknown[] = [];
  const careless = Object.assign(Object.create(store.s3) as S3Client, {
    send: (command: unknown, ...rest: unknown[]) => {
      if (command instanceof PutObjectCommand) {
        puts.push(command.input.IfMatch);
        delete command.input.IfMatch;
      }
      return (store.s3.send as (...all: unknown[]) => Promise<unknown>).call(store.s3, command, ...rest);
    },
  });
  const turn = { version: 'v1', at: '' };
  await assert.rejects(promote(careless, LOCATION, current, { files: [] }, [turn]), { code: 'conflict' });
  assert.deepEqual([puts, await serving(store.s3)], [[], serves]);
  // Every write is conditional on the data that was read.
  const now = await readCurrent(store.s3, LOCATION);
  await promote(careless, LOCATION, now, { files: [] }, [turn]);
  assert.deepEqual(puts, [now.etag]);
});

test('a version whose manifest does not name whole files cannot be gone back to', async (t) => {
  const { s3 } = await bucket(t);
  const { version: a } = await publish(t, s3, 'a');
  const { version: b } = await publish(t, s3, 'b');
  const address = { Bucket: LOCATION.bucket, Key: `${LOCATION.prefix}manifests/${a}.json` };
  const manifest = await readManifest(s3, LOCATION, a);
  assert.ok(manifest);
  const [file] = manifest.files;
  for (const files of [[], [{ ...file, sha256: 'none' }], [{ ...file, path: '../x' }]]) {
    const Body = JSON.stringify({ ...manifest, files });
    await s3.send(new PutObjectCommand({ ...address, Body }));
    await assert.rejects(rollBack(s3, LOCATION, a), { code: 'not_found' });
  }
  assert.equal(await serving(s3), b);
});
