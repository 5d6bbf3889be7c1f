/** Bytes become the text that their author wrote, or are refused: none becomes U+FFFD. */
import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { gzipSync } from 'node:zlib';
import type { APIGatewayProxyEventV2 } from 'aws-lambda';
import { readRequest } from '../../../lib/http/request.ts';
import { readForm } from '../../../lib/http/worker/form.ts';
import { identityModel } from '../../support/onnx.ts';
import { temporaryFolder } from '../../support/runner.ts';
import { testStack } from '../../support/stack.ts';

/** As API Gateway makes it: text of these types is decoded, everything else is base64. */
function eventOf(body: Buffer, type: string, encoding?: string): APIGatewayProxyEventV2 {
  const isText = encoding === undefined && /^(text\/|application\/json)/.test(type);
  return {
    headers: { 'content-type': type, ...(encoding && { 'content-encoding': encoding }) },
    requestContext: { http: { method: 'POST' } },
    rawPath: '/predict',
    rawQueryString: '',
    isBase64Encoded: !isText,
    body: body.toString(isText ? 'utf8' : 'base64'),
  } as unknown as APIGatewayProxyEventV2;
}

const bodyOf = (...event: Parameters<typeof eventOf>) => {
  const body = readRequest(eventOf(...event)).body();
  return typeof body === 'string' ? body : Buffer.from(body).toString();
};
const LATIN = Buffer.from('name\nJos\xe9\n', 'latin1');

test('a text that API Gateway decoded is refused where it was not UTF-8', () => {
  for (const type of ['text/csv', 'text/plain', 'application/json'])
    assert.throws(() => bodyOf(LATIN, type), { code: 'bad_request', message: /holds U\+FFFD.*as UTF-8/ });
  assert.equal(bodyOf(Buffer.from('Jos\u00e9'), 'text/csv; charset="UTF-8"'), 'Jos\u00e9');
  assert.equal(bodyOf(Buffer.from('"\\ufffd"'), 'application/json'), '"\\ufffd"', 'an escape is meant');
});

test('a text of another declared charset is refused with what to send, and decoded where its bytes arrive', () => {
  for (const charset of ['iso-8859-1', 'windows-1252', '"utf-16"', 'x-unknown'])
    assert.throws(() => bodyOf(LATIN, `text/csv; charset=${charset}`), {
      code: 'unsupported_media_type',
      message: /expected UTF-8; encode the body as UTF-8, or send it with gzip/,
    });
  const zipped = (type: string) => bodyOf(gzipSync(LATIN), type, 'gzip');
  assert.equal(zipped('text/csv; charset=iso-8859-1'), 'name\nJos\u00e9\n');
  assert.equal(bodyOf(LATIN, 'application/x-ndjson; charset=latin1'), 'name\nJos\u00e9\n');
  const wide = Buffer.from('\ufeffa', 'utf16le');
  assert.equal(bodyOf(wide, 'application/x-ndjson; charset=utf-16le'), 'a');
  assert.throws(() => zipped('text/csv; charset=x-unknown'), { code: 'unsupported_media_type' });
  assert.throws(() => bodyOf(Buffer.of(0x81), 'application/x-ndjson; charset=shift_jis'), {
    code: 'bad_request',
    message: /not valid "shift_jis"/,
  });
});

test('bytes that are not text stay bytes, even if a client adds a charset', () => {
  for (const type of [
    'application/octet-stream; charset=latin1',
    'multipart/form-data; boundary=a; charset=latin1',
  ])
    assert.deepEqual(Buffer.from(readRequest(eventOf(LATIN, type)).body() as Uint8Array), LATIN);
});

test('a form with bytes or escapes that are not UTF-8 is refused', () => {
  const form = (text: string) =>
    readForm({
      headers: { 'content-type': 'application/x-www-form-urlencoded' },
      body: () => Buffer.from(text, 'latin1'),
    });
  assert.equal(form('img_url=caf%C3%A9').get('img_url'), 'caf\u00e9');
  assert.throws(() => form('img_url=caf%E9'), { code: 'bad_request', message: /expected UTF-8, got "%E9"/ });
  assert.throws(() => form('img_url=caf\xe9'), { code: 'bad_request', message: /not valid UTF-8/ });
});

test('every route of a running service refuses text that is not UTF-8, and answers the charset that it was given', async (t) => {
  const modelDirectory = await temporaryFolder(t);
  const text = { name: 'sex', dtype: 'string', shape: ['N', 1] } as const;
  await writeFile(join(modelDirectory, 'model.onnx'), identityModel([text]));
  const { url } = await testStack(t, { config: 'jobName: texts', modelDirectory });
  const post = async (path: string, type: string, body: string, headers: Record<string, string> = {}) => {
    const bytes = Buffer.from(body, 'latin1');
    const answer = await fetch(`${url}${path}`, {
      method: 'POST',
      headers: { 'content-type': type, ...headers },
      body: headers['content-encoding'] ? gzipSync(bytes) : bytes,
    });
    return { status: answer.status, text: await answer.text() };
  };
  const json = '{"instances":[{"sex":"m\xe2le"}]}';
  const queued = '{"uri":"a","instances":[{"sex":"m\xe2le"}]}';
  const routes: readonly (readonly [path: string, body: string, type?: string])[] = [
    ['/predict', json],
    ['/predict', 'sex\nm\xe2le\n', 'text/csv'],
    ['/v1/models/texts:predict', json],
    [
      '/v2/models/texts/infer',
      '{"inputs":[{"name":"sex","datatype":"BYTES","shape":[1,1],"data":["m\xe2le"]}]}',
    ],
    ['/predictions', queued],
    ['/predictions', 'uri,sex\na,m\xe2le\n', 'text/csv'],
    ['/predictions', queued, 'application/x-ndjson'],
  ];
  for (const [path, body, type = 'application/json'] of routes) {
    for (const [sent, headers] of [
      [type],
      ['application/octet-stream'],
      [type, { 'content-encoding': 'gzip' }],
    ] as const) {
      // Records of /predictions are answered one by one, a broken line as well.
      const { status, text: answer } = await post(path, sent, body, headers);
      const isRefused = [400, 415].includes(status) || answer.startsWith('{"accepted":0,');
      assert.ok(isRefused, `${path} as ${sent}: ${status} ${answer}`);
    }
    const declared = await post(path, `${type}; charset=iso-8859-1`, body);
    assert.ok(declared.status === 415 || type === 'application/x-ndjson', `${path}: ${declared.text}`);
  }
  const gzip = { 'content-encoding': 'gzip' };
  const answered = await post('/predict', 'application/json; charset=iso-8859-1', json, gzip);
  assert.deepEqual([answered.status, /m\u00e2le/.test(answered.text)], [200, true], answered.text);
});
