import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { gzipSync } from 'node:zlib';
import { type Gateway, startGateway } from '../../../local/gateway/gateway.ts';
import { enveloped, gatewayMessage, refusal, tooManyWaits, toWire } from '../../../local/gateway/response.ts';

/** The handler's next step, and the gateway's log lines about it. */
let act: () => unknown;
let logged: string[] = [];
let gateway: Gateway;

before(async () => {
  gateway = await startGateway({
    port: 0,
    log: { info: () => undefined, warn: () => undefined, error: (message) => logged.push(message) },
    routes: [
      { method: 'GET', path: '/', handler: async () => Object(await act()) },
      { method: 'POST', path: '/bare', handler: async () => act() },
    ],
  });
});
after(() => gateway.close());

async function answer(result: unknown): Promise<{ response: Response; body: string }> {
  logged = [];
  act = () => result;
  const response = await fetch(`${gateway.url}/bare`, { method: 'POST' });
  return { response, body: await response.text() };
}

describe('gateway responses', () => {
  it('writes status, headers, cookies and body of a structured result', async () => {
    const { response, body } = await answer({
      statusCode: 201,
      headers: { 'Content-Type': 'application/json', 'X-Number': 7, 'x-flag': true, 'x-none': undefined },
      cookies: ['a=1; Path=/', 'b=2'],
      body: '{"λ":1}',
    });
    assert.equal(response.status, 201);
    assert.equal(body, '{"λ":1}');
    assert.equal(response.headers.get('content-type'), 'application/json');
    assert.equal(response.headers.get('content-length'), '8');
    assert.equal(response.headers.get('x-number'), '7');
    assert.equal(response.headers.get('x-flag'), 'true');
    assert.equal(response.headers.has('x-none'), false);
    assert.deepEqual(response.headers.getSetCookie(), ['a=1; Path=/', 'b=2']);
    assert.match(response.headers.get('apigw-requestid') ?? '', /^[A-Za-z0-9]{15}=$/);
  });

  it('calls a body without a content type text/plain; charset=utf-8', async () => {
    const { response } = await answer({ statusCode: 200, body: 'x' });
    assert.equal(response.headers.get('content-type'), 'text/plain; charset=utf-8');
  });

  it('sends no body and no content type where the result has none', async () => {
    const { response, body } = await answer({ statusCode: 202 });
    assert.equal(response.status, 202);
    assert.equal(response.headers.get('content-type'), null);
    assert.equal(response.headers.get('content-length'), '0');
    assert.equal(body, '');
  });

  for (const [result, expected] of [
    ['Hello', 'Hello'],
    ['Special "quoted" text', 'Special "quoted" text'],
    ['', ''],
    [42, '42'],
    [true, 'true'],
    [[1, 2], '[1,2]'],
    [{ message: 'hi', body: 'x' }, '{"message":"hi","body":"x"}'],
    [null, 'null'],
    [undefined, 'null'],
  ] as const) {
    it(`takes the result ${JSON.stringify(result)} for the body of a 200 of type JSON`, async () => {
      const { response, body } = await answer(result);
      assert.equal(response.status, 200);
      assert.equal(response.headers.get('content-type'), 'application/json');
      assert.equal(body, expected);
    });
  }

  it('decodes a base64 body to its bytes', async () => {
    const bytes = gzipSync('{"predictions":[]}');
    act = () => ({
      statusCode: 200,
      headers: { 'content-type': 'application/json', 'content-encoding': 'gzip' },
      body: bytes.toString('base64'),
      isBase64Encoded: true,
    });
    const response = await fetch(`${gateway.url}/`);
    assert.equal(response.headers.get('content-length'), String(bytes.length));
    assert.deepEqual(await response.json(), { predictions: [] });
  });

  it('keeps its own headers, even if the function sets them', async () => {
    const headers = { 'Content-Length': '999', Connection: 'close', 'transfer-encoding': 'chunked' };
    const { response, body } = await answer({ statusCode: 200, headers, body: 'abc' });
    assert.equal(response.headers.get('content-length'), '3');
    assert.equal(response.headers.get('connection'), 'keep-alive');
    assert.equal(body, 'abc');
  });

  for (const [why, result] of [
    ['status 0', { statusCode: 0 }],
    ['status 200.5', { statusCode: 200.5 }],
    ['status 99', { statusCode: 99 }],
    ['a status that is text', { statusCode: 'ok' }],
    ['a body that is an object', { statusCode: 200, body: { a: 1 } }],
    ['a line break in a header', { statusCode: 200, headers: { 'x-a': 'b\r\nx-c: d' } }],
    ['a header name with a space', { statusCode: 200, headers: { 'x a': 'b' } }],
    ['a header that is a list', { statusCode: 200, headers: { 'x-a': ['b'] } }],
    ['headers that are a list', { statusCode: 200, headers: ['x-a', 'b'] }],
    ['a line break in a cookie', { statusCode: 200, cookies: ['a=b\nset-cookie: c'] }],
    ['a base64 body that is none', { statusCode: 200, body: 'not base64!', isBase64Encoded: true }],
    ['a bigint', { message: 1n }],
    ['a response over 6 MB', { statusCode: 200, body: 'x'.repeat(6 * 1024 * 1024 + 101) }],
  ] as const) {
    it(`answers 500 and logs once for ${why}`, async () => {
      const { response, body } = await answer(result);
      assert.equal(response.status, 500);
      assert.equal(body, '{"message":"Internal Server Error","error":"Internal Server Error"}');
      assert.equal(response.headers.get('content-type'), 'application/json');
      assert.equal(logged.length, 1);
    });
  }

  it('sends a response of exactly 6 MB and 100 bytes', async () => {
    const { response, body } = await answer({ statusCode: 200, body: 'x'.repeat(6 * 1024 * 1024 + 100) });
    assert.equal(response.status, 200);
    assert.equal(body.length, 6 * 1024 * 1024 + 100);
  });

  it('answers 500 for a handler that throws, and tells the client nothing', async () => {
    for (const fail of [() => Promise.reject(new Error('secret')), () => assert.fail('secret')]) {
      logged = [];
      act = fail;
      const response = await fetch(`${gateway.url}/`);
      assert.equal(response.status, 500);
      assert.equal(
        await response.text(),
        '{"message":"Internal Server Error","error":"Internal Server Error"}',
      );
      assert.deepEqual(logged, ['the handler threw']);
    }
  });
});

