/** A model that is named by its address in S3: what is copied, that it is whole, and what is refused. */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, type TestContext, test } from 'node:test';
import {
  GetObjectCommand,
  HeadObjectCommand,
  type HeadObjectCommandOutput,
  ListObjectsV2Command,
  PutObjectCommand,
} from '@aws-sdk/client-s3';
import { resolveModelPath } from '../../../lib/config/model-path.ts';
import { ServingError } from '../../../lib/contract/errors.ts';
import { readS3Address } from '../../../lib/contract/names.ts';
import { MAX_MODEL_FILES } from '../../../lib/registry/download.ts';
import { copyModel, MAX_SOURCE_BYTES } from '../../../lib/registry/source.ts';
import type { S3Client } from '../../../lib/s3/objects.ts';
import { type LocalAws, startAws } from '../../../local/aws/aws.ts';
import { temporaryFolder } from '../../support/runner.ts';

const BUCKET = 'their-models';

async function contentsOf(folder: string): Promise<Record<string, string>> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  const files = entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name));
  const texts = await Promise.all(
    files.map(async (file) => [file.slice(folder.length + 1), await readFile(file, 'utf8')]),
  );
  return Object.fromEntries(texts) as Record<string, string>;
}

describe('from an S3', () => {
  let aws: LocalAws;
  before(async () => {
    aws = await startAws({
      port: 0,
      log: { info: () => undefined, warn: () => undefined, error: () => undefined },
    });
    await aws.createBucket(BUCKET);
  });
  after(() => aws?.close());

  const put = (Key: string, body: string | Buffer = Key) =>
    aws.s3.send(
      new PutObjectCommand({
        Bucket: BUCKET,
        Key,
        Body: Buffer.from(body),
        ContentLength: Buffer.byteLength(body),
      }),
    );
  const copy = async (t: TestContext, address: string, options = {}) => {
    const directory = await temporaryFolder(t);
    return { directory, folder: await copyModel(address, directory, { s3: aws.s3, ...options }) };
  };

  test('everything below the prefix is copied but hidden files and the folders of the console', async (t) => {
    const names = ['saved_model.pb', 'variables/variables.index', 'variables/variables.data-00000-of-00001'];
    for (const name of [...names, '', 'assets/', '.DS_Store', '.git/config', 'a/.hidden/b'])
      await put(`all/net/${name}`, name);
    await put('all/net-v2/saved_model.pb', 'another model');
    const progress: number[][] = [];
    const onBytes = (done: number, total: number) => progress.push([done, total]);
    const { folder } = await copy(t, `s3://${BUCKET}/all/net`, { onBytes });
    assert.deepEqual(await contentsOf(folder), Object.fromEntries(names.map((name) => [name, name])));
    const total = names.join('').length;
    assert.deepEqual(progress.at(-1), [total, total]);
    const again = await copy(t, `s3://${BUCKET}/all/net/`);
    assert.deepEqual(await contentsOf(again.folder), await contentsOf(folder));
  });

  test('one object is a directory with one file', async (t) => {
    await put('single/model.pt', 'archive');
    await put('single/model.pt.bak', 'old');
    const { folder } = await copy(t, `s3://${BUCKET}/single/model.pt`);
    assert.deepEqual(await contentsOf(folder), { 'model.pt': 'archive' });
  });

  test('an object of several parts and an empty one arrive whole', async (t) => {
    const large = Buffer.alloc(17 * 1024 * 1024, 'weights ');
    await put('large/model.onnx', large);
    await put('large/empty', '');
    const { folder } = await copy(t, `s3://${BUCKET}/large`);
    assert.ok(large.equals(await readFile(join(folder, 'model.onnx'))));
    assert.equal((await readFile(join(folder, 'empty'))).length, 0);
  });

  test('the same content is taken again, another is a folder of its own, and a file that was changed here is copied again', async (t) => {
    await put('same/model.onnx', 'one');
    const { directory, folder } = await copy(t, `s3://${BUCKET}/same`);
    const again = async () =>
      copyModel(`s3://${BUCKET}/same`, directory, { s3: aws.s3, onBytes: () => copied++ });
    let copied = 0;
    assert.deepEqual([await again(), copied], [folder, 0]);
    await writeFile(join(folder, 'model.onnx'), 'two');
    assert.equal(await again(), folder);
    assert.deepEqual([await contentsOf(folder), copied], [{ 'model.onnx': 'one' }, 1]);
    await put('same/model.onnx', 'two');
    const other = await again();
    assert.notEqual(other, folder);
    assert.deepEqual(await contentsOf(other), { 'model.onnx': 'two' });
  });

  test('a model that is replaced while it is copied is refused, and nothing is left', async (t) => {
    const directory = await temporaryFolder(t);
    await put('moving/a', 'first a');
    await put('moving/b', 'first b');
    const send = async (command: unknown, options: unknown) => {
      if (command instanceof GetObjectCommand && command.input.Key === 'moving/b')
        await put('moving/b', 'other b');
      return aws.s3.send(command as GetObjectCommand, options as object);
    };
    const s3 = { send } as unknown as S3Client;
    await assert.rejects(copyModel(`s3://${BUCKET}/moving`, directory, { s3 }), {
      code: 'model_unavailable',
    });
    assert.deepEqual(await readdir(directory), []);
  });

  test('a copy that is called off ends with the reason, and nothing is left', async (t) => {
    const directory = await temporaryFolder(t);
    await put('long/a', 'a');
    await put('long/b', 'b');
    const stop = new AbortController();
    const reason = new ServingError('cancelled', 'enough');
    const options = { s3: aws.s3, signal: stop.signal, onBytes: () => stop.abort(reason) };
    await assert.rejects(copyModel(`s3://${BUCKET}/long`, directory, options), reason);
    assert.deepEqual(await readdir(directory), []);
  });

  test('what is not there is refused with what to do', async (t) => {
    const refusal = (address: string) =>
      copy(t, address).then(
        () => assert.fail(),
        (error: unknown) => ServingError.from(error),
      );
    const bucket = await refusal('s3://nobody-has-it/a');
    assert.equal(bucket.code, 'bad_config');
    assert.match(bucket.message, /^s3:\/\/nobody-has-it\/a: there is no bucket nobody-has-it; /);
    const empty = await refusal(`s3://${BUCKET}/nothing/here`);
    assert.equal(empty.code, 'bad_model');
    assert.match(empty.message, /nothing\/here: there are no files; check the prefix with `aws s3 ls`$/);
    await put('both', 'an object');
    await put('both/model.onnx', 'a folder');
    assert.match(
      (await refusal(`s3://${BUCKET}/both`)).message,
      /an object of this name, and a folder; .* slash$/,
    );
    assert.deepEqual(await contentsOf((await copy(t, `s3://${BUCKET}/both/`)).folder), {
      'model.onnx': 'a folder',
    });
  });
});

