/** OutputQueue's error about a Redis that does not answer: the cause, and never a password. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer as createHttp } from 'node:http';
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import { type TestContext, test } from 'node:test';
import { startRedis } from '../../local/redis/start.ts';
import { OutputQueue } from '../../sdk/index.ts';
import { freePort } from '../support/free-port.ts';
import { protectedRedis } from '../support/protected-redis.ts';
import { temporaryFolder } from '../support/runner.ts';
import { startTlsProxy } from '../support/tls.ts';

async function listen(t: TestContext, server: Server): Promise<string> {
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => server.close());
  return `127.0.0.1:${(server.address() as AddressInfo).port}`;
}

async function errorOf(t: TestContext, url: string): Promise<string> {
  const queue = new OutputQueue({ url });
  t.after(() => queue.close());
  let message = '';
  await assert.rejects(queue.query('a'), (error: Error & { code: string }) => {
    message = error.message;
    return error.code === 'results_unavailable';
  });
  assert.doesNotMatch(message, /sesame/);
  return message;
}

test('a password that is missing or wrong is named', async (t) => {
  const redis = await protectedRedis(t);
  if (!redis) return t.skip('needs redis-server');
  await redis.admin.acl('SETUSER', 'default', 'reset', 'on', '>right', '~*', '+@all');
  const { host } = new URL(redis.url);
  assert.match(
    await errorOf(t, redis.url),
    /NOAUTH: it asks for a password, as in redis:\/\/user:password@host:port/,
  );
  for (const user of ['', 'somebody'])
    assert.match(
      await errorOf(t, `redis://${user}:sesame@${host}`),
      /WRONGPASS: it refuses the user or the password/,
    );
  const queue = new OutputQueue({ url: `redis://:right@${host}` });
  t.after(() => queue.close());
  assert.equal(await queue.query('a'), undefined);
});

test('a port of another service, of none, and one that hangs up are told apart', async (t) => {
  const http = await listen(
    t,
    createHttp((_, response) => response.end('hello')),
  );
  assert.match(
    await errorOf(t, `redis://${http}`),
    /not one of Redis: another service \(HTTP\?\) has this port/,
  );
  assert.match(await errorOf(t, `redis://:sesame@${http}`), /not one of Redis/);
  const hangsUp = (socket: Socket) => socket.on('error', () => undefined).end();
  assert.match(
    await errorOf(t, `redis://${await listen(t, createServer(hangsUp))}`),
    /it ended the connection; if it expects TLS, write rediss:\/\/$/,
  );
  assert.match(
    await errorOf(t, `redis://127.0.0.1:${await freePort()}`),
    /nothing listens there \(connect ECONNREFUSED/,
  );
  assert.match(
    await errorOf(t, 'redis://none.invalid:6379'),
    /the host is unknown \(getaddrinfo E\w+ none\.invalid\)$/,
  );
});

test('TLS where none is spoken, and none where it is expected, are named', async (t) => {
  const redis = await startRedis({
    dataDir: await temporaryFolder(t),
    port: 0,
    preferEmbedded: true,
    log: () => undefined,
  });
  t.after(() => redis.close());
  const { port } = new URL(redis.url);
  assert.match(
    await errorOf(t, `rediss://:sesame@127.0.0.1:${port}`),
    /it does not speak TLS: write redis:\/\/$/,
  );
  const silent = await listen(
    t,
    createServer(() => undefined),
  );
  assert.match(
    await errorOf(t, `rediss://${silent}`),
    /no answer in time.*; if it does not speak TLS, write redis:\/\/$/,
  );
  const proxy = await startTlsProxy(Number(port), await temporaryFolder(t));
  if (!proxy) return t.skip('needs openssl');
  t.after(() => proxy.close());
  assert.match(
    await errorOf(t, `redis://127.0.0.1:${proxy.port}`),
    /if it expects TLS, write rediss:\/\/$|or it wants TLS/,
  );
});