it('says when to come back in its own 429, which AWS does not', () => {
  assert.deepEqual(gatewayMessage(429).headers, ['content-type', 'application/json', 'retry-after', '1']);
  assert.deepEqual(gatewayMessage(413).headers, ['content-type', 'application/json']);
});

const JSON_TYPE = ['content-type', 'application/json'];
const TEXT_TYPE = ['content-type', 'text/plain; charset=utf-8'];

it('makes a response of each result that is one', () => {
  for (const [result, status, headers, body, bodyBytes] of [
    ['é', 200, JSON_TYPE, 'é', 2],
    [undefined, 200, JSON_TYPE, 'null', 4],
    [null, 200, JSON_TYPE, 'null', 4],
    [{ statusCode: undefined }, 200, JSON_TYPE, '{}', 2],
    [{ statusCode: 200 }, 200, [], '', 0],
    [{ statusCode: 599, body: null, headers: null, cookies: null }, 599, [], '', 0],
    [{ statusCode: 200, body: 'é' }, 200, TEXT_TYPE, 'é', 2],
    [{ statusCode: 200, body: 'YWI=', isBase64Encoded: 1 }, 200, TEXT_TYPE, 'YWI=', 4],
    [{ statusCode: 200, body: '', headers: { Connection: 'x', 'X-A': 1 } }, 200, ['X-A', '1'], '', 0],
    [
      { statusCode: 200, headers: { 'x-a': '\t ~\u0080\u00ff', 'x-b': null } },
      200,
      ['x-a', '\t ~\u0080\u00ff'],
      '',
      0,
    ],
    [{ statusCode: 200, cookies: ['a', 'b'] }, 200, ['set-cookie', 'a', 'set-cookie', 'b'], '', 0],
  ] as const)
    assert.deepEqual(toWire(result), { status, headers, body, bodyBytes }, JSON.stringify(result));
  for (const [body, bytes] of [
    ['YWJj', 'abc'],
    ['YWI=', 'ab'],
    ['YQ==', 'a'],
    ['YQ', 'a'],
  ] as const) {
    const wire = toWire({ statusCode: 200, body, isBase64Encoded: true }) as {
      body: Buffer;
      bodyBytes: number;
    };
    assert.deepEqual([wire.body.toString(), wire.bodyBytes], [bytes, bytes.length]);
  }
  assert.ok('body' in toWire({ statusCode: 200, body: 'é' }, 2));
});

