/** The local SQS and S3 do nothing for a web page or another program that does not know the service's credentials. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { request as httpRequest } from 'node:http';
import { Readable } from 'node:stream';
import { before, describe, it } from 'node:test';
import {
  GetObjectCommand,
  ListObjectsV2Command,
  PutObjectCommand,
  S3Client,
  type S3ServiceException,
} from '@aws-sdk/client-s3';
import {
  GetQueueAttributesCommand,
  SendMessageCommand,
  SQSClient,
  type SQSServiceException,
} from '@aws-sdk/client-sqs';
import { startAws } from '../../../local/aws/aws.ts';
import { InputQueue } from '../../../sdk/index.ts';
import { useAws } from '../../support/environment.ts';
import { type RawRequest, rawRequest } from '../../support/raw-request.ts';
import { type Credentials, signed } from '../../support/signed-request.ts';
import { testStack } from '../../support/stack.ts';

const silent = () => undefined;
const LOG = { info: silent, warn: silent, error: silent };
/** Whole seconds, as in a signature. */
const NOW = new Date(Math.floor(Date.now() / 1000) * 1000);

type Hooks = Parameters<typeof testStack>[0];

/** SQS and S3 at a fixed time, with one object and an empty queue. */
async function open(t: Hooks) {
  const aws = await startAws({ port: 0, log: LOG, region: 'local', now: () => NOW.getTime() });
  t.after(() => aws.close());
  const { url: queueUrl } = await aws.createQueue({ name: 'q' });
  await aws.createBucket('models');
  const { credentials, port } = aws;
  const host = `127.0.0.1:${port}`;
  const send = (request: RawRequest, change: Partial<Parameters<typeof signed>[1]> = {}) =>
    rawRequest(port, signed(request, { credentials, host, service: 's3', at: NOW, ...change }));
  const put = await send({ method: 'PUT', path: '/models/current.json', body: 'ours' });
  assert.equal(put.status, 200, put.text);
  const state = async () => {
    const list = await send({ path: '/models/?list-type=2' });
    assert.equal(list.status, 200, list.text);
    const keys = [...list.text.matchAll(/<Key>([^<]*)<\/Key>/g)].map(([, key]) => key);
    const { text } = await send({ path: '/models/current.json' });
    const asked = await send(
      {
        method: 'POST',
        headers: {
          'content-type': 'application/x-amz-json-1.0',
          'x-amz-target': 'AmazonSQS.GetQueueAttributes',
        },
        body: JSON.stringify({ QueueUrl: queueUrl, AttributeNames: ['ApproximateNumberOfMessages'] }),
      },
      { service: 'sqs' },
    );
    const { Attributes } = JSON.parse(asked.text) as { Attributes: { ApproximateNumberOfMessages: string } };
    return { keys, text, messages: Attributes.ApproximateNumberOfMessages };
  };
  return { aws, port, host, credentials, queueUrl, send, state };
}

const UNCHANGED = { keys: ['current.json'], text: 'ours', messages: '0' };

const FORM = [
  '--b',
  'Content-Disposition: form-data; name="key"',
  '',
  'current.json',
  '--b',
  'Content-Disposition: form-data; name="file"; filename="a"',
  '',
  'theirs',
  '--b--',
  '',
].join('\r\n');
const DELETE = '<Delete><Object><Key>current.json</Key></Object></Delete>';
const PAGE = { origin: 'https://evil.example' };

/** Everything that a page can send without a preflight, and what a program may try. */
function attacks(queueUrl: string): Record<string, RawRequest> {
  const message = JSON.stringify({ QueueUrl: queueUrl, MessageBody: 'theirs' });
  return {
    'a multipart form': {
      method: 'POST',
      path: '/models',
      headers: { ...PAGE, 'content-type': 'multipart/form-data; boundary=b' },
      body: FORM,
    },
    'text/plain with ?delete': {
      method: 'POST',
      path: '/models?delete',
      headers: { ...PAGE, 'content-type': 'text/plain' },
      body: DELETE,
    },
    'a urlencoded form': {
      method: 'POST',
      headers: { ...PAGE, 'content-type': 'application/x-www-form-urlencoded' },
      body: 'Action=GetCallerIdentity&Version=2011-06-15',
    },
    'a listing': { path: '/models?list-type=2' },
    'a listing under the name of another host': {
      headers: { host: 'models.evil.example:10021' },
      path: '/?list-type=2',
    },
    'a read': { path: '/models/current.json' },
    'a write': { method: 'PUT', path: '/models/current.json', body: 'theirs' },
    'a delete': { method: 'DELETE', path: '/models/current.json' },
    'a message': {
      method: 'POST',
      headers: { 'content-type': 'application/x-amz-json-1.0', 'x-amz-target': 'AmazonSQS.SendMessage' },
      body: message,
    },
    'a preflight': {
      method: 'OPTIONS',
      path: '/models/current.json',
      headers: { ...PAGE, 'access-control-request-method': 'PUT' },
    },
    'the queues of the emulator': { path: '/_fauxqs/queues' },
    'the health of the emulator': { path: '/health' },
    'a path that is none': { method: 'POST', path: '/a/b?c', body: '{}' },
  };
}

