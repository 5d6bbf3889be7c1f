/** Uploads of bodies through the handlers, with a real S3 in the process: who finds them, and what is refused. */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { type TestContext, test } from 'node:test';
import type { APIGatewayProxyEventV2 } from 'aws-lambda';
import { decodeMessage } from '../../../lib/codecs/message.ts';
import { LIMITS } from '../../../lib/contract/limits.ts';
import { ANYONE, callerOf } from '../../../lib/http/caller.ts';
import { uploadIn } from '../../../lib/http/uploads.ts';
import { putBytes } from '../../../lib/s3/objects.ts';
import { readUpload, uploadAddress } from '../../../lib/s3/uploads.ts';
import { startAws } from '../../../local/aws/aws.ts';
import { predictionsWith } from '../../support/predictions.ts';

const QUIET = { info: () => undefined, warn: () => undefined, error: () => undefined };
const PLACE = { bucket: 'bucket-1', job: 'job' };
const iam = (callerId: string) => ({ authorizer: { iam: { callerId, userArn: 'arn:aws:sts::1:x' } } });
const jwt = (claims: object) => ({ authorizer: { jwt: { claims, scopes: null } } });
const idOf = (body: string) => createHash('sha256').update(body).digest('hex');

async function service(t: TestContext) {
  const aws = await startAws({ port: 0, log: QUIET });
  t.after(() => aws.close());
  await aws.createBucket('bucket-1');
  const sent: string[] = [];
  const handler = predictionsWith({
    queue: () => ({ send: async (message) => void sent.push(message) }),
    uploads: (id, caller) => readUpload(aws.s3, PLACE, id, caller),
    placeUpload: ({ sha256 }, caller) => ({
      url: `https://s3.example/${uploadAddress(PLACE, sha256, caller).key}`,
      headers: { a: 'b' },
      expiresAt: 0,
    }),
  });
  const post = async (path: string, body: string, context: object = {}) => {
    const event = {
      rawPath: path,
      headers: {},
      requestContext: { ...context, http: { method: 'POST' } },
      body,
    };
    const answer = await handler(event as unknown as APIGatewayProxyEventV2);
    return { status: answer.statusCode, body: JSON.parse(answer.body ?? '') as Record<string, string> };
  };
  const put = (content: string, caller: string, id = idOf(content)) =>
    putBytes(aws.s3, uploadAddress(PLACE, id, caller), Buffer.from(content), {
      type: 'application/json',
      abortSignal: AbortSignal.timeout(10_000),
    });
  return { sent, post, put };
}

const RECORD = JSON.stringify({ uri: 'a', data: '{"instances":[{"x":3}]}', serde: 'stream' });

test('a caller is its role whatever the session, a user, the subject of an issuer, or anyone', () => {
  assert.equal(callerOf(iam('AROA1:one')), callerOf(iam('AROA1:two')));
  assert.equal(callerOf(iam('AIDA1')), 'iam:AIDA1');
  assert.equal(callerOf(jwt({ iss: 'https://i', sub: 's' })), 'jwt:https://i s');
  assert.notEqual(
    callerOf(jwt({ iss: 'https://j', sub: 's' })),
    callerOf(jwt({ iss: 'https://i', sub: 's' })),
  );
  assert.equal(callerOf(jwt({ iss: 'https://i', client_id: 'c' })), 'jwt:https://i c');
  for (const none of [undefined, {}, { authorizer: null }, jwt({}), iam(''), { authorizer: { iam: 7 } }])
    assert.equal(callerOf(none), ANYONE);
});