it('says of every other result what is wrong with it', () => {
  for (const [result, problem] of [
    [{ statusCode: 199 }, 'statusCode must be a whole number from 200 to 599, got 199'],
    [{ statusCode: 600 }, 'statusCode must be a whole number from 200 to 599, got 600'],
    [{ statusCode: null }, 'statusCode must be a whole number from 200 to 599, got null'],
    [{ statusCode: 200, body: 7 }, 'body must be a string, got 7'],
    [{ statusCode: 200, headers: 'x' }, 'headers must be an object, got "x"'],
    [{ statusCode: 200, headers: { a: {} } }, 'header a must be a string, got {}'],
    [{ statusCode: 200, headers: { '': 'b' } }, '"" is not a header name'],
    [{ statusCode: 200, headers: { a: '\u0100' } }, 'header a holds characters no header may'],
    [{ statusCode: 200, headers: { a: '\u007f' } }, 'header a holds characters no header may'],
    [{ statusCode: 200, cookies: 'a' }, 'cookies must be a list, got "a"'],
    [{ statusCode: 200, cookies: [5] }, 'cookies must be strings a header may hold, got 5'],
    [{ statusCode: 200, cookies: ['\n'] }, 'cookies must be strings a header may hold, got "\\n"'],
    [
      { statusCode: 200, body: 'Y!==', isBase64Encoded: true },
      'isBase64Encoded is true and the body is not base64',
    ],
    [{ statusCode: 200, body: ['x'.repeat(76)] }, `body must be a string, got ["${'x'.repeat(76)}"]`],
    [{ statusCode: 200, body: ['x'.repeat(77)] }, `body must be a string, got ["${'x'.repeat(77)}"...`],
  ] as const)
    assert.deepEqual(toWire(result), { problem });
  assert.match(JSON.stringify(toWire({ statusCode: 200, body: 'é' }, 1)), /the response is 2 bytes/);
});

it('refuses in the form of the service, and for a worker in that of its envelope', () => {
  const plain = refusal(401, 'é');
  assert.deepEqual(
    [plain.status, plain.body, plain.bodyBytes],
    [401, '{"error":"é","code":"unauthorized"}', 36],
  );
  assert.deepEqual(plain.headers, [...JSON_TYPE, 'x-content-type-options', 'nosniff']);
  const waits = tooManyWaits();
  assert.deepEqual([waits.status, waits.headers.slice(-2)], [429, ['retry-after', '1']]);
  assert.equal((JSON.parse(String(waits.body)) as { code: string }).code, 'rate_limited');
  const shown = enveloped(plain);
  assert.equal(shown.body, '{"error_code":401,"error_message":"é","data":null,"code":"unauthorized"}');
  assert.equal(shown.bodyBytes, Buffer.byteLength(shown.body));
  for (const [status, code] of [
    [400, 'bad_request'],
    [404, 'not_found'],
    [408, 'timeout'],
    [413, 'too_large'],
    [429, 'rate_limited'],
    [431, 'too_large'],
    [500, 'internal'],
    [503, 'timeout'],
  ] as const)
    assert.equal((JSON.parse(String(enveloped(gatewayMessage(status)).body)) as { code: string }).code, code);
  const bare = { ...plain, body: '{"message":"m"}' };
  assert.equal((JSON.parse(String(enveloped(bare).body)) as { error_message: string }).error_message, 'm');
});
