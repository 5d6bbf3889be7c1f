/** The sender of webhooks against a real receiver over TLS, and against hostile targets. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { describe, type TestContext, test } from 'node:test';
import { createServer as createTlsServer } from 'node:tls';
import { secretKeys, signatureHeaders, type WebhookOptions, Webhooks } from '../../../lib/notify/webhook.ts';
import { isSigned, RECEIVER_URL, SECRET, startReceiver } from '../../support/receiver.ts';
import { temporaryFolder } from '../../support/runner.ts';
import { makeCertificate } from '../../support/tls.ts';

const KEYS = secretKeys(SECRET);
const NOTICE = { id: 'msg_1', target: 'shop', body: '{"type":"record.succeeded"}' };
const NO_LOOKUP: WebhookOptions = { now: Date.now, resolve: () => assert.fail('its name was resolved') };

const send = async (url: string, options: WebhookOptions) => {
  const webhooks = new Webhooks(options);
  try {
    return await webhooks.send(NOTICE, url, KEYS);
  } finally {
    webhooks.close();
  }
};

test('a signature is that of the Standard Webhooks specification', () => {
  // Its published example.
  const keys = secretKeys('whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw');
  const body = '{"test": 2432232314}';
  const headers = signatureHeaders('msg_p5jXN8AQM9LWM0D4loKWxJek', 1_614_265_330, body, keys);
  assert.equal(headers['webhook-signature'], 'v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=');
});

test('two secrets sign both, and a text that is not a secret is refused without being quoted', () => {
  const keys = secretKeys(`${SECRET} whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw`);
  assert.match(signatureHeaders('a', 1, '{}', keys)['webhook-signature'], /^v1,\S{44} v1,\S{44}$/);
  for (const text of ['', 'hunter2hunter2', 'whsec_', 'whsec_c2hvcnQ=', `whsec_${'A'.repeat(400)}`])
    assert.throws(
      () => secretKeys(text),
      (error: Error & { code: string }) =>
        error.code === 'bad_config' && (text.length < 7 || !error.message.includes(text)),
    );
});

describe('a receiver over https', () => {
  test('gets the body as it is, with an id, a time and a signature, on a connection that is used again', async (t) => {
    const receiver = await startReceiver(t);
    if (!receiver) return t.skip('needs openssl');
    const ports = new Set<unknown>();
    const webhooks = new Webhooks(receiver.options);
    t.after(() => webhooks.close());
    for (let i = 0; i < 3; i++)
      assert.deepEqual(await webhooks.send({ ...NOTICE, id: `msg_${i}` }, RECEIVER_URL, KEYS), { ok: true });
    assert.deepEqual(
      receiver.received.map(({ id, body }) => [id, body]),
      [0, 1, 2].map((i) => [`msg_${i}`, NOTICE.body]),
    );
    for (const one of receiver.received) {
      assert.ok(isSigned(one));
      ports.add(one.headers['host']);
    }
    assert.equal(receiver.received[0]?.headers['content-type'], 'application/json');
  });

  const answers = [
    [200, {}, { ok: true }],
    [299, {}, { ok: true }],
    [400, {}, { ok: false, reason: 'it answered 400', retryAfterSeconds: undefined }],
    [410, {}, { ok: false, reason: 'it answered 410', isGone: true }],
    [429, { 'retry-after': '7' }, { ok: false, reason: 'it answered 429', retryAfterSeconds: 7 }],
    [503, {}, { ok: false, reason: 'it answered 503', retryAfterSeconds: undefined }],
  ] as const;
  for (const [status, headers, expected] of answers) {
    test(`that answers ${status} ${expected.ok ? 'has the notice' : 'does not have it'}`, async (t) => {
      const receiver = await startReceiver(t, (_, response) => response.writeHead(status, headers).end());
      if (!receiver) return t.skip('needs openssl');
      assert.deepEqual(await send(RECEIVER_URL, receiver.options), expected);
    });
  }

  test('that redirects, to the metadata of the cloud or elsewhere, is not followed', async (t) => {
    const location = 'http://169.254.169.254/latest/meta-data/';
    const receiver = await startReceiver(t, (_, response) => response.writeHead(307, { location }).end());
    if (!receiver) return t.skip('needs openssl');
    const delivery = await send(RECEIVER_URL, receiver.options);
    assert.deepEqual(delivery, { ok: false, reason: 'it answered 307, a redirect, which is not followed' });
    assert.equal(receiver.received.length, 1);
  });

  test('whose answer never ends costs its status, 64 kB and the time limit', async (t) => {
    let written = 0;
    const receiver = await startReceiver(t, (_, response) => {
      response.writeHead(200);
      const more = () => {
        while (!response.destroyed && response.write('x'.repeat(16_384))) written += 16_384;
        if (!response.destroyed) response.once('drain', more);
      };
      more();
    });
    if (!receiver) return t.skip('needs openssl');
    assert.deepEqual(await send(RECEIVER_URL, receiver.options), { ok: true });
    assert.ok(written < 64 * 1024 * 1024);
  });

  test('whose answer drips ends at the time limit with the status that it has', async (t) => {
    const receiver = await startReceiver(t, (_, response) => {
      response.writeHead(200);
      const timer = setInterval(() => response.write('x'), 20);
      response.once('close', () => clearInterval(timer));
    });
    if (!receiver) return t.skip('needs openssl');
    const began = performance.now();
    assert.deepEqual(await send(RECEIVER_URL, { ...receiver.options, timeoutMs: 300 }), { ok: true });
    assert.ok(performance.now() - began < 5_000);
  });

  test('that does not answer is given up at the time limit', async (t) => {
    const receiver = await startReceiver(t, () => undefined);
    if (!receiver) return t.skip('needs openssl');
    const delivery = await send(RECEIVER_URL, { ...receiver.options, timeoutMs: 200 });
    assert.deepEqual(delivery, { ok: false, reason: 'no answer within 200 ms', isAway: true });
  });

  test('with a certificate that nobody trusts is not told', async (t) => {
    const receiver = await startReceiver(t);
    if (!receiver) return t.skip('needs openssl');
    const { ca: _, ...untrusted } = receiver.options;
    const delivery = await send(RECEIVER_URL, untrusted);
    assert.match(delivery.ok ? '' : delivery.reason, /certificate/);
    assert.equal(receiver.received.length, 0);
  });
});

/** Answers each connection as it likes, below HTTP. @param answer begins, and returns what ends it */
async function rawReceiver(
  t: TestContext,
  isSilent: boolean,
  answer: (write: (text: string) => boolean) => () => void,
): Promise<WebhookOptions | undefined> {
  const files = makeCertificate(await temporaryFolder(t));
  if (!files) return undefined;
  const [cert, key] = [await readFile(files.certificate, 'utf8'), await readFile(files.key)];
  const serve = (socket: Socket) => {
    socket.on('error', () => undefined);
    if (isSilent) return;
    socket.once('data', () => {
      const end = answer((text) => socket.writable && socket.write(text));
      socket.once('close', end);
    });
  };
  const server = (isSilent ? createServer(serve) : createTlsServer({ cert, key }, serve)).listen(
    0,
    '127.0.0.1',
  );
  const sockets = new Set<Socket>();
  server.on('connection', (socket: Socket) => sockets.add(socket));
  await once(server, 'listening');
  t.after(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return {
    now: Date.now,
    resolve: async () => ['127.0.0.1'],
    isAllowed: () => true,
    ca: cert,
    port: (server.address() as AddressInfo).port,
  };
}

describe('hostile targets', () => {
  const literals = [
    'https://169.254.169.254/latest/meta-data/',
    'https://[fd00:ec2::254]/latest/meta-data/',
    'https://127.0.0.1/',
    'https://[::1]/',
    'https://2130706433/',
    'https://0x7f.1/',
    'https://10.0.0.1/',
    'https://172.16.0.1/',
    'https://192.168.1.1/',
    'https://100.64.0.1/',
    'https://0.0.0.0/',
    'https://[::ffff:169.254.169.254]/',
    'https://[::ffff:7f00:1]/',
    'https://[64:ff9b::a9fe:a9fe]/',
    'https://[fe80::1]/',
    'https://[fc00::1]/',
    'https://[2002:7f00:1::]/',
    'https://[2001:0:7f00:1::]/',
    'https://[::7f00:1]/',
    'https://[64:ff9b:1::a9fe:a9fe]/',
    'https://[fec0::1]/',
    'https://[ff02::1]/',
    'https://[2001:db8::1]/',
    'https://[::]/',
    'https://0177.0.0.1/',
    'https://192.88.99.1/',
    'https://198.18.0.1/',
    'https://255.255.255.255/',
    'https://168.63.129.16.:443/',
  ];
  for (const url of literals) {
    test(`${url} is refused without a connection`, async () => {
      assert.deepEqual(await send(url, NO_LOOKUP), { ok: false, reason: 'its address is not public' });
    });
  }

  const elsewhere = [
    ['http://shop.example/', 'only https is called'],
    ['https://shop.example:8443/', 'only port 443 is called'],
    ['http://localhost:3000/', 'only https is called'],
    ['ftp://shop.example/', 'only https is called'],
    ['https://user:password@shop.example/', 'an address with a password is not called'],
    ['https://shop.example@169.254.169.254/', 'an address with a password is not called'],
  ] as const;
  for (const [url, reason] of elsewhere) {
    test(`${url}: ${reason}`, async () =>
      assert.deepEqual(await send(url, NO_LOOKUP), { ok: false, reason }));
  }

  for (const addresses of [
    ['169.254.169.254'],
    ['8.8.8.8', '10.0.0.1'],
    ['::ffff:127.0.0.1'],
    ['fd00:ec2::254'],
    ['2606:4700::1111', '64:ff9b::a9fe:a9fe'],
    ['2002:a9fe:a9fe::1'],
    ['no address'],
    [],
  ]) {
    test(`a name with the addresses ${addresses.join(' and ') || 'of none'} is refused`, async () => {
      const delivery = await send('https://shop.example/', { now: Date.now, resolve: async () => addresses });
      assert.deepEqual(delivery, { ok: false, reason: 'its address is not public', isAway: true });
    });
  }

  test('a name that has another address at the second question is asked once for each connection', async (t) => {
    const receiver = await startReceiver(t);
    if (!receiver) return t.skip('needs openssl');
    let asked = 0;
    // The first address is checked and used; what DNS says later does not count.
    const resolve = async () => (asked++ === 0 ? ['127.0.0.1'] : ['127.0.0.2']);
    assert.deepEqual(await send(RECEIVER_URL, { ...receiver.options, resolve }), { ok: true });
    assert.equal(asked, 1);
    assert.deepEqual(await send(RECEIVER_URL, { ...receiver.options, resolve }), {
      ok: false,
      reason: 'its address is not public',
      isAway: true,
    });
  });

  test('a port that does not speak TLS, and one that closes, are failures and nothing else', async (t) => {
    const server = createServer((socket) => socket.end('SSH-2.0-OpenSSH\r\n')).listen(0, '127.0.0.1');
    await once(server, 'listening');
    t.after(() => server.close());
    const { port } = server.address() as { port: number };
    const isAllowed = () => true;
    const options = { now: Date.now, resolve: async () => ['127.0.0.1'], isAllowed, port };
    assert.equal((await send('https://shop.example/', options)).ok, false);
  });

  const slow = {
    'a TLS handshake that nobody answers': () => undefined,
    'informational answers without end': (write: (text: string) => boolean) =>
      write('HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n'),
    'a header that drips': (write: (text: string) => boolean, n: number) =>
      write(n === 0 ? 'HTTP/1.1 204 No Content\r\n' : `x-${n}: y\r\n`),
  };
  for (const [what, answer] of Object.entries(slow))
    test(`${what}: the call ends at the time limit`, async (t) => {
      const isSilent = what.startsWith('a TLS');
      const raw = await rawReceiver(t, isSilent, (write) => {
        let n = 0;
        const timer = setInterval(() => answer(write, n++), 5);
        return () => clearInterval(timer);
      });
      if (!raw) return t.skip('needs openssl');
      const began = performance.now();
      assert.deepEqual(await send('https://localhost/hooks', { ...raw, timeoutMs: 400 }), {
        ok: false,
        reason: 'no answer within 400 ms',
        isAway: true,
      });
      assert.ok(performance.now() - began < 5_000);
    });

  test('headers of 64 kB are a failure, and cost no more', async (t) => {
    const raw = await rawReceiver(t, false, (write) => {
      write('HTTP/1.1 204 No Content\r\n');
      for (let i = 0; i < 64; i++) write(`x-${i}: ${'y'.repeat(1_000)}\r\n`);
      write('\r\n');
      return () => undefined;
    });
    if (!raw) return t.skip('needs openssl');
    const delivery = await send('https://localhost/hooks', raw);
    assert.match(delivery.ok ? '' : delivery.reason, /Header overflow/i);
  });

  test('this machine is called on one machine alone, and nothing else private with it', async (t) => {
    const { createServer: createHttp } = await import('node:http');
    let calls = 0;
    const server = createHttp((_, response) => void (calls++, response.writeHead(204).end())).listen(
      0,
      '127.0.0.1',
    );
    await once(server, 'listening');
    t.after(() => server.close());
    const { port } = server.address() as { port: number };
    const here = `http://127.0.0.1:${port}/hooks`;
    assert.deepEqual(await send(here, { now: Date.now, allowsLoopback: true }), { ok: true });
    assert.deepEqual(await send(here, { now: Date.now }), { ok: false, reason: 'only https is called' });
    assert.equal(calls, 1);
    for (const url of ['https://10.0.0.1/', 'https://169.254.169.254/', 'https://127.0.0.1.nip.io:99/'])
      assert.equal((await send(url, { ...NO_LOOKUP, allowsLoopback: true })).ok, false);
  });
});