interface Stored {
  readonly key: string;
  readonly body?: string;
  readonly head?: Partial<HeadObjectCommandOutput>;
}

/** An S3 with what no local one has: encryption, checksums, sizes without bytes, refusals. */
function s3With(
  objects: readonly Stored[],
  refuse: (command: object) => Error | undefined = () => undefined,
): S3Client {
  const md5 = (text: string) => `"${createHash('md5').update(text).digest('hex')}"`;
  const send = async (command: {
    readonly input: { readonly Key?: string; readonly Prefix?: string; readonly StartAfter?: string };
  }) => {
    const error = refuse(command);
    if (error) throw error;
    const { Key, Prefix = '', StartAfter = '' } = command.input;
    if (command instanceof ListObjectsV2Command) {
      const later = objects.filter(({ key }) => key.startsWith(Prefix) && key > StartAfter);
      return {
        Contents: later.slice(0, 1_000).map(({ key, body = '' }) => ({ Key: key, Size: body.length })),
        IsTruncated: later.length > 1_000,
      };
    }
    const { body = '', head } = objects.find(({ key }) => key === Key) ?? assert.fail();
    const facts = { ContentLength: body.length, ETag: md5(body), ...head };
    if (command instanceof HeadObjectCommand) return facts;
    return { Body: [Buffer.from(body)], ETag: facts.ETag };
  };
  return { send } as unknown as S3Client;
}

