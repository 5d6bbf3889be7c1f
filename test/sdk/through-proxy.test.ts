/** The ways past and through a proxy in this process: proxy.test.ts has them with a program on each Node. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { createServer as createSecureServer } from 'node:https';
import { type AddressInfo, connect, type Server, type Socket } from 'node:net';
import { beforeEach, test } from 'node:test';
import { getCACertificates, setDefaultCACertificates } from 'node:tls';
import { setVariables } from '../../lib/contract/variables.ts';
import { awsAgent, nodeFetch } from '../../sdk/proxy.ts';
import { Queue } from '../../sdk/queue.ts';
import { useAws } from '../support/environment.ts';
import { type Hooks, temporaryFolder } from '../support/runner.ts';
import { makeCertificate } from '../support/tls.ts';

const NONE = { HTTPS_PROXY: undefined, https_proxy: undefined, NO_PROXY: undefined, no_proxy: undefined };
beforeEach(() => setVariables(NONE));

async function listening(t: Hooks, server: Server): Promise<number> {
  const sockets = new Set<Socket>();
  server.on('connection', (socket) => {
    sockets.add(socket);
    socket.on('error', () => undefined);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(async () => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return (server.address() as AddressInfo).port;
}

/** Lets through what is for this machine. */
async function startProxy(t: Hooks) {
  const asked: string[] = [];
  const server = createServer();
  server.on('connect', ({ url = '', headers }: IncomingMessage, client: Socket) => {
    asked.push(`${url} ${headers['proxy-authorization'] ?? ''}`.trim());
    const [host, port] = url.split(':');
    if (host !== 'localhost') return void client.end('HTTP/1.1 502 Bad Gateway\r\n\r\n');
    const there = connect(Number(port), '127.0.0.1', () => {
      client.write('HTTP/1.1 200 Connection Established\r\n\r\n');
      there.pipe(client).pipe(there);
    });
    there.on('error', () => client.destroy());
  });
  return { asked, proxy: `127.0.0.1:${await listening(t, server)}` };
}

/** An HTTPS service on this machine that is trusted; undefined where there is no openssl. */
async function startService(
  t: Hooks,
  answer: (request: IncomingMessage, response: ServerResponse) => Promise<void>,
) {
  const files = makeCertificate(await temporaryFolder(t, 'cs-through-'));
  if (!files) return undefined;
  const [key, cert] = [await readFile(files.key), await readFile(files.certificate, 'utf8')];
  const before = getCACertificates('default');
  setDefaultCACertificates([...before, cert]);
  t.after(async () => setDefaultCACertificates(before));
  return `https://localhost:${await listening(
    t,
    createSecureServer({ key, cert }, (...both) => void answer(...both)),
  )}`;
}

const WAYS: readonly (readonly [no: string, url: string, to: string | undefined])[] = [
  ['', 'https://a.example/b', 'a.example:443'],
  ['', 'https://a.example:8443/b', 'a.example:8443'],
  ['', 'http://a.example/b', undefined],
  ['*', 'https://a.example/', undefined],
  ['a.example', 'https://a.example/', undefined],
  ['A.Example', 'https://a.example/', undefined],
  ['a.example', 'https://b.a.example/', undefined],
  ['.a.example', 'https://b.a.example/', undefined],
  ['*.a.example', 'https://b.a.example/', undefined],
  ['a.example', 'https://ba.example/', 'ba.example:443'],
  ['b.a.example', 'https://a.example/', 'a.example:443'],
  ['b.example, a.example', 'https://a.example/', undefined],
  ['b.example a.example', 'https://a.example/', undefined],
  [', ,', 'https://a.example/', 'a.example:443'],
  ['a.example:443', 'https://a.example/', undefined],
  ['a.example:8443', 'https://a.example/', 'a.example:443'],
  ['a.example:8443', 'https://a.example:8443/', undefined],
  ['a.example:443', 'https://a.example:8443/', 'a.example:8443'],
];

test('HTTPS goes to the proxy as a host and a port, and past it where NO_PROXY has them', async (t) => {
  const { asked, proxy } = await startProxy(t);
  const past: string[] = [];
  t.mock.method(globalThis, 'fetch', async (url: string) => {
    past.push(url);
    return new Response('past');
  });
  for (const [no, url, to] of WAYS) {
    for (const variable of ['NO_PROXY', 'no_proxy']) {
      setVariables({ ...NONE, HTTPS_PROXY: `http://${proxy}`, [variable]: no });
      asked.length = past.length = 0;
      await nodeFetch(url, {}).catch(() => undefined);
      const expected = to === undefined ? [[], [url]] : [[to], []];
      assert.deepEqual([asked, past], expected, `${variable} ${no}: ${url}`);
    }
  }
});

