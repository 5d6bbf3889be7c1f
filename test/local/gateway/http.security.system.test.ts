/** The local HTTP API does nothing for a page of another site that is open in a browser of its machine (F17). */
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { join } from 'node:path';
import { after, before, describe, it, test } from 'node:test';
import { GetQueueAttributesCommand } from '@aws-sdk/client-sqs';
import { startGateway } from '../../../local/gateway/gateway.ts';
import type { Stack } from '../../../local/service/stack.ts';
import { postJson } from '../../../sdk/fetch.ts';
import { OutputQueue } from '../../../sdk/index.ts';
import { IMAGES } from '../../cli/cli.ts';
import { warmCli } from '../../cli/warm.ts';
import { type RawAnswer, type RawRequest, rawRequest } from '../../support/raw-request.ts';
import { temporaryFolder } from '../../support/runner.ts';
import { clientOptions, testStack } from '../../support/stack.ts';
import { start, startReady } from '../../support/start.ts';

const EVIL = 'https://evil.example';
const BODY = JSON.stringify({ uri: 'theirs', instances: [{ image: 'AAAA' }] });

const portOf = (url: string) => Number(new URL(url).port);
const errorOf = ({ text }: RawAnswer) => JSON.parse(text) as { error: string; code: string };

/** What a page can send without asking first, and what it asks for. */
const CHANGES: Readonly<Record<string, RawRequest>> = {
  'a text': { method: 'POST', path: '/predictions', headers: { 'content-type': 'text/plain' }, body: BODY },
  'a urlencoded form': {
    method: 'POST',
    path: '/predict',
    headers: { 'content-type': 'application/x-www-form-urlencoded' },
    body: 'instances=1',
  },
  'a multipart form': {
    method: 'POST',
    path: '/predictions',
    headers: { 'content-type': 'multipart/form-data; boundary=b' },
    body: '--b\r\nContent-Disposition: form-data; name="uri"\r\n\r\ntheirs\r\n--b--\r\n',
  },
  JSON: { method: 'POST', path: '/predictions', headers: { 'content-type': 'application/json' }, body: BODY },
  'a cancellation': { method: 'POST', path: '/cancel?uri=ours' },
  'a request of tensors': { method: 'POST', path: '/v2/models/serving_stream/infer', body: '{}' },
  'the taking of a result': { method: 'DELETE', path: '/predictions/ours' },
  'the taking of all results': { method: 'DELETE', path: '/predictions' },
  'a method that there is not': { method: 'PATCH', path: '/predictions' },
};

