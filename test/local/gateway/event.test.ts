import assert from 'node:assert/strict';
import { request as httpRequest } from 'node:http';
import { after, before, describe, it } from 'node:test';
import { gzipSync } from 'node:zlib';
import type { APIGatewayProxyEventV2, Context } from 'aws-lambda';
import { type Gateway, startGateway } from '../../../local/gateway/gateway.ts';

const quiet = { info: () => undefined, warn: () => undefined, error: () => undefined };
/** 10/Jul/2026:19:19:05 +0000 */
const NOW_MS = 1_783_711_145_766;

let gateway: Gateway;
let seen: { event: APIGatewayProxyEventV2; context: Context } | undefined;

before(async () => {
  const handler = async (event: APIGatewayProxyEventV2, context: Context) => {
    seen = { event, context };
    return { statusCode: 204 };
  };
  gateway = await startGateway({
    port: 0,
    log: quiet,
    clock: () => NOW_MS,
    allowedHosts: ['abc.example.test'],
    routes: [
      { method: 'POST', path: '/predict', handler, functionName: 'predict', timeoutMs: 9000 },
      { method: 'GET', path: '/predictions/{uri}', handler },
      { method: 'GET', path: '/files/{name}/{rest+}', handler },
      { method: 'GET', path: '/files/fixed/part', handler },
      { method: 'ANY', path: '/any', handler },
      { method: 'GET', path: '/', handler },
    ],
  });
});
after(() => gateway.close());

async function eventOf(
  path: string,
  options: { method?: string; headers?: readonly string[]; body?: string | Buffer } = {},
): Promise<{ status: number; event: APIGatewayProxyEventV2; context: Context }> {
  seen = undefined;
  const status = await new Promise<number>((resolve, reject) => {
    const headers = ['host', `abc.example.test:${gateway.port}`, ...(options.headers ?? [])];
    if (options.body !== undefined) headers.push('content-length', String(Buffer.byteLength(options.body)));
    const sent = httpRequest(
      { port: gateway.port, method: options.method ?? 'GET', path, headers, agent: false },
      (response) => response.resume().on('end', () => resolve(response.statusCode ?? 0)),
    );
    sent.on('error', reject).end(options.body);
  });
  const got = seen as { event: APIGatewayProxyEventV2; context: Context } | undefined;
  return { status, ...(got ?? { event: Object({}), context: Object({}) }) };
}

const json = ['content-type', 'application/json'];

