/** HTTPS, SQS and S3 through a proxy that sees no more than CONNECT, with a certificate of one's own, on each Node. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { readFile, symlink } from 'node:fs/promises';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { createServer as createSecureServer } from 'node:https';
import { type AddressInfo, connect, type Server, type Socket } from 'node:net';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { after, before, test } from 'node:test';
import { promisify } from 'node:util';
import { build } from 'esbuild';
import { childEnvironment } from '../support/environment.ts';
import { olderNode } from '../support/installed.ts';
import { temporaryFolder } from '../support/runner.ts';
import { ROOT } from '../support/start.ts';
import { makeCertificate } from '../support/tls.ts';

const cleanups: (() => unknown)[] = [];
let folder: string;
let files: ReturnType<typeof makeCertificate>;
let service: string;
let proxy: string;
const tunnels: string[] = [];
const asked: string[] = [];
/** The proxy's answer; undefined lets the request through. */
let refusal: string | undefined;

async function listening(server: Server): Promise<number> {
  const sockets = new Set<Socket>();
  server.on('connection', (socket) => {
    sockets.add(socket);
    socket.on('error', () => undefined);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  cleanups.push(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return (server.address() as AddressInfo).port;
}

async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const body = await text(request);
  const target = request.headers['x-amz-target'];
  asked.push(
    `${request.method} ${target?.toString() ?? (request.url ?? '').replace(/payloads.*/, 'payloads')}`,
  );
  if (target === undefined) return void response.end('{"predictions":["{value=[1]}"]}');
  const { Entries } = JSON.parse(body) as { Entries: { MessageBody: string }[] };
  const MD5OfMessageBody = createHash('md5')
    .update(Entries[0]?.MessageBody ?? '')
    .digest('hex');
  response.setHeader('content-type', 'application/x-amz-json-1.0');
  response.end(JSON.stringify({ Successful: [{ Id: '0', MD5OfMessageBody }] }));
}

before(async () => {
  folder = await temporaryFolder({ after: (cleanup) => cleanups.push(cleanup) }, 'cs-proxy-');
  files = makeCertificate(folder);
  if (!files) return;
  const [key, cert] = [await readFile(files.key), await readFile(files.certificate)];
  const port = await listening(createSecureServer({ key, cert }, (...both) => void answer(...both)));
  service = `https://localhost:${port}`;
  const server = createServer();
  server.on('connect', ({ url = '', headers }: IncomingMessage, client: Socket) => {
    tunnels.push(`${url.replace(/:\d+$/, '')} ${headers['proxy-authorization'] ?? ''}`);
    if (refusal) return void client.end(refusal);
    const there = connect(Number(url.split(':')[1]), '127.0.0.1', () => {
      client.write('HTTP/1.1 200 Connection Established\r\n\r\n');
      there.pipe(client).pipe(there);
    });
    there.on('error', () => client.destroy());
  });
  proxy = `127.0.0.1:${await listening(server)}`;
  await build({
    entryPoints: { program: 'test/sdk/proxy-program.ts' },
    absWorkingDir: ROOT,
    outdir: folder,
    outExtension: { '.js': '.mjs' },
    bundle: true,
    packages: 'external',
    splitting: true,
    platform: 'node',
    format: 'esm',
    target: 'node20.3',
  });
  await symlink(join(ROOT, 'node_modules'), join(folder, 'node_modules'));
});
after(async () => {
  for (const cleanup of cleanups.toReversed()) await cleanup();
});

async function run(node: string, variables: Readonly<Record<string, string>>): Promise<string[]> {
  tunnels.length = 0;
  asked.length = 0;
  const env = childEnvironment({
    AWS_ACCESS_KEY_ID: 'x',
    AWS_SECRET_ACCESS_KEY: 'x',
    NODE_EXTRA_CA_CERTS: files?.certificate ?? '',
    ...variables,
  });
  const { stdout } = await promisify(execFile)(node, [join(folder, 'program.mjs'), service], { env });
  return JSON.parse(stdout) as string[];
}

const REQUESTS = ['POST /predict', 'POST AmazonSQS.SendMessageBatch', 'PUT /bucket/payloads?x-id=PutObject'];
const DONE = ['{value=[1]}', 'a', 'b', '{value=[1]}', 'c'];

for (const which of ['this Node', 'an older Node']) {
  test(`HTTPS, SQS and S3 go through HTTPS_PROXY, and past it where NO_PROXY says so, on ${which}`, async (t) => {
    const node = which === 'this Node' ? process.execPath : await olderNode();
    if (!files || node === undefined) return t.skip('there is no openssl, or no older Node');
    assert.deepEqual(await run(node, { HTTPS_PROXY: `http://me:p%20w@${proxy}` }), DONE);
    assert.deepEqual(
      [...new Set(asked)].toSorted(),
      REQUESTS.map((one) => one.replace(/\?.*/, '')).toSorted(),
    );
    const secret = Buffer.from('me:p w').toString('base64');
    // One for each client, which keeps it.
    assert.deepEqual(tunnels, Array(3).fill(`localhost Basic ${secret}`));

    assert.deepEqual(
      await run(node, { HTTPS_PROXY: `http://${proxy}`, NO_PROXY: 'example.com,localhost' }),
      DONE,
    );
    assert.deepEqual(tunnels, []);
  });
}

test('a proxy that refuses, and one that is none, are named', async (t) => {
  if (!files) return t.skip('there is no openssl');
  refusal = 'HTTP/1.1 407 Proxy Authentication Required\r\n\r\n';
  const refused = await run(process.execPath, { HTTPS_PROXY: `http://${proxy}` });
  for (const one of refused)
    assert.match(one, /^queue_unavailable .*the proxy 127\.0\.0\.1:\d+ answered 407 to CONNECT/);
  refusal = undefined;
  const [other] = await run(process.execPath, { HTTPS_PROXY: 'socks5://127.0.0.1:9' });
  assert.match(other as string, /^bad_config HTTPS_PROXY: expected http:\/\/host:port/);
});