async function refused(
  t: TestContext,
  objects: readonly Stored[],
  refuse?: (command: object) => Error | undefined,
) {
  const directory = await temporaryFolder(t);
  const copying = copyModel('s3://bucket/m', directory, { s3: s3With(objects, refuse) });
  const failure = await copying.then(
    () => assert.fail(),
    (error: unknown) => ServingError.from(error),
  );
  assert.deepEqual(await readdir(directory), []);
  assert.ok(failure.message.startsWith('s3://bucket/m: '), failure.message);
  return { code: failure.code, message: failure.message.slice('s3://bucket/m: '.length) };
}

test('a digest of S3 is compared where it is one of the content', async (t) => {
  const sha256 = createHash('sha256').update('data').digest('base64');
  const wrong = createHash('sha256').update('other').digest('base64');
  const md5 = `"${createHash('md5').update('other').digest('hex')}"`;
  const copied = async (head: Stored['head']) => {
    const s3 = s3With([{ key: 'm/x.onnx', body: 'data', head: head ?? {} }]);
    return copyModel('s3://bucket/m', await temporaryFolder(t), { s3 });
  };
  await copied({ ChecksumSHA256: sha256 });
  // With a key of KMS, or of several parts, the ETag only shows changes.
  await copied({ ETag: md5, ServerSideEncryption: 'aws:kms' });
  await copied({ ETag: md5, SSECustomerAlgorithm: 'AES256' });
  await copied({ ETag: '"0123456789abcdef0123456789abcdef-7"' });
  await copied({ ChecksumSHA256: `${wrong}-7` });
  const message = /expected/;
  await assert.rejects(copied({ ChecksumSHA256: wrong }), { code: 'model_unavailable', message });
  await assert.rejects(copied({ ChecksumSHA256: wrong, ServerSideEncryption: 'aws:kms' }), { message });
  await assert.rejects(copied({ ETag: md5 }), { message });
  await assert.rejects(copied({ ETag: md5, ServerSideEncryption: 'AES256' }), { message });
  await assert.rejects(copied({ ContentLength: 5 }), { message });
});

describe('keys that would leave the folder, or meet in it, are refused:', () => {
  for (const names of [
    ['../x'],
    ['a/../../x'],
    ['a/..'],
    ['/etc/passwd'],
    ['a//b'],
    ['a/./b'],
    ['a\\b'],
    ['x\u0000'],
    ['\u001b[31m'],
    ['C:x'],
    ['x'.repeat(300)],
    ['Model.onnx', 'model.onnx'],
    ['a', 'a/b'],
    ['A', 'a/b'],
  ]) {
    test(JSON.stringify(names), async (t) => {
      const objects = names.toSorted().map((name) => ({ key: `m/${name}`, body: 'x' }));
      const { code, message } = await refused(t, objects);
      assert.equal(code, 'bad_model');
      assert.match(message, /^the key ".*" (cannot be a file|is there twice, or is a folder as well)/);
      assert.doesNotMatch(message, /[^ -~]/);
    });
  }
});