describe('without the credentials', () => {
  it('every request is refused, writes nothing and shows a page nothing', async (t) => {
    const { port, queueUrl, state } = await open(t);
    for (const [name, request] of Object.entries(attacks(queueUrl))) {
      const { status, headers, text } = await rawRequest(port, request);
      assert.equal(status, 403, `${name}: ${text}`);
      for (const header of Object.keys(headers)) assert.ok(!header.startsWith('access-control-'), name);
      assert.ok(!text.includes('ours'), name);
    }
    assert.deepEqual(await state(), UNCHANGED);
  });

  it('each of these is done when it is signed, so the refusals are for the signature', async (t) => {
    const { queueUrl, send } = await open(t);
    const names = ['a listing', 'a read', 'a write', 'a message', 'text/plain with ?delete'];
    for (const name of names) {
      const request = attacks(queueUrl)[name] as RawRequest;
      const { status, text } = await send(request, { service: name === 'a message' ? 'sqs' : 's3' });
      assert.equal(status, 200, `${name}: ${text}`);
    }
  });

  it('a body that never ends is refused before it is read', async (t) => {
    const { port, aws } = await open(t);
    const call = httpRequest({ port, host: '127.0.0.1', method: 'PUT', path: '/models/a', agent: false });
    call.on('error', silent);
    call.write('x');
    const [reply] = (await once(call, 'response')) as [{ statusCode: number; resume(): void }];
    assert.equal(reply.statusCode, 403);
    reply.resume();
    call.destroy();
    await aws.close();
  });

  it('the answer says which variables are needed and which command prints them', async (t) => {
    const { port, aws } = await open(t);
    const { text } = await rawRequest(port);
    assert.match(text, /<Code>AccessDenied<\/Code>.*not signed.*AWS_ACCESS_KEY_ID.*cluster-serving status/);
    const credentials = { accessKeyId: 'local', secretAccessKey: 'local' };
    const sqs = new SQSClient({ endpoint: aws.url, region: 'local', credentials });
    t.after(() => sqs.destroy());
    await assert.rejects(
      sqs.send(new GetQueueAttributesCommand({ QueueUrl: `${aws.url}/0/q` })),
      (error: SQSServiceException) => {
        assert.equal(error.name, 'InvalidAccessKeyId');
        assert.match(error.message, /cluster-serving status/);
        return true;
      },
    );
    const s3 = new S3Client({ endpoint: aws.url, region: 'local', credentials, forcePathStyle: true });
    t.after(() => s3.destroy());
    await assert.rejects(
      s3.send(new GetObjectCommand({ Bucket: 'models', Key: 'current.json' })),
      (error: S3ServiceException) => error.name === 'InvalidAccessKeyId',
    );
  });
});

