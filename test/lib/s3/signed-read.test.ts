import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { createServer, type IncomingMessage, type RequestListener } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { getCACertificates, setDefaultCACertificates, type TLSSocket } from 'node:tls';
import { openS3 } from '../../../lib/s3/client.ts';
import { deferredS3, getRange, getText, putText, readRange } from '../../../lib/s3/objects.ts';
import { startAws } from '../../../local/aws/aws.ts';
import { makeCertificate } from '../../support/tls.ts';

const KEYS = { accessKeyId: 'key', secretAccessKey: 'secret', sessionToken: undefined };
const ADDRESS = { bucket: 'models', key: 'models/job/current.json' };
type Range = Parameters<typeof getRange>[2];
const RANGE: Range = { start: 2, end: 6, etag: '"tag"' };

/** Reads from a server, and says whether the SDK was asked for. */
async function readFrom(answer: RequestListener, address = ADDRESS, range: Range = RANGE) {
  const server = createServer(answer).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const endpoint = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  let asked = false;
  const s3 = deferredS3({
    load: async () => {
      asked = true;
      throw new Error('the SDK was asked');
    },
    readPlace: () => ({ region: 'local', credentials: KEYS, endpoint }),
  });
  try {
    const read = await getRange(s3, address, range).catch((error: Error) => error.message);
    return { asked, read };
  } finally {
    server.closeAllConnections();
    server.close();
  }
}

const noSdk = async () => assert.fail('the SDK was loaded');

test('parts of an object are read without the SDK, by requests that are signed', async () => {
  const log = { info: () => undefined, warn: () => undefined, error: () => undefined };
  const aws = await startAws({ port: 0, log });
  try {
    await aws.createBucket(ADDRESS.bucket);
    const sdk = openS3({ endpoint: aws.url, region: aws.region, credentials: aws.credentials });
    await putText(sdk, ADDRESS, 'a text');
    const credentials = { ...aws.credentials, sessionToken: undefined };
    const place = { region: aws.region, credentials, endpoint: aws.url };
    const s3 = deferredS3({ load: noSdk, readPlace: () => place });
    assert.equal(await getText(s3, ADDRESS), 'a text');
    const { bytes, etag } = await getRange(s3, ADDRESS, { start: 2, end: 6 });
    assert.equal(Buffer.from(bytes).toString(), 'text');
    assert.deepEqual(await getRange(s3, ADDRESS, { start: 2, end: 6, etag }), { bytes, etag });

    // Refused, missing and replaced objects are reported with the SDK's own error.
    const asked = deferredS3({ load: async () => sdk, readPlace: () => place });
    await assert.rejects(getRange(asked, ADDRESS, { start: 0, end: 4, etag: '"other"' }), {
      name: 'PreconditionFailed',
    });
    assert.equal(await getText(asked, { ...ADDRESS, key: 'models/none.json' }), undefined);
    const unknown = { ...place, credentials: KEYS };
    const repaired = deferredS3({ load: async () => sdk, readPlace: () => unknown });
    assert.equal(await getText(repaired, ADDRESS), 'a text');
    sdk.destroy();
  } finally {
    await aws.close();
  }
});

test('a request names the range, the version and the session, and is signed', async () => {
  let headers = {};
  const { asked, read } = await readFrom((request, response) => {
    headers = { ...request.headers, url: request.url };
    response.writeHead(206, { etag: '"tag"', 'content-length': 4 }).end('text');
  });
  assert.deepEqual({ asked, read }, { asked: false, read: { bytes: Buffer.from('text'), etag: '"tag"' } });
  const { range, 'if-match': version, url, authorization } = headers as Record<string, string>;
  assert.deepEqual([range, version, url], ['bytes=2-5', '"tag"', '/models/models/job/current.json']);
  assert.match(
    authorization ?? '',
    /^AWS4-HMAC-SHA256 .*\/local\/s3\/.*SignedHeaders=host;if-match;range;x-amz-c/,
  );
});