describe('gateway events', () => {
  it('gives the event AWS gives for the same request', async () => {
    // The request whose event on real AWS is published in github.com/hotsock/voker (vokerhttp/testdata).
    const query =
      'repeat=one&repeat=two&redirect=https%3A%2F%2Fexample.com%2Fa%2Fb&literalPlus=a+b&encodedPlus=a%2Bb&empty=';
    const { event } = await eventOf(`/predictions/space%20value?${query}`, {
      headers: [
        'Cookie',
        'session=abc123; theme=dark',
        'X-Probe',
        'first',
        'x-probe',
        'second',
        'User-Agent',
        'curl/8',
      ],
    });
    const { requestId } = event.requestContext;
    const traceId = event.headers['x-amzn-trace-id'];
    assert.match(requestId, /^[A-Za-z0-9]{15}=$/);
    assert.match(traceId ?? '', /^Root=1-6a5145a9-[0-9a-f]{24}$/);
    assert.deepStrictEqual(event, {
      version: '2.0',
      routeKey: 'GET /predictions/{uri}',
      rawPath: '/predictions/space value',
      rawQueryString: query,
      cookies: ['session=abc123', 'theme=dark'],
      headers: {
        'content-length': '0',
        host: `abc.example.test:${gateway.port}`,
        'user-agent': 'curl/8',
        'x-amzn-trace-id': traceId,
        'x-forwarded-for': '127.0.0.1',
        'x-forwarded-port': String(gateway.port),
        'x-forwarded-proto': 'http',
        'x-probe': 'first,second',
      },
      queryStringParameters: {
        empty: '',
        encodedPlus: 'a+b',
        literalPlus: 'a b',
        redirect: 'https://example.com/a/b',
        repeat: 'one,two',
      },
      pathParameters: { uri: 'space value' },
      requestContext: {
        accountId: '000000000000',
        apiId: 'local',
        domainName: 'abc.example.test',
        domainPrefix: 'abc',
        http: {
          method: 'GET',
          path: '/predictions/space value',
          protocol: 'HTTP/1.1',
          sourceIp: '127.0.0.1',
          userAgent: 'curl/8',
        },
        requestId,
        routeKey: 'GET /predictions/{uri}',
        stage: '$default',
        time: '10/Jul/2026:19:19:05 +0000',
        timeEpoch: NOW_MS,
      },
      isBase64Encoded: false,
    });
  });

  it('leaves out query, cookies, path parameters and body where there are none', async () => {
    const { event } = await eventOf('/');
    for (const field of ['queryStringParameters', 'cookies', 'pathParameters', 'body', 'stageVariables']) {
      assert.ok(!(field in event), field);
    }
    assert.equal(event.rawQueryString, '');
  });

  it('gives each invocation a context of the function that counts down', async () => {
    const { context } = await eventOf('/predict', { method: 'POST', body: '{}', headers: json });
    assert.equal(context.functionName, 'predict');
    // The clock of events is not the one that counts down.
    const left = context.getRemainingTimeInMillis();
    assert.ok(left > 0 && left <= 9000, String(left));
    assert.match(context.awsRequestId, /^[0-9a-f-]{36}$/);
    assert.match(context.invokedFunctionArn, /:function:predict$/);
    assert.equal((await eventOf('/predictions/a')).context.functionName, 'predictions-uri');
  });

  for (const type of [
    'application/json',
    'application/json; charset=utf-8',
    'APPLICATION/JSON',
    'text/plain',
    'text/csv; header=present',
    'application/xml',
    'application/javascript',
  ]) {
    it(`passes a body of ${type} as text`, async () => {
      const { event } = await eventOf('/predict', {
        method: 'POST',
        headers: ['content-type', type],
        body: '{"λ":1}',
      });
      assert.equal(event.body, '{"λ":1}');
      assert.equal(event.isBase64Encoded, false);
      assert.equal(event.headers['content-length'], '8');
    });
  }

  for (const headers of [
    ['content-type', 'application/x-www-form-urlencoded'],
    ['content-type', 'application/octet-stream'],
    ['content-type', 'application/problem+json'],
    ['content-type', 'multipart/form-data; boundary=x'],
    [],
    [...json, 'content-encoding', 'gzip'],
  ]) {
    it(`passes a body with ${headers.join(' ') || 'no content type'} as base64`, async () => {
      const bytes = gzipSync('{"instances":[]}');
      const { event } = await eventOf('/predict', { method: 'POST', headers, body: bytes });
      assert.equal(event.isBase64Encoded, true);
      assert.deepEqual(Buffer.from(event.body ?? '', 'base64'), bytes);
    });
  }

  it('gives a chunked body its length and hides the transfer encoding', async () => {
    seen = undefined;
    const response = await fetch(`${gateway.url}/predict`, {
      method: 'POST',
      headers: { 'content-type': 'text/plain' },
      body: new Blob(['one ', 'two']).stream(),
      duplex: 'half',
    });
    assert.equal(response.status, 204);
    const event = (seen as { event: APIGatewayProxyEventV2 } | undefined)?.event;
    assert.equal(event?.body, 'one two');
    assert.equal(event.headers['content-length'], '7');
    assert.equal(event.headers['transfer-encoding'], undefined);
  });

  it('keeps headers named like object members', async () => {
    const { event } = await eventOf('/?constructor=a&__proto__=b&constructor=c', {
      headers: ['constructor', 'x', 'toString', 'y'],
    });
    assert.equal(event.headers.constructor, 'x');
    assert.equal(event.headers.tostring, 'y');
    assert.deepEqual(Object.entries(event.queryStringParameters ?? {}), [
      ['constructor', 'a,c'],
      ['__proto__', 'b'],
    ]);
  });

  it('appends the caller to x-forwarded-for', async () => {
    const { event } = await eventOf('/', { headers: ['X-Forwarded-For', '10.0.0.1'] });
    assert.equal(event.headers['x-forwarded-for'], '10.0.0.1, 127.0.0.1');
  });
});