describe('a service', () => {
  let stack: Stack;
  let port: number;
  let output: OutputQueue;
  const closers: (() => unknown)[] = [];
  after(async () => {
    for (const close of closers.reverse()) await close();
  });
  before(async () => {
    stack = await testStack({ after: (close) => closers.push(close) });
    port = portOf(stack.url);
    output = new OutputQueue(clientOptions(stack).output);
    closers.push(() => output.close());
    const ours = JSON.stringify({ uri: 'ours', instances: [{ image: await b64() }] });
    await rawRequest(port, { method: 'POST', path: '/predictions', body: ours });
    await output.wait('ours');
  });

  async function assertUntouched(): Promise<void> {
    assert.equal(await output.status('ours'), 'succeeded');
    assert.ok(await output.query('ours'));
    assert.equal(await output.status('theirs'), 'unknown');
    const count = new GetQueueAttributesCommand({ QueueUrl: stack.queueUrl, AttributeNames: ['All'] });
    const { Attributes = {} } = await stack.aws.sqs.send(count);
    assert.equal(Attributes.ApproximateNumberOfMessages, '0');
    assert.equal(Attributes.ApproximateNumberOfMessagesNotVisible, '0');
  }

  it('refuses what a page of another origin would change, and says which setting allows it', async () => {
    const origins = [EVIL, 'null', 'http://localhost:1', `https://evil.example:${port}`, 'file://', 'x', ''];
    for (const origin of origins)
      for (const [name, request] of Object.entries(CHANGES)) {
        const answer = await rawRequest(port, { ...request, headers: { ...request.headers, origin } });
        assert.equal(answer.status, 403, `${name} of ${origin}: ${answer.text}`);
        const { error, code } = errorOf(answer);
        assert.equal(code, 'unauthorized');
        assert.ok(error.includes(JSON.stringify(origin)) && error.includes('http.corsOrigins'), error);
        assert.equal(answer.headers['access-control-allow-origin'], undefined);
      }
    await assertUntouched();
  });

  it('refuses every request under a name that is not its own, and says which option allows it', async () => {
    const hosts = [
      'evil.example',
      `evil.example:${port}`,
      'localhost.evil.example',
      '127.0.0.1.evil.example',
      'notlocalhost',
      '10.0.0.1',
      '128.0.0.1',
      '0.0.0.0',
      '[::2]',
      '127.0.0.1@evil.example',
      'evil.example#localhost',
      'localhost:80:80',
      'localhost:port',
      'xn--',
    ];
    for (const host of hosts)
      for (const [name, request] of Object.entries({
        ...CHANGES,
        'a read': { path: '/predictions/ours' },
        'the metrics': { path: '/metrics' },
        'no route': { path: '/nothing' },
        'a preflight': { method: 'OPTIONS', path: '/predict', headers: { origin: `http://${host}` } },
      })) {
        // With rebinding, the page and the service have the same origin.
        const headers = { origin: `http://${host}`, ...request.headers, host };
        const answer = await rawRequest(port, { ...request, headers });
        assert.equal(answer.status, 403, `${name} at ${host}: ${answer.text}`);
        const { error, code } = errorOf(answer);
        assert.equal(code, 'unauthorized');
        assert.match(error, /--allow-host.*http\.allowedHosts/);
      }
    await assertUntouched();
  });

  it('serves its own pages, and clients that are no browser, under each name of the machine', async () => {
    const names = ['localhost', 'LOCALHOST', '127.0.0.1', '127.1.2.3', '[::1]', 'ml.localhost'];
    for (const name of names) {
      const host = `${name}:${port}`;
      const request = { method: 'POST', path: '/cancel?uri=never', headers: { host } };
      for (const origin of [{}, { origin: `http://${name.toLowerCase()}:${port}` }]) {
        const { status, text } = await rawRequest(port, { ...request, headers: { host, ...origin } });
        assert.equal(status, 200, `${host}: ${text}`);
      }
      const others = { host, origin: `http://localhost:${port + 1}` };
      assert.equal((await rawRequest(port, { ...request, headers: others })).status, 403, host);
    }
  });

  it('answers a page of another origin that only reads, and lets the browser keep it', async () => {
    const { status, headers } = await rawRequest(port, { path: '/', headers: { origin: EVIL } });
    assert.equal(status, 200);
    assert.equal(headers['access-control-allow-origin'], undefined);
  });

  it('refuses before it reads the body, and the connection serves on', async () => {
    const headers = { origin: EVIL };
    const body = Buffer.alloc(5 * 1024 * 1024);
    const refused = await rawRequest(port, { method: 'POST', path: '/predict', headers, body });
    assert.equal(refused.status, 403);
    assert.equal((await rawRequest(port, { path: '/ready' })).status, 200);
  });

  it('shows its clients the text of a refusal', async () => {
    const url = `http://127.0.0.1:${port}/predict`;
    await assert.rejects(postJson(url, '{}', 5_000, fetch, { origin: EVIL }), {
      code: 'unauthorized',
      message: /http\.corsOrigins/,
    });
  });
});

async function b64(): Promise<string> {
  return (await readFile(join(IMAGES, 'digit-3.png'))).toString('base64');
}

