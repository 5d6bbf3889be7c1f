/** Which requests the local SQS and S3 take, and the word for each that they refuse; the signatures are written out by hand. */
import assert from 'node:assert/strict';
import type { IncomingMessage } from 'node:http';
import { Readable } from 'node:stream';
import { test } from 'node:test';
import { SignatureCheck } from '../../../local/aws/signature.ts';
import type { RawRequest } from '../../support/raw-request.ts';
import { signed } from '../../support/signed-request.ts';

const NOW = Date.parse('2026-11-22T12:00:00Z');
const CREDENTIALS = { accessKeyId: 'LOCAL1', secretAccessKey: 'secret' };
const PUT = { method: 'PUT', path: '/models/a%20b.json?x=1', body: 'ours', headers: { 'x-amz-meta-a': '1' } };

type Signing = Parameters<typeof signed>[1];
const sign = (request: RawRequest = PUT, change: Partial<Signing> = {}) =>
  signed(request, {
    credentials: CREDENTIALS,
    host: '127.0.0.1:1',
    service: 's3',
    at: new Date(NOW),
    ...change,
  });
const at = (ms: number) => sign(PUT, { at: new Date(NOW + ms) });
const withHeaders = (request: RawRequest, headers: Readonly<Record<string, string>>): RawRequest => ({
  ...request,
  headers: { ...request.headers, ...headers },
});
const without = (request: RawRequest, name: string): RawRequest => {
  const { [name]: _, ...headers } = request.headers ?? {};
  return { ...request, headers };
};

/** @returns the body that is to be read, or the word and the text of the refusal */
async function verify({ method = 'GET', path = '/', headers = {}, body = '' }: RawRequest): Promise<string> {
  const request = { method, headers } as unknown as IncomingMessage;
  const check = new SignatureCheck(CREDENTIALS, () => NOW);
  try {
    const bytes = await check.verify(request, path, Readable.from([Buffer.from(body)]));
    return Buffer.concat(await bytes.toArray()).toString();
  } catch (error) {
    const { code, message, statusCode } = error as { code: string; message: string; statusCode: number };
    assert.equal(statusCode, 403);
    return `${code}: ${message}`;
  }
}

for (const [what, request] of [
  ['its own signature', sign()],
  ['a body whose hash no header has', sign(PUT, { contentSha256: null })],
  ['a body that is not hashed', sign(PUT, { contentSha256: 'UNSIGNED-PAYLOAD' })],
  ['a body that comes in chunks', sign(PUT, { contentSha256: 'STREAMING-UNSIGNED-PAYLOAD-TRAILER' })],
  ['a time of 15 minutes before', at(-900_000)],
  ['a time of 15 minutes after', at(900_000)],
  ['the scope of SQS', sign({ ...PUT, path: '/' }, { service: 'sqs', region: 'eu-central-1' })],
  ['a header that is not signed and not of AWS', withHeaders(sign(), { 'user-agent': 'x' })],
] as const)
  test(`a request with ${what} is taken, and its body is read`, async () => {
    assert.equal(await verify(request), 'ours');
  });

const ADVICE =
  'set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY as the start of this service or `cluster-serving status` prints them';
const UNSIGNED = `AccessDenied: the request is not signed: ${ADVICE}`;
const WRONG = `SignatureDoesNotMatch: the signature is wrong: ${ADVICE}`;
const SKEWED = 'RequestTimeTooSkewed: x-amz-date is more than 15 minutes from the time of this machine';
const by = (change: Partial<typeof CREDENTIALS>) => sign(PUT, { credentials: { ...CREDENTIALS, ...change } });
const presigned: RawRequest = {
  path: '/models/a?X-Amz-Date=20261122T120000Z&X-Amz-Signature=0',
  headers: { host: 'localhost' },
};
for (const [what, request, refusal] of [
  ['no signature', without(sign(), 'authorization'), UNSIGNED],
  ['something else for a signature', withHeaders(sign(), { authorization: 'Basic QTpC' }), UNSIGNED],
  ['a signature in its address', presigned, `AccessDenied: presigned URLs are not supported: ${ADVICE}`],
  [
    'a signature in its address and something else in its head',
    withHeaders(presigned, { authorization: 'Basic QTpC' }),
    UNSIGNED,
  ],
  [
    'another key',
    by({ accessKeyId: 'LOCAL2' }),
    `InvalidAccessKeyId: the access key is not that of this service: ${ADVICE}`,
  ],
  ['another secret', by({ secretAccessKey: 'guess' }), WRONG],
  ['another method', { ...sign(), method: 'POST' }, WRONG],
  ['another path', { ...sign(), path: '/models/b?x=1' }, WRONG],
  ['another query', { ...sign(), path: '/models/a%20b.json?x=2' }, WRONG],
  ['another signed header', withHeaders(sign(), { 'x-amz-meta-a': '2' }), WRONG],
  [
    'another body, whose hash no header has',
    { ...sign(PUT, { contentSha256: null }), body: 'theirs' },
    WRONG,
  ],
  [
    'another body',
    { ...sign(), body: 'theirs' },
    'XAmzContentSHA256Mismatch: the body is not the one whose hash was signed',
  ],
  [
    'headers of AWS that are not signed',
    withHeaders(sign(), { 'x-amz-copy-source': '/a/b', 'x-amz-acl': 'public' }),
    'AccessDenied: these headers must be signed: x-amz-copy-source,x-amz-acl',
  ],
  ['a time of more than 15 minutes before', at(-901_000), SKEWED],
  ['a time of more than 15 minutes after', at(901_000), SKEWED],
  ['no time', withHeaders(sign(), { 'x-amz-date': 'now' }), SKEWED],
  [
    'the name of another host',
    sign(PUT, { host: 'models.evil.example' }),
    'AccessDenied: the host models.evil.example is not this machine: call 127.0.0.1',
  ],
] as const)
  test(`a request with ${what} is refused, with the reason`, async () => {
    assert.equal(await verify(request), refusal);
  });

test('a body whose hash no header has is read up to 8 MiB before it is refused', async () => {
  const put = (bytes: number) => verify(sign({ ...PUT, body: 'x'.repeat(bytes) }, { contentSha256: null }));
  const limit = 8 * 1024 * 1024;
  assert.equal((await put(limit)).length, limit);
  assert.equal(
    await put(limit + 1),
    'EntityTooLarge: a body without x-amz-content-sha256 is over 8388608 bytes',
  );
});