test('an upload is a record of its caller, under its session or another one, and of nobody else', async (t) => {
  const { sent, post, put } = await service(t);
  const mine = iam('AROA1:one');
  const place = await post('/uploads', JSON.stringify({ bytes: RECORD.length, sha256: idOf(RECORD) }), mine);
  assert.equal(place.status, 201);
  const id = place.body['id'] as string;
  assert.deepEqual(place.body, {
    id: idOf(RECORD),
    url: `https://s3.example/${uploadAddress(PLACE, id, callerOf(mine)).key}`,
    headers: { a: 'b' },
    expiresAt: '1970-01-01T00:00:00.000Z',
  });
  const named = JSON.stringify({ payload: id });
  // It was not put yet: a client that was frozen, or gave up.
  const early = await post('/predictions', named, mine);
  assert.deepEqual([early.status, early.body['code']], [404, 'not_found']);
  assert.match(
    early.body['error'] ?? '',
    /there is no upload [0-9a-f]{64} of this caller \(any more\); upload/,
  );
  await put(RECORD, callerOf(mine));
  for (const other of [iam('AROA2:one'), jwt({ iss: 'i', sub: 'AROA1' }), {}])
    assert.equal((await post('/predictions', named, other)).status, 404);
  assert.deepEqual(sent, []);
  const taken = await post('/predictions', ` ${named}\n`, iam('AROA1:two'));
  assert.deepEqual([taken.status, taken.body['uri']], [202, 'a']);
  // Used once more, as by a client that did not get the answer.
  assert.equal((await post('/predictions', named, mine)).status, 202);
  assert.deepEqual(
    sent.map((message) => decodeMessage(message).uri),
    ['a', 'a'],
  );
});

test('an upload of other bytes is refused, and so is one that names another one', async (t) => {
  const { sent, post, put } = await service(t);
  const id = idOf(RECORD);
  await put(RECORD.replace('3', '4'), ANYONE, id);
  const other = await post('/predictions', JSON.stringify({ payload: id }));
  assert.deepEqual([other.status, other.body['code']], [400, 'bad_request']);
  assert.match(other.body['error'] ?? '', /are other bytes; upload the body again/);
  await put(RECORD, ANYONE);
  const chain = JSON.stringify({ payload: id });
  await put(chain, ANYONE);
  const nested = await post('/predictions', JSON.stringify({ payload: idOf(chain) }));
  assert.deepEqual(
    [nested.status, nested.body['error']],
    [400, 'payload: what was uploaded names another upload'],
  );
  assert.deepEqual(sent, []);
});

for (const [body, status, message] of [
  ['{"bytes":0,"sha256":"x"}', 400, /^bytes: expected the number/],
  [`{"bytes":"7","sha256":"${idOf('')}"}`, 400, /^bytes: expected the number/],
  [`{"bytes":7,"sha256":"${idOf('').toUpperCase()}"}`, 400, /^sha256: expected the digest/],
  [`{"bytes":7,"sha256":"${idOf('')}","type":"a"}`, 400, /unknown key "type"/],
  [`{"bytes":${LIMITS.payloadBytes + 1},"sha256":"${idOf('')}"}`, 413, /payloadBytes/],
  ['[]', 400, /^bytes/],
  ['', 400, /the body is empty/],
] as const)
  test(`POST /uploads refuses ${body.slice(0, 40)} with ${status}`, async (t) => {
    const { post } = await service(t);
    const refused = await post('/uploads', body);
    assert.equal(refused.status, status);
    assert.match(refused.body['error'] ?? '', message);
  });

test('only {"payload": id} names an upload, and an input of that name is one', () => {
  const id = idOf('');
  assert.equal(uploadIn(JSON.stringify({ payload: id })), id);
  assert.equal(uploadIn(Buffer.from(JSON.stringify({ payload: id }))), id);
  for (const body of ['', '{}', 'payload', '{"payload"', '["payload"]', '{"instances":[{"payload":1}]}'])
    assert.equal(uploadIn(body), undefined, body);
  for (const body of [{ payload: 7 }, { payload: `${id}0` }, { payload: `../${id.slice(3)}` }])
    assert.throws(() => uploadIn(JSON.stringify(body)), {
      code: 'bad_request',
      message: /^payload: expected/,
    });
  for (const body of [
    { payload: id, uri: 'a' },
    { notify: 'shop', payload: id },
  ])
    assert.throws(() => uploadIn(JSON.stringify(body)), { code: 'bad_request', message: /stands alone/ });
});