describe('gateway routes', () => {
  it('decodes path parameters once', async () => {
    const parameters = async (path: string) => (await eventOf(path)).event.pathParameters;
    assert.deepEqual(await parameters('/predictions/%E2%98%95%20%F0%9F%98%8A'), { uri: '☕ 😊' });
    assert.deepEqual(await parameters('/predictions/a%252Fb'), { uri: 'a%2Fb' });
    assert.deepEqual(await parameters('/predictions/a+b%2Bc'), { uri: 'a+b+c' });
  });

  it('decodes before it routes, so an encoded slash parts the path', async () => {
    assert.equal((await eventOf('/predictions/a%2Fb')).status, 404);
    const { event } = await eventOf('/files/x/a%2Fb/c');
    assert.deepEqual(event.pathParameters, { name: 'x', rest: 'a/b/c' });
    assert.equal(event.rawPath, '/files/x/a/b/c');
  });

  it('ends the path at an encoded question mark', async () => {
    const { event } = await eventOf('/predictions/a%3Fb?c=d');
    assert.deepEqual(event.pathParameters, { uri: 'a' });
    assert.equal(event.rawQueryString, 'c=d');
  });

  it('prefers the literal route', async () => {
    assert.equal((await eventOf('/files/fixed/part')).event.routeKey, 'GET /files/fixed/part');
    assert.equal((await eventOf('/files/fixed/other')).event.routeKey, 'GET /files/{name}/{rest+}');
  });

  for (const [method, path] of [
    ['GET', '/nope'],
    ['GET', '/predict'],
    ['HEAD', '/predictions/a'],
    ['GET', '/predictions/'],
    ['GET', '/predictions/a/b'],
    ['GET', '/predictions/a/'],
    ['GET', '/PREDICTIONS/a'],
    ['OPTIONS', '/predict'],
    ['GET', '/files/x'],
  ] as const) {
    it(`answers 404 to ${method} ${path}`, async () => {
      assert.equal((await eventOf(path, { method })).status, 404);
      assert.equal(seen, undefined);
    });
  }

  it('lets ANY take HEAD', async () => {
    const { status, event } = await eventOf('/any', { method: 'HEAD' });
    assert.equal(status, 204);
    assert.equal(event.routeKey, 'ANY /any');
    assert.equal(event.requestContext.http.method, 'HEAD');
  });

  it('answers 400 to a malformed percent sign', async () => {
    assert.equal((await eventOf('/predictions/%zz')).status, 400);
    assert.equal((await eventOf('/predictions/%FF')).status, 400);
  });

  it('refuses routes that cannot work, all problems at once', async () => {
    const handler = async () => '';
    const routes = [
      { method: 'GET', path: 'predict', handler },
      { method: 'GET', path: '/{a+}/b', handler },
      { method: 'GET', path: '/{a}/{a}', handler },
      { method: 'GET', path: '/x/{b', handler },
      { method: 'GET', path: '/y/{c}', handler },
      { method: 'GET', path: '/y/{d}', handler },
    ] as const;
    await assert.rejects(startGateway({ port: 0, log: quiet, routes }), (error: Error) => {
      assert.match(error.message, /predict: the path must start with \//);
      assert.match(error.message, /\{a\+\} must come last/);
      assert.match(error.message, /\{a\} occurs twice/);
      assert.match(error.message, /\{b must be \{name\} or \{name\+\}/);
      assert.match(error.message, /GET \/y\/\{d\}: another route takes the same requests/);
      return true;
    });
  });
});