describe('a signature', () => {
  let sent: RawRequest;
  before(() => {
    sent = { method: 'PUT', path: '/models/current.json', body: 'theirs' };
  });

  it('of another secret, of another key or with another scope is refused', async (t) => {
    const { send, state, credentials } = await open(t);
    const others: [Credentials, string][] = [
      [{ ...credentials, secretAccessKey: 'local' }, 'SignatureDoesNotMatch'],
      [{ ...credentials, secretAccessKey: '' }, 'SignatureDoesNotMatch'],
      [{ ...credentials, accessKeyId: 'local' }, 'InvalidAccessKeyId'],
      [{ ...credentials, accessKeyId: '__proto__' }, 'InvalidAccessKeyId'],
    ];
    for (const [other, code] of others) {
      const { status, text } = await send(sent, { credentials: other });
      assert.equal(status, 403);
      assert.ok(text.includes(`<Code>${code}</Code>`), text);
    }
    assert.deepEqual(await state(), UNCHANGED);
  });

  it('is for one method, path, query, header and body', async (t) => {
    const { port, host, credentials, state } = await open(t);
    const good = signed(
      { ...sent, headers: { 'x-amz-meta-a': '1' } },
      { credentials, host, service: 's3', at: NOW },
    );
    const changes: Record<string, RawRequest> = {
      method: { ...good, method: 'POST' },
      path: { ...good, path: '/models/other.json' },
      query: { ...good, path: '/models/current.json?a=b' },
      'signed header': { ...good, headers: { ...good.headers, 'x-amz-meta-a': '2' } },
      'added x-amz header': { ...good, headers: { ...good.headers, 'x-amz-copy-source': '/models/a' } },
      'removed header': {
        ...good,
        headers: Object.fromEntries(
          Object.entries(good.headers ?? {}).filter(([name]) => name !== 'x-amz-meta-a'),
        ),
      },
      body: { ...good, body: 'others' },
      'longer body': { ...good, body: 'theirs too' },
      'no body': { ...good, body: '' },
    };
    for (const [name, request] of Object.entries(changes)) {
      const { status, text } = await rawRequest(port, request);
      assert.equal(status, 403, `${name}: ${text}`);
    }
    assert.deepEqual(await state(), UNCHANGED);
    assert.equal((await rawRequest(port, good)).status, 200);
  });

  it('covers the body also when only the body says what its hash is, as boto3 sends to SQS', async (t) => {
    const { port, host, credentials, queueUrl, state } = await open(t);
    const request = attacks(queueUrl)['a message'] as RawRequest;
    const signing = { credentials, host, service: 'sqs', at: NOW, contentSha256: null } as const;
    const good = signed(request, signing);
    const refused = await rawRequest(port, { ...good, body: String(good.body).replace('theirs', 'others') });
    assert.equal(refused.status, 403);
    assert.deepEqual(JSON.parse(refused.text), {
      __type: 'com.amazonaws.sqs#SignatureDoesNotMatch',
      message: (JSON.parse(refused.text) as { message: string }).message,
    });
    assert.deepEqual(await state(), UNCHANGED);
    assert.equal((await rawRequest(port, good)).status, 200);
    assert.equal((await state()).messages, '1');
  });

  it('of a body that the head has no hash of is verified up to 8 MiB, and what is larger is refused', async (t) => {
    const { send, state } = await open(t);
    const put = (bytes: number) =>
      send({ method: 'PUT', path: '/models/large', body: 'x'.repeat(bytes) }, { contentSha256: null });
    const limit = 8 * 1024 * 1024;
    const refused = await put(limit + 1);
    assert.equal(refused.status, 403);
    assert.match(refused.text, /<Code>EntityTooLarge<\/Code>/);
    assert.deepEqual(await state(), UNCHANGED);
    assert.equal((await put(limit)).status, 200);
  });

  it('is good for 15 minutes before and after its time, and no longer', async (t) => {
    const { send, state } = await open(t);
    const at = (minutes: number) => new Date(NOW.getTime() + minutes * 60_000);
    for (const minutes of [-15.1, 15.1, -24 * 60, 24 * 60, -525_600]) {
      const { status, text } = await send(sent, { at: at(minutes) });
      assert.equal(status, 403);
      assert.match(text, /<Code>RequestTimeTooSkewed<\/Code>/);
    }
    assert.deepEqual(await state(), UNCHANGED);
    for (const minutes of [-14.9, 14.9]) assert.equal((await send(sent, { at: at(minutes) })).status, 200);
  });

  it('does not make up for a foreign host, nor a local name for a signature', async (t) => {
    const { port, send, state } = await open(t);
    for (const host of ['models.evil.example', 'evil.example', 'localhost.evil.example', '10.0.0.1']) {
      const { status, text } = await send({ path: '/?list-type=2' }, { host });
      assert.equal(status, 403, text);
      assert.match(text, /is not this machine/);
    }
    for (const host of [`localhost:${port}`, `127.0.0.1:${port}`, `[::1]:${port}`, 'models.localhost:1']) {
      const path = host.startsWith('models') ? '/?list-type=2' : '/models?list-type=2';
      assert.equal((await send({ path }, { host })).status, 200, host);
      assert.equal((await rawRequest(port, { path, headers: { host } })).status, 403, host);
    }
    assert.deepEqual(await state(), UNCHANGED);
  });

  it('in the query, as in a presigned URL or form, is refused', async (t) => {
    const { port, credentials } = await open(t);
    const path =
      `/models/current.json?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=${credentials.accessKeyId}` +
      '%2F20261122%2Flocal%2Fs3%2Faws4_request&X-Amz-Date=20261122T120000Z&X-Amz-Expires=60' +
      `&X-Amz-SignedHeaders=host&X-Amz-Signature=${'0'.repeat(64)}`;
    const { status, text } = await rawRequest(port, { path });
    assert.equal(status, 403);
    assert.match(text, /presigned/);
  });

  it('that is not one is refused, whatever its form', async (t) => {
    const { port, host, credentials, state } = await open(t);
    const { headers = {} } = signed(sent, { credentials, host, service: 's3', at: NOW });
    const authorization = String(headers['authorization']);
    const odd = [
      '',
      'Bearer x',
      'AWS4-HMAC-SHA256',
      'AWS4-HMAC-SHA256 Credential=, SignedHeaders=, Signature=',
      authorization.replace(/Signature=.*/, 'Signature='),
      authorization.replace(/Signature=.*/, `Signature=${'é'.repeat(64)}`),
      authorization.replace(/Signature=(.*)/, 'Signature=$1$1'),
      authorization.replace('SignedHeaders=host;', 'SignedHeaders='),
      authorization.replace('aws4_request', 'aws5_request'),
      authorization.replace('/s3/', '/../'),
      'x'.repeat(10_000),
    ];
    for (const text of odd) {
      const request = { ...sent, headers: { ...headers, authorization: text } };
      assert.equal((await rawRequest(port, request)).status, 403, text.slice(0, 200));
    }
    for (const [name, value] of [
      ['x-amz-date', 'now'],
      ['x-amz-date', '20261322T120000Z'],
      ['x-amz-content-sha256', 'none'],
    ] as const) {
      const request = { ...sent, headers: { ...headers, [name]: value } };
      assert.equal((await rawRequest(port, request)).status, 403, name);
    }
    assert.deepEqual(await state(), UNCHANGED);
  });
});

