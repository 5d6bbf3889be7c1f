/** The objects of jobs over files: what is read is what was listed, results come in parts, and refusals say what to do. */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { JobObjects } from '../../../lib/s3/job-store.ts';
import { startAws } from '../../../local/aws/aws.ts';

const BUCKET = 'bucket';
const MiB = 1024 * 1024;
const quiet = { info: () => undefined, warn: () => undefined, error: () => undefined };

async function open(t: TestContext): Promise<JobObjects> {
  const aws = await startAws({ port: 0, log: quiet });
  t.after(() => aws.close());
  await aws.createBucket(BUCKET);
  return new JobObjects(aws.s3, BUCKET);
}

async function listed(store: JobObjects, key: string) {
  for await (const [found] of store.pages({ bucket: BUCKET, key }))
    if (found) return { bucket: BUCKET, ...found };
  return assert.fail(`no ${key}`);
}

test('a file is read as it was listed, and not once it was changed, cut short or removed', async (t) => {
  const store = await open(t);
  await store.put('in/a.csv', 'x\n1\n');
  const file = await listed(store, 'in/a.csv');
  assert.equal(Buffer.from(await store.read(file, 2, 4)).toString(), '1\n');
  assert.equal((await store.read(file, 2, 2)).length, 0);
  const changed = {
    code: 'conflict',
    message: 's3://bucket/in/a.csv was changed or removed while the job ran',
  };
  await assert.rejects(store.read(file, 2, 5), changed);
  await store.put('in/a.csv', 'x\n2\n');
  await assert.rejects(store.read(file, 2, 4), changed);
  await store.remove(['in/a.csv']);
  await assert.rejects(store.read(file, 2, 4), changed);
});

test('a text is there, empty or missing, and a new one replaces none', async (t) => {
  const store = await open(t);
  assert.equal(await store.text('a'), undefined);
  assert.equal(await store.putNew('a', '{"n":1}'), true);
  assert.equal(await store.putNew('a', '{"n":1}'), true);
  assert.equal(await store.putNew('a', '{"n":2}'), false);
  assert.equal((await store.text('a'))?.text, '{"n":1}');
  await store.put('empty', '');
  assert.equal((await store.text('empty'))?.text, '');
});

test('parts of an upload may come twice and in any order, and an upload that is gone says so', async (t) => {
  const store = await open(t);
  const target = { bucket: BUCKET, key: 'out/results.ndjson' };
  const upload = await store.begin(target);
  const [first, last] = [Buffer.alloc(6 * MiB, 'a'), Buffer.from('end\n')];
  const etags: string[] = [];
  for (const [number, body] of [
    [2, last],
    [1, first],
    [1, first],
  ] as const)
    etags[number - 1] = (await store.putPart(target, upload, number, body)) ?? '';
  assert.equal(await store.size(target), undefined);
  assert.equal(await store.complete(target, upload, etags), true);
  assert.equal(await store.size(target), first.length + last.length);
  assert.equal(await store.complete(target, upload, etags), false);
  assert.equal(await store.putPart(target, upload, 3, last), undefined);
  assert.deepEqual(await store.folders(''), ['out']);
});

test('what S3 refuses is an error with what to do', async (t) => {
  const store = await open(t);
  const missing = { bucket: 'no-such-bucket', key: 'in/' };
  const refused = {
    code: 'bad_request',
    message: /^s3:\/\/no-such-bucket\/in\/: there is no bucket no-such-bucket/,
  };
  await assert.rejects(store.pages(missing).next(), refused);
  await assert.rejects(store.putObject(missing, Buffer.from('x')), refused);
  await assert.rejects(store.begin(missing), refused);
});