const ANSWERS: Readonly<Record<string, RequestListener>> = {
  'a redirect to another region': (_, response) => response.writeHead(301).end(),
  'a refusal': (_, response) => response.writeHead(403).end('<Error/>'),
  'an error of S3': (_, response) => response.writeHead(503).end(),
  'the whole object instead of its range': (_, response) => response.writeHead(200).end('a te'),
  'more than the range': (_, response) => response.writeHead(206, { 'content-length': 5 }).end('text!'),
  'more than was announced': (_, response) => {
    response.writeHead(206, { 'content-length': 3 });
    response.socket?.end('HTTP/1.1 206 Partial Content\r\ncontent-length: 3\r\n\r\ntext');
  },
  'an answer of chunks': (_, response) => response.writeHead(206).end('text'),
  'chunks with a length': (_, response) =>
    response.socket?.end('HTTP/1.1 206 OK\r\ntransfer-encoding: chunked\r\ncontent-length: 4\r\n\r\ntext'),
  'two lengths': (_, response) =>
    response.socket?.end('HTTP/1.1 206 OK\r\ncontent-length: 4\r\nContent-Length: 3\r\n\r\ntext'),
  'headers without an end': (_, response) =>
    response.socket?.end(`HTTP/1.1 206 OK\r\ncontent-length: 4\r\nx: ${'x'.repeat(20_000)}`),
  'what is not HTTP': (_, response) => response.socket?.end('SSH-2.0-OpenSSH\r\n\r\n'),
  'a body that breaks off': (_, response) => {
    response.writeHead(206, { 'content-length': 4 }).write('te', () => response.destroy());
  },
  'a broken connection': (request) => request.destroy(),
};

for (const [what, answer] of Object.entries(ANSWERS)) {
  test(`after ${what} the SDK is asked`, async () => {
    assert.deepEqual(await readFrom(answer), { asked: true, read: 'the SDK was asked' });
  });
}