test('too many files and too many bytes are refused before any is read', async (t) => {
  const many = (count: number) =>
    Array.from({ length: count }, (_, i) => ({ key: `m/${String(i).padStart(6, '0')}` }));
  const read = (command: object) => (command instanceof GetObjectCommand ? assert.fail() : undefined);
  const files = await refused(t, many(MAX_MODEL_FILES + 1), read);
  assert.match(files.message, /^more than 1000 files; give the prefix of one model$/);
  const hidden = many(11_000).map(({ key }) => ({ key: key.replace('m/', 'm/.') }));
  assert.match((await refused(t, hidden, read)).message, /^more than 1000 files/);
  const head = { ContentLength: MAX_SOURCE_BYTES / 2 + 1 };
  const large = await refused(
    t,
    [
      { key: 'm/a', head },
      { key: 'm/b', head },
    ],
    read,
  );
  assert.equal(large.message, '17179869186 bytes are over the limit of 17179869184');
});

const named = (name: string, message = name, httpStatusCode = 400) =>
  Object.assign(new Error(message), { name, $metadata: { httpStatusCode } });

for (const [error, code, expected] of [
  [
    named('AccessDenied', 'Access Denied', 403),
    'bad_config',
    /^access denied; these credentials need s3:GetObject and s3:ListBucket on/,
  ],
  [named('Error', 'Region is missing'), 'bad_config', /^no region is set: AWS_REGION/],
  [
    named('CredentialsProviderError', 'Could not load credentials from any providers'),
    'bad_config',
    /^no AWS credentials were found: AWS_PROFILE/,
  ],
  [named('ExpiredToken', 'expired'), 'bad_config', /^AWS rejects these credentials/],
  [
    named('PermanentRedirect', 'other endpoint', 301),
    'bad_config',
    /^the bucket bucket is in another region; AWS_REGION/,
  ],
  [
    named('InvalidObjectState', 'archived', 403),
    'bad_config',
    /^it is archived in Glacier; restore it first/,
  ],
  [named('Error', 'socket hang up'), 'model_unavailable', /socket hang up$/],
] as const) {
  test(`${error.name} (${error.message}) is one error that says what to do`, async (t) => {
    const failed = await refused(t, [{ key: 'm/a' }], () => error);
    assert.equal(failed.code, code);
    assert.match(failed.message, expected);
  });
}

test('an object that cannot be read after it was listed says so, or that it is gone', async (t) => {
  const on = (kind: new (...args: never[]) => object, error: Error) => (command: object) =>
    command instanceof kind ? error : undefined;
  const denied = on(HeadObjectCommand, named('403', 'UnknownError', 403));
  assert.match((await refused(t, [{ key: 'm/a' }], denied)).message, /^access denied/);
  const gone = await refused(
    t,
    [{ key: 'm/a' }],
    on(HeadObjectCommand, named('NotFound', 'UnknownError', 404)),
  );
  assert.deepEqual(gone, {
    code: 'model_unavailable',
    message: 'it was changed meanwhile; try again when nobody writes there',
  });
});

test('addresses of S3 have a bucket and perhaps a key, and modelPath may be one', () => {
  assert.deepEqual(readS3Address('s3://abc'), { bucket: 'abc', key: '' });
  assert.deepEqual(readS3Address('s3://abc/'), { bucket: 'abc', key: '' });
  assert.deepEqual(readS3Address('s3://a.b-c/d/e.pt'), { bucket: 'a.b-c', key: 'd/e.pt' });
  for (const wrong of [
    's3://',
    's3:/abc',
    's3://ABC',
    's3://a',
    's3://abc//x',
    'S3://abc',
    'abc',
    's3://-abc',
  ])
    assert.equal(readS3Address(wrong), undefined, wrong);
  assert.equal(resolveModelPath('/job', 's3://abc/x'), 's3://abc/x');
  assert.equal(resolveModelPath('/job', 'model'), '/job/model');
});

test('an address that is none is refused before anything is asked', async (t) => {
  for (const wrong of ['s3:', 's3://Bucket/x', 's3://bucket//x'])
    await assert.rejects(copyModel(wrong, await temporaryFolder(t), { s3: {} as S3Client }), {
      code: 'bad_config',
      message: `expected s3://bucket/prefix, got ${JSON.stringify(wrong)}`,
    });
});