describe('the AWS SDK', () => {
  it('writes and reads with every kind of body that it signs', async (t) => {
    const aws = await startAws({ port: 0, log: LOG });
    t.after(() => aws.close());
    await aws.createBucket('models');
    const large = Buffer.alloc(9 * 1024 * 1024, 'abcdefg');
    const bodies: Record<string, () => { Body: Buffer | Readable | string; ContentLength?: number }> = {
      empty: () => ({ Body: '' }),
      text: () => ({ Body: 'aä+ %/' }),
      bytes: () => ({ Body: large }),
      'a stream of known length': () => ({ Body: Readable.from([large]), ContentLength: large.length }),
    };
    for (const [key, body] of Object.entries(bodies)) {
      const Key = `a b/${key}+ä(1)*'!~.json`;
      await aws.s3.send(new PutObjectCommand({ Bucket: 'models', Key, ...body() }));
      const read = await aws.s3.send(new GetObjectCommand({ Bucket: 'models', Key }));
      const expected = key === 'text' ? Buffer.from('aä+ %/') : key === 'empty' ? Buffer.alloc(0) : large;
      assert.ok(expected.equals(Buffer.from((await read.Body?.transformToByteArray()) ?? [])), key);
    }
    const list = new ListObjectsV2Command({ Bucket: 'models', Prefix: 'a b/', Delimiter: '+' });
    assert.equal((await aws.s3.send(list)).CommonPrefixes?.length, 4);
  });

  it('is believed about the hash of a body that it does not sign, and about no other', async (t) => {
    const { send } = await open(t);
    const put = { method: 'PUT', path: '/models/b', body: 'x' };
    assert.equal((await send(put, { contentSha256: 'UNSIGNED-PAYLOAD' })).status, 200);
    for (const contentSha256 of ['unsigned', 'SIGNED-PAYLOAD', '', '0'.repeat(63)])
      assert.equal((await send(put, { contentSha256 })).status, 403, contentSha256);
  });
});

it('each service has credentials of its own, which its exports carry and its own clients use', async (t) => {
  const [first, second] = [await testStack(t), await testStack(t)];
  const { accessKeyId, secretAccessKey } = first.aws.credentials;
  assert.notEqual(secretAccessKey, second.aws.credentials.secretAccessKey);
  assert.ok(secretAccessKey.length >= 40);
  assert.match(`${accessKeyId} ${secretAccessKey}`, /^\w{16,} [\w-]+$/);
  assert.deepEqual(
    [first.aws.environment['AWS_ACCESS_KEY_ID'], first.aws.environment['AWS_SECRET_ACCESS_KEY']],
    [accessKeyId, secretAccessKey],
  );
  const { url: endpoint, region } = first.aws;
  const foreign = new SQSClient({ endpoint, region, credentials: second.aws.credentials });
  t.after(() => foreign.destroy());
  const send = new SendMessageCommand({ QueueUrl: first.queueUrl, MessageBody: '{}' });
  await assert.rejects(foreign.send(send), { name: 'InvalidAccessKeyId' });
  await first.aws.sqs.send(send);
});

it('a client with the exports of another service learns what to do', async (t) => {
  const aws = await startAws({ port: 0, log: LOG });
  t.after(() => aws.close());
  useAws({ ...aws.environment, AWS_SECRET_ACCESS_KEY: 'stale' });
  const queue = new InputQueue({ name: 'q' });
  t.after(() => queue.close());
  await assert.rejects(queue.enqueue('u', { x: [1] }), (error: Error) => {
    assert.match(
      error.message,
      /no queue .* to be found: the signature is wrong: .*`cluster-serving status` prints/,
    );
    return true;
  });
});