test('http.corsOrigins lets the pages of those origins change things, and of no others', async (t) => {
  const config = (origins: string) => ({ config: `imageResize: 8,8\nhttp: {corsOrigins: ${origins}}\n` });
  const some = portOf((await testStack(t, config('["https://shop.example"]'))).url);
  const every = portOf((await testStack(t, config('["*"]'))).url);
  const cancel = (port: number, origin: string, host = `127.0.0.1:${port}`) =>
    rawRequest(port, { method: 'POST', path: '/cancel?uri=a', headers: { origin, host } });
  const allowed = await cancel(some, 'https://shop.example');
  assert.equal(allowed.status, 200);
  assert.equal(allowed.headers['access-control-allow-origin'], 'https://shop.example');
  for (const origin of [
    'http://shop.example',
    'https://shop.example.evil.example',
    'https://SHOP.example',
    'null',
  ])
    assert.equal((await cancel(some, origin)).status, 403, origin);
  for (const origin of [EVIL, 'null']) assert.equal((await cancel(every, origin)).status, 200, origin);
  // An allowed origin is no allowed host.
  assert.equal((await cancel(some, 'https://shop.example', 'shop.example')).status, 403);
  assert.equal((await cancel(every, EVIL, 'evil.example')).status, 403);
});

test('a name of --allow-host or of http.allowedHosts is served, with the pages of its origin', async (t) => {
  const config = 'imageResize: 8,8\nhttp: {allowedHosts: [ml.example.com]}\n';
  const byConfig = portOf((await testStack(t, { config })).url);
  const { addresses } = await startReady(t, '--allow-host', 'ML.example.com', '--allow-host', 'box');
  for (const port of [byConfig, portOf(addresses.http)]) {
    const ask = (host: string, origin?: string) =>
      rawRequest(port, {
        method: 'POST',
        path: '/cancel?uri=a',
        headers: { host, ...(origin === undefined ? {} : { origin }) },
      });
    for (const host of ['ml.example.com', 'ml.example.com:8443', 'ML.Example.com'])
      assert.equal((await ask(host)).status, 200, host);
    assert.equal((await ask('ml.example.com', 'https://ml.example.com')).status, 200);
    assert.equal((await ask('ml.example.com:8443', 'https://ml.example.com:8443')).status, 200);
    // A proxy that calls by address.
    assert.equal((await ask(`127.0.0.1:${port}`, 'https://ml.example.com')).status, 200);
    assert.equal((await ask(`127.0.0.1:${port}`, 'https://ml.example.com:1')).status, 403);
    assert.equal((await ask('ml.example.com', EVIL)).status, 403);
    for (const host of ['example.com', 'a.ml.example.com', 'ml.example.com.evil.example'])
      assert.equal((await ask(host)).status, 403, host);
  }
  assert.equal((await rawRequest(portOf(addresses.http), { headers: { host: 'box' } })).status, 200);
});

test('--allow-host takes names alone', async (t) => {
  const refusal = /--allow-host: expected a name without a port/;
  const cwd = await temporaryFolder(t);
  for (const text of ['http://a', '', 'a b']) {
    const { code, stderr } = await warmCli(['start', '--allow-host', text, '--port', '0'], { cwd });
    assert.equal(code, 2, text);
    assert.match(stderr, refusal);
  }
  const { exited, lines } = start(t, '--allow-host', 'a:80', '--port', '0');
  assert.equal(await exited, 2);
  assert.match(lines.join('\n'), refusal);
  assert.match((await warmCli(['start', '--help'])).stdout, /--allow-host <name>/);
});

test('a name is checked again on each request of a connection', async (t) => {
  const log = { info: () => undefined, warn: () => undefined, error: () => undefined };
  const routes = [{ method: 'GET', path: '/', handler: async () => 'ok' }] as const;
  const gateway = await startGateway({ port: 0, log, routes });
  t.after(() => gateway.close());
  const socket = connect(gateway.port, '127.0.0.1');
  const ask = (host: string, more = '') => `GET / HTTP/1.1\r\nhost: ${host}\r\n${more}\r\n`;
  socket.end(ask('localhost') + ask('evil.example') + ask('localhost', 'connection: close\r\n'));
  let text = '';
  for await (const chunk of socket) text += String(chunk);
  const statuses = [...text.matchAll(/HTTP\/1\.1 (\d+)/g)].map(([, status]) => status);
  assert.deepEqual(statuses, ['200', '403', '200']);
});