test('the lower case of a variable outweighs the upper, and a proxy of another kind is refused', async (t) => {
  const { asked, proxy } = await startProxy(t);
  const ask = () => nodeFetch('https://a.example/', {});
  setVariables({ HTTPS_PROXY: 'socks5://127.0.0.1:9', https_proxy: `http://me:p%20w@${proxy}` });
  await assert.rejects(ask(), (error: Error) => {
    const why = `the proxy ${proxy} answered 502 to CONNECT a.example:443`;
    assert.deepEqual([error.message, (error.cause as Error).message], ['fetch failed', why]);
    return true;
  });
  assert.deepEqual(asked, [`a.example:443 Basic ${Buffer.from('me:p w').toString('base64')}`]);
  for (const text of ['socks5://127.0.0.1:9', '127.0.0.1', 'nothing']) {
    setVariables({ https_proxy: text });
    await assert.rejects(async () => ask(), { code: 'bad_config', message: /^HTTPS_PROXY: expected http:/ });
  }
  setVariables({ https_proxy: 'http://127.0.0.1:1' });
  await assert.rejects(ask(), (error: Error) => {
    assert.match((error.cause as Error).message, /^the proxy 127\.0\.0\.1:1 cannot be reached: /);
    return true;
  });
});

test('clients of AWS get an agent where there is a proxy, which goes past it where NO_PROXY says so', async (t) => {
  assert.deepEqual(awsAgent(), {});
  setVariables({ HTTPS_PROXY: 'http://127.0.0.1:9' });
  const { httpsAgent } = awsAgent();
  t.after(() => httpsAgent?.destroy());
  assert.equal(httpsAgent?.options.keepAlive, true);
  assert.notEqual(awsAgent().httpsAgent, httpsAgent);
});

test('an answer has its status, its headers and its body, and a redirect is one where it was asked for', async (t) => {
  const seen: unknown[] = [];
  const url = await startService(t, async (request, response) => {
    const sent = Buffer.concat(await request.toArray()).toString();
    seen.push([request.method, request.headers['x-a'], sent]);
    const status = Number(request.url?.slice(1));
    response.writeHead(status, { location: '/there', 'set-cookie': ['a=1', 'b=2'] });
    response.end(status === 204 || status === 304 ? undefined : 'the body');
  });
  if (url === undefined) return t.skip('there is no openssl');
  const { proxy, asked } = await startProxy(t);
  setVariables({ HTTPS_PROXY: `http://${proxy}` });
  const manual = { redirect: 'manual' } as const;
  const statuses = [200, 204, 299, 303, 304, 399, 400, 500];
  for (const status of statuses) {
    const response = await nodeFetch(`${url}/${status}`, manual);
    const isEmpty = status === 204 || status === 304;
    assert.equal(response.status, status);
    assert.deepEqual(response.headers.getSetCookie(), ['a=1', 'b=2']);
    assert.deepEqual([await response.text(), response.body === null], [isEmpty ? '' : 'the body', isEmpty]);
  }
  for (const status of [300, 307, 399])
    await assert.rejects(nodeFetch(`${url}/${status}`, {}), {
      code: 'bad_config',
      message: /redirects, which is not followed through a proxy/,
    });
  for (const status of [299, 400]) assert.equal((await nodeFetch(`${url}/${status}`, {})).status, status);
  assert.deepEqual(seen[0], ['GET', undefined, '']);
  seen.length = 0;
  await (await nodeFetch(`${url}/200`, { method: 'PUT', headers: { 'x-a': '1' }, body: 'b' })).text();
  assert.deepEqual(seen, [['PUT', '1', 'b']]);
  const stopped = AbortSignal.abort(new Error('enough'));
  await assert.rejects(nodeFetch(`${url}/200`, { signal: stopped }), { name: 'AbortError' });
  assert.ok(asked.every((one) => url.endsWith(one)));
  setVariables({ NO_PROXY: 'localhost' });
  const { length } = asked;
  assert.equal((await nodeFetch(`${url}/200`, {})).status, 200);
  assert.equal(asked.length, length);
});

test('records go to SQS and S3 through the proxy', async (t) => {
  const done: string[] = [];
  const url = await startService(t, async (request, response) => {
    await request.toArray();
    done.push(`${request.method} ${request.url?.replace(/payloads.*/, 'payloads')}`);
    response.writeHead(request.method === 'PUT' ? 200 : 400).end('{}');
  });
  if (url === undefined) return t.skip('there is no openssl');
  const { proxy, asked } = await startProxy(t);
  useAws({ AWS_ACCESS_KEY_ID: 'x', AWS_SECRET_ACCESS_KEY: 'x' });
  setVariables({ HTTPS_PROXY: `http://${proxy}` });
  const options = { endpoint: url, region: 'local', queueUrl: `${url}/0/q`, bucket: 'bucket' };
  const queue = new Queue('job', options);
  t.after(() => queue.close());
  const record = { uri: 'a', identity: 'i', message: JSON.stringify({ data: 'x'.repeat(2 ** 20) }) };
  await assert.rejects(queue.send(record, new AbortController().signal));
  assert.deepEqual(done, ['PUT /bucket/payloads', 'POST /']);
  const host = new URL(url).host;
  assert.deepEqual(asked, [host, host]);
});