/** A server that sends half of a body. */
async function withHalf(work: (endpoint: string) => Promise<void>) {
  const server = createServer((_, response) => {
    response.writeHead(206, { 'content-length': 4 }).write('te', () => response.destroy());
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  await work(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
  server.closeAllConnections();
  server.close();
}

test('what arrived before a body broke off is not followed by what the SDK read', async () => {
  const sdk = {
    send: async () => ({ ETag: '"tag"', Body: [Buffer.from('text')] }),
  };
  const got: string[] = [];
  const writer = {
    restart: () => void got.splice(0),
    write: (bytes: Uint8Array) => void got.push(String(bytes)),
  };
  await withHalf(async (endpoint) => {
    const readPlace = () => ({ region: 'local', credentials: KEYS, endpoint });
    const s3 = deferredS3({ load: async () => sdk as never, readPlace });
    assert.equal(await readRange(s3, ADDRESS, RANGE, writer), '"tag"');
  });
  assert.deepEqual(got, ['text']);
});

test('an error of what takes the bytes is thrown, and the SDK is not asked', async () => {
  const full = Object.assign(new Error('no space left on device'), { code: 'ENOSPC' });
  const fail = () => {
    throw full;
  };
  await withHalf(async (endpoint) => {
    const s3 = deferredS3({
      load: noSdk,
      readPlace: () => ({ region: 'local', credentials: KEYS, endpoint }),
    });
    await assert.rejects(readRange(s3, ADDRESS, RANGE, { restart: () => undefined, write: fail }), full);
    await assert.rejects(readRange(s3, ADDRESS, RANGE, { restart: fail, write: () => undefined }), full);
  });
});

test('a name that would have to be escaped is left to the SDK', async () => {
  const answer: RequestListener = (_, response) => response.writeHead(206).end('text');
  for (const address of [
    { ...ADDRESS, key: 'models/job/a b.onnx' },
    { ...ADDRESS, bucket: 'with.dots' },
  ]) {
    assert.deepEqual(await readFrom(answer, address), { asked: true, read: 'the SDK was asked' });
  }
});

test('a value that would be another header is left to the SDK', async () => {
  const server = (_: unknown, response: Parameters<RequestListener>[1]) => response.end();
  assert.deepEqual(await readFrom(server, ADDRESS, { ...RANGE, etag: '"tag"\r\nrange: bytes=0-3' }), {
    asked: true,
    read: 'the SDK was asked',
  });
});

test('an answer that comes byte by byte is read', async () => {
  const bytes = 'HTTP/1.1 206 Partial Content\r\nETag:"tag"\r\nContent-Length:  4 \r\n\r\ntext';
  const send = async ({ socket }: IncomingMessage) => {
    socket.setNoDelay(true);
    for (const byte of bytes) {
      socket.write(byte);
      await setImmediate();
    }
  };
  const { read } = await readFrom((request) => void send(request));
  assert.deepEqual(read, { bytes: Buffer.from('text'), etag: '"tag"' });
});

test('more bytes than a buffer holds arrive in their order', async () => {
  const sent = randomBytes(1_000_000);
  const { read } = await readFrom(
    (_, response) => response.writeHead(206, { 'content-length': sent.length }).end(sent),
    ADDRESS,
    { start: 0, end: sent.length },
  );
  assert.ok(typeof read === 'object' && sent.equals(read.bytes));
});

test('a connection that S3 ends, or that was kept for long, takes no second request', async (t) => {
  const sockets = new Set();
  let connection = 'close';
  const server = createServer(({ socket }, response) => {
    sockets.add(socket);
    response.writeHead(206, { 'content-length': 4, connection }).end('text');
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const endpoint = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const s3 = deferredS3({ load: noSdk, readPlace: () => ({ region: 'local', credentials: KEYS, endpoint }) });
  try {
    await getRange(s3, ADDRESS, RANGE);
    connection = 'keep-alive';
    await getRange(s3, ADDRESS, RANGE);
    assert.equal(sockets.size, 2);
    await getRange(s3, ADDRESS, RANGE);
    assert.equal(sockets.size, 2);
    // As after a freeze.
    t.mock.timers.enable({ apis: ['Date'], now: Date.now() + 11_000 });
    await getRange(s3, ADDRESS, RANGE);
    assert.equal(sockets.size, 3);
  } finally {
    server.closeAllConnections();
    server.close();
  }
});

test('a connection that S3 closed while it was kept is replaced by a new one', async () => {
  let connections = 0;
  let answered = 0;
  const server = createServer((_, response) => {
    answered += 1;
    response.writeHead(206, { 'content-length': 4 }).end('text');
  });
  // Closes each connection at its second request, unanswered.
  server.on('connection', (socket) => {
    connections += 1;
    let requests = 0;
    socket.on('data', () => {
      requests += 1;
      if (requests > 1) socket.destroy();
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const endpoint = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const s3 = deferredS3({ load: noSdk, readPlace: () => ({ region: 'local', credentials: KEYS, endpoint }) });
  try {
    for (let read = 0; read < 3; read++) {
      const { bytes } = await getRange(s3, ADDRESS, RANGE);
      assert.equal(Buffer.from(bytes).toString(), 'text');
    }
    assert.ok(connections > 1, `${connections} connections`);
    assert.ok(answered >= 3);
  } finally {
    server.closeAllConnections();
    server.close();
  }
});

test('a refusal on a connection that was kept is not asked for again', async () => {
  let requests = 0;
  const server = createServer((_, response) => {
    if (++requests === 1) response.writeHead(206, { 'content-length': 4 }).end('text');
    else response.writeHead(404).end();
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const endpoint = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const load = async () => Promise.reject(new Error('the SDK was asked'));
  const s3 = deferredS3({ load, readPlace: () => ({ region: 'local', credentials: KEYS, endpoint }) });
  try {
    await getRange(s3, ADDRESS, RANGE);
    await assert.rejects(getRange(s3, ADDRESS, RANGE), /SDK was asked/);
    assert.equal(requests, 2);
  } finally {
    server.closeAllConnections();
    server.close();
  }
});

test('a read ends with its signal', async () => {
  const server = createServer(() => undefined).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const endpoint = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const s3 = deferredS3({ load: noSdk, readPlace: () => ({ region: 'local', credentials: KEYS, endpoint }) });
  try {
    const reason = new Error('stopped');
    const controller = new AbortController();
    server.once('request', () => controller.abort(reason));
    await assert.rejects(getRange(s3, ADDRESS, RANGE, { signal: controller.signal }), reason);
  } finally {
    server.closeAllConnections();
    server.close();
  }
});

test('over TLS only a server with a certificate for its name is read from', async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'signed-read-'));
  t.after(() => rm(folder, { recursive: true }));
  const files = makeCertificate(folder);
  if (!files) return t.skip('needs the openssl command');
  const [cert, key] = await Promise.all([readFile(files.certificate), readFile(files.key)]);
  const resumed: boolean[] = [];
  const server = createTlsServer({ cert, key }, ({ socket }, response) => {
    resumed.push((socket as TLSSocket).isSessionReused());
    response.writeHead(206, { 'content-length': 4, connection: 'close' }).end('text');
  }).listen(0);
  await once(server, 'listening');
  t.after(() => server.close());
  const { port } = server.address() as AddressInfo;
  const readBy = (host: string) => {
    const readPlace = () => ({ region: 'local', credentials: KEYS, endpoint: `https://${host}:${port}` });
    const load = async () => Promise.reject(new Error('the SDK was asked'));
    return getText(deferredS3({ load, readPlace }), ADDRESS);
  };
  const usual = getCACertificates('default');
  await assert.rejects(readBy('localhost'), /SDK was asked/);
  setDefaultCACertificates([...usual, String(cert)]);
  t.after(() => setDefaultCACertificates(usual));
  assert.equal(await readBy('localhost'), 'text');
  // Its certificate names localhost alone.
  await assert.rejects(readBy('127.0.0.1'), /SDK was asked/);
  assert.equal(await readBy('localhost'), 'text');
  assert.deepEqual(resumed, [false, true]);
});
