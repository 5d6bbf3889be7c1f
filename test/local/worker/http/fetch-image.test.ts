/** The addresses that POST /encode_img_url may reach, with real TLS servers on this machine. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import type { RequestListener } from 'node:http';
import { createServer, type Server } from 'node:https';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, test } from 'node:test';
import { isPublicAddress } from '../../../../lib/notify/public-address.ts';
import { imageFetcher } from '../../../../local/worker/fetch-image.ts';
import { until } from '../../../support/until.ts';

const folder = mkdtempSync(join(tmpdir(), 'cs-images-'));
after(() => rmSync(folder, { recursive: true }));
const [key, certificate] = [join(folder, 'key.pem'), join(folder, 'certificate.pem')];
const REQUEST =
  'req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=images.test -addext subjectAltName=DNS:images.test';
const made = spawnSync('openssl', [...REQUEST.split(' '), '-keyout', key, '-out', certificate]);
const skip = made.status === 0 ? false : 'needs openssl';

/** A server of images.test, and how to fetch from it although its address is not public. */
async function imageServer(listener: RequestListener) {
  const cert = await readFile(certificate, 'utf8');
  const server: Server = createServer({ key: await readFile(key), cert }, listener).listen(0, '127.0.0.1');
  await once(server, 'listening');
  after(() => server.close().closeAllConnections());
  const { port } = server.address() as AddressInfo;
  return {
    url: `https://images.test:${port}/a.png`,
    options: {
      allowedHosts: [`images.test:${port}`],
      resolve: async () => ['127.0.0.1'],
      isAllowed: (address: string) => address === '127.0.0.1',
      ca: cert,
    },
  };
}

const refused = (code: string, text: RegExp) => (error: Error & { code: string }) => {
  assert.equal(error.code, code, error.message);
  assert.match(error.message, text);
  return true;
};

test('only public addresses are public', () => {
  for (const address of [
    '8.8.8.8',
    '1.1.1.1',
    '172.15.0.1',
    '172.32.0.1',
    '2606:4700::1111',
    '2a00:1450::1',
  ]) {
    assert.ok(isPublicAddress(address), address);
  }
  const special = `0.0.0.0 10.1.2.3 100.64.0.1 127.0.0.1 169.254.169.254 172.16.0.1 172.31.255.255 192.168.1.1
    198.18.0.1 224.0.0.1 240.0.0.1 255.255.255.255 :: ::1 ::ffff:8.8.8.8 ::ffff:169.254.169.254 64:ff9b::7f00:1 fc00::1
    fe80::1 ff02::1 2001::1 2001:db8::1 2002:7f00:1:: 3fff::1 fd00:ec2::254 localhost 127.1`;
  for (const address of ['', ...special.split(/\s+/)]) {
    assert.ok(!isPublicAddress(address), address);
  }
});

test('an address is refused by its scheme, its host or its password before a name is looked up', async () => {
  const fetchImage = imageFetcher({
    allowedHosts: ['a.test', '169.254.169.254', '[::1]'],
    resolve: () => assert.fail('looked up'),
  });
  for (const [url, why] of [
    ['http://a.test/', /only https/],
    ['file:///etc/passwd', /only https/],
    ['data:image/png;base64,AA==', /only https/],
    ['https://b.test/', /not allowed/],
    ['https://a.test:8443/', /not allowed/],
    ['https://a.test.b.test/', /not allowed/],
    ['https://a.test@b.test/', /password/],
    ['https://user:word@a.test/', /password/],
    ['https://169.254.169.254/latest/meta-data', /not public/],
    ['https://0xa9fea9fe/', /not public/],
    ['https://[::1]/', /not public/],
  ] as const) {
    await assert.rejects(fetchImage(url), refused('forbidden', why), url);
  }
  await assert.rejects(fetchImage('no address'), refused('bad_request', /https/));
});

test('a name with an address that is not public is refused, even if its other addresses are public', async () => {
  for (const addresses of [['169.254.169.254'], ['8.8.8.8', '127.0.0.1'], ['8.8.8.8', '::1'], []]) {
    const fetchImage = imageFetcher({ allowedHosts: ['a.test'], resolve: async () => addresses });
    // More than may be fetched at the same time: a refused one takes no place.
    for (let i = 0; i < 17; i++)
      await assert.rejects(fetchImage('https://a.test/'), refused('forbidden', /not public/));
  }
});

describe('a server of images', { skip }, () => {
  test('an image comes from the address that the name had when it was checked', async () => {
    let lookups = 0;
    let asked: string | undefined;
    const { url, options } = await imageServer((request, response) => {
      asked = `${request.headers.host} ${request.url}`;
      response.end('image');
    });
    // A name that rebinds: to look it up again would lead elsewhere.
    const resolve = async () => (lookups++ === 0 ? ['127.0.0.1'] : ['127.0.0.2']);
    const bytes = await imageFetcher({ ...options, resolve })(url);
    assert.deepEqual([Buffer.from(bytes).toString(), lookups], ['image', 1]);
    assert.equal(asked, `${new URL(url).host} /a.png`);
  });

  test('a redirect is not followed', async () => {
    let requests = 0;
    const { url, options } = await imageServer((_, response) => {
      requests++;
      response.writeHead(302, { location: '/b.png' }).end();
    });
    await assert.rejects(imageFetcher(options)(url), refused('forbidden', /redirect/));
    assert.equal(requests, 1);
  });

  test('an image over 5 MiB is refused, announced or not', async () => {
    const piece = Buffer.alloc(1024 * 1024);
    const { url, options } = await imageServer((request, response) => {
      if (request.url === '/announced') response.setHeader('content-length', 6 * piece.length);
      for (let i = 0; i < 6; i++) response.write(piece);
      response.end();
    });
    const fetchImage = imageFetcher(options);
    for (const path of ['/announced', '/chunked']) {
      await assert.rejects(fetchImage(new URL(path, url).href), refused('too_large', /5242880/));
    }
  });

  test('a server that does not answer in time is a timeout, and its connection ends', async () => {
    let closed = false;
    const { url, options } = await imageServer((request, response) => {
      request.socket.on('close', () => {
        closed = true;
      });
      response.writeHead(200).write('a');
    });
    await assert.rejects(imageFetcher({ ...options, timeoutMs: 300 })(url), refused('timeout', /300 ms/));
    await until(() => closed, 10_000);
  });

  test('of more than 16 fetches at once the last is refused', async () => {
    const waiting: (() => void)[] = [];
    const { url, options } = await imageServer((_, response) => void waiting.push(() => response.end('a')));
    const fetchImage = imageFetcher(options);
    const running = Array.from({ length: 16 }, () => fetchImage(url));
    await assert.rejects(fetchImage(url), refused('rate_limited', /16/));
    await until(() => waiting.length === 16, 10_000);
    for (const answer of waiting) answer();
    await Promise.all(running);
  });

  test('an answer other than 200, a compressed one and another certificate are refused', async () => {
    const { url, options } = await imageServer((request, response) => {
      if (request.url === '/gzip') response.setHeader('content-encoding', 'gzip');
      response.statusCode = request.url === '/gzip' ? 200 : 404;
      response.end();
    });
    const fetchImage = imageFetcher(options);
    await assert.rejects(fetchImage(url), refused('bad_request', /404/));
    await assert.rejects(fetchImage(new URL('/gzip', url).href), refused('bad_request', /compresses/));
    const { ca: _, ...withoutCa } = options;
    await assert.rejects(imageFetcher(withoutCa)(url), refused('bad_request', /cannot be reached/));
  });
});
