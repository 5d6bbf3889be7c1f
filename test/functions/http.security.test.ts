/** Text from a caller stays data: in a header, in a body that a browser may show, on a network beyond this machine. */
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { test } from 'node:test';
import type { APIGatewayProxyEventV2 } from 'aws-lambda';
import { status } from '../../functions/status.ts';
import { DEFAULT_JOB } from '../../lib/config/job.ts';
import { corsRules } from '../../lib/http/cors.ts';
import { type HttpResponse, json, jsonText, text } from '../../lib/http/response.ts';
import { startAws } from '../../local/aws/aws.ts';
import { startGateway } from '../../local/gateway/gateway.ts';
import { startRedis } from '../../local/redis/start.ts';
import { answers, outerAddresses } from '../support/addresses.ts';
import { quietObservers } from '../support/observers.ts';
import { predictionsWith } from '../support/predictions.ts';
import { temporaryFolder } from '../support/runner.ts';
import { testStack } from '../support/stack.ts';

const silent = () => undefined;
const LOG = { info: silent, warn: silent, error: silent };

/** Texts that would become a header, another path or a page if they were used unescaped. */
const SHARP = [
  'a\r\nset-cookie: owned=1',
  'a\nx: y',
  'a%0d%0aset-cookie:%20owned=1',
  'a\u0085b',
  'a\u2028b',
  '//evil.example/x',
  'https://evil.example/',
  'javascript:alert(1)',
  '../../metrics',
  'a?b=c&uri=d#e',
  '"><script>alert(1)</script>',
  'ä ö \u{1f600}',
];

function event(method: string, path: string, more: Partial<APIGatewayProxyEventV2>): APIGatewayProxyEventV2 {
  return {
    version: '2.0',
    routeKey: '',
    rawPath: path,
    rawQueryString: '',
    headers: {},
    requestContext: { http: { method, path } } as APIGatewayProxyEventV2['requestContext'],
    isBase64Encoded: false,
    ...more,
  };
}

const handle = predictionsWith({
  queue: () => ({ send: async () => undefined }),
  payloads: async () => ({ put: async () => 'key' }),
  results: () => ({
    getWithin: async () => undefined,
    take: async () => undefined,
    takePage: async () => undefined,
  }),
  states: () => ({ status: async () => 'unknown', cancel: async () => true }),
  locate: (key) => `/large/${key}`,
});

function assertHeaders({ headers = {} }: HttpResponse, name: string): void {
  for (const [key, value] of Object.entries(headers)) {
    assert.match(key, /^[a-z-]+$/, name);
    assert.match(String(value), /^[\x20-\x7e]*$/, `${name}: ${key}`);
  }
  assert.ok(
    ['application/json; charset=utf-8', 'text/plain; charset=utf-8'].includes(
      String(headers['content-type']),
    ),
  );
  assert.equal(headers['x-content-type-options'], 'nosniff', name);
}

test('a uri is one path segment or one query value of Location, and never a header or another host', async () => {
  for (const uri of SHARP) {
    const body = JSON.stringify({ uri, instances: [{ x: 1 }] });
    const answer = await handle(event('POST', '/predictions', { body }));
    assertHeaders(answer, uri);
    if (answer.statusCode !== 202) {
      assert.deepEqual([answer.statusCode, /[\r\n]/.test(uri)], [400, true], uri);
      continue;
    }
    const location = new URL(String(answer.headers?.['location']), 'https://api.example');
    assert.deepEqual([location.host, location.pathname, location.hash], ['api.example', '/predictions', '']);
    assert.deepEqual([...location.searchParams], [['uri', uri]]);
  }
});

test('every answer has one of two content types, which browsers must not guess', async () => {
  for (const uri of SHARP)
    for (const [method, path] of [
      ['GET', '/predictions'],
      ['DELETE', '/predictions'],
      ['GET', '/status'],
      ['POST', '/cancel'],
    ] as const)
      assertHeaders(
        await handle(event(method, path, { queryStringParameters: { uri } })),
        `${method} ${uri}`,
      );
  const endpoint = status({
    results: {
      serving: async () => [],
      lostCaptures: async () => 0,
      timers: async () => ({ histograms: new Map(), seconds: 0 }),
    },
    settings: DEFAULT_JOB,
    versions: async () => ({ version: 'v' }),
    observers: quietObservers(),
  });
  for (const path of ['/', '/metrics', '/ready', ...SHARP.map((sharp) => `/${sharp}`)])
    assertHeaders(await endpoint(event('GET', path, {})), path);
  for (const made of [json(200, {}), jsonText(200, '{}'), text(200, '')]) assertHeaders(made, 'made');
});

test('what a caller sends does not come back as HTML', async () => {
  const page = '<script>alert(1)</script>';
  for (const body of [
    page,
    JSON.stringify({ uri: page }),
    JSON.stringify({ uri: 'u', data: page, serde: page }),
  ]) {
    const answer = await handle(event('POST', '/predictions', { body }));
    assert.equal(answer.statusCode, 400);
    assertHeaders(answer, body);
  }
});

test('without an origin in the settings there are no rules for browsers, and with one there are for it alone', () => {
  assert.equal(corsRules([]), undefined);
  const rules = corsRules(['https://shop.example']);
  assert.deepEqual(rules?.allowedOrigins, ['https://shop.example']);
  assert.ok(!JSON.stringify(rules).includes('*'));
});

test('through the gateway, only a page of a configured origin may read an answer', async (t) => {
  const stack = await testStack(t, {
    config: 'imageResize: 8,8\nhttp:\n  corsOrigins: [https://shop.example]\n',
  });
  const allowed = async (origin: string, method = 'GET') =>
    (
      await fetch(`${stack.url}/`, {
        method,
        headers: { origin, 'access-control-request-method': 'POST' },
      })
    ).headers.get('access-control-allow-origin');
  assert.equal(await allowed('https://shop.example'), 'https://shop.example');
  for (const origin of [
    'https://evil.example',
    'https://shop.example.evil.example',
    'http://shop.example',
    'null',
  ]) {
    assert.equal(await allowed(origin), null, origin);
    assert.equal(await allowed(origin, 'OPTIONS'), null, origin);
  }
});

/** Local addresses that somebody listens on at a port, as the kernel has them. */
async function listeners(port: number): Promise<string[]> {
  const hex = port.toString(16).toUpperCase().padStart(4, '0');
  const tables = await Promise.all(
    ['/proc/net/tcp', '/proc/net/tcp6'].map((path) => readFile(path, 'utf8').catch(() => '')),
  );
  return tables
    .join('\n')
    .split('\n')
    .map((line) => line.trim().split(/\s+/))
    .filter(([, local, , state]) => state === '0A' && local?.endsWith(`:${hex}`))
    .map(([, local]) => (local as string).split(':')[0] as string);
}

/** 127.0.0.1 as the kernel writes it. */
const LOOPBACK = '0100007F';

test('all of the local stack listens on this machine only', async (t) => {
  const stack = await testStack(t);
  const embedded = await startRedis({
    dataDir: await temporaryFolder(t),
    port: 0,
    preferEmbedded: true,
    log: silent,
  });
  t.after(() => embedded.close());
  const urls = [stack.url, stack.aws.url, stack.redisUrl, embedded.url];
  for (const url of urls) {
    const { hostname, port } = new URL(url);
    assert.equal(hostname, '127.0.0.1', url);
    assert.ok(await answers('127.0.0.1', Number(port)), url);
    const found = await listeners(Number(port));
    for (const address of found) assert.equal(address, LOOPBACK, url);
    if (process.platform === 'linux') assert.equal(found.length, 1, url);
    for (const address of outerAddresses())
      assert.equal(await answers(address, Number(port)), false, address);
  }
});

test('by default the parts by themselves listen on this machine only', async (t) => {
  const gateway = await startGateway({ port: 0, routes: [], log: LOG });
  t.after(() => gateway.close());
  const aws = await startAws({ port: 0, log: LOG });
  t.after(() => aws.close());
  for (const url of [gateway.url, aws.url])
    for (const address of await listeners(Number(new URL(url).port))) assert.equal(address, LOOPBACK, url);
});

test('a Redis without a password cannot be made to listen to others', async (t) => {
  for (const host of ['0.0.0.0', '::', '192.0.2.1', 'example.com'])
    await assert.rejects(
      startRedis({ dataDir: await temporaryFolder(t), port: 0, host, preferEmbedded: true, log: silent }),
      { code: 'bad_config' },
      host,
    );
});

test('a client that never ends its request is let go, and others are served meanwhile', async (t) => {
  const gateway = await startGateway({
    port: 0,
    routes: [{ method: 'POST', path: '/', handler: async () => ({ statusCode: 200, body: 'ok' }) }],
    log: LOG,
    requestTimeoutMs: 300,
  });
  t.after(() => gateway.close());
  const slow = Array.from({ length: 50 }, (_, i) => {
    const socket = connect(gateway.port, '127.0.0.1');
    socket.on('error', silent).on('data', silent);
    // Half of them stop in their headers, half in their body.
    socket.write(
      i % 2
        ? 'POST / HTTP/1.1\r\nhost: localhost\r\nx: '
        : 'POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: 9\r\n\r\n1',
    );
    return new Promise((resolve) => socket.on('close', resolve));
  });
  const answer = await fetch(gateway.url, { method: 'POST', body: 'x' });
  assert.equal(await answer.text(), 'ok');
  await Promise.all(slow);
});
