import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type TestContext, test } from 'node:test';
import { Redis } from 'ioredis';
import { signedHeaders } from '../../lib/codecs/sigv4.ts';
import { connection as openConnection } from '../../lib/compose/results.ts';
import { Scope } from '../../lib/compose/scope.ts';
import { readEnvironment } from '../../lib/config/environment.ts';
import { CachedSecret, readParameter } from '../../lib/redis/secret.ts';
import { startRedis } from '../../local/redis/start.ts';
import { temporaryFolder } from '../support/runner.ts';

test("a signed POST has the signature of AWS's published test suite", () => {
  // "post-vanilla" of the Signature Version 4 test suite.
  const headers = signedHeaders({
    method: 'POST',
    path: '/',
    host: 'example.amazonaws.com',
    service: 'service',
    region: 'us-east-1',
    credentials: {
      accessKeyId: 'AKIDEXAMPLE',
      secretAccessKey: 'wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY',
      sessionToken: undefined,
    },
    now: Date.parse('2015-08-30T12:36:00Z'),
    headers: {},
    body: '',
  });
  assert.deepEqual(headers, {
    'x-amz-date': '20150830T123600Z',
    authorization:
      'AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, SignedHeaders=host;x-amz-date, ' +
      'Signature=5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b',
  });
});

const CREDENTIALS = { accessKeyId: 'AKID', secretAccessKey: 'key', sessionToken: 'token' };

type Answer = (request: IncomingMessage, body: string, response: ServerResponse) => void;

/** Stands for Systems Manager. */
async function systemsManager(
  t: TestContext,
  answer: Answer,
): Promise<{ endpoint: string; asked: string[] }> {
  const asked: string[] = [];
  const server = createServer((request, response) => {
    let body = '';
    request.on('data', (chunk) => (body += String(chunk)));
    request.on('end', () => {
      asked.push(body);
      answer(request, body, response);
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  return { endpoint: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, asked };
}

const value = (text: string): Answer => {
  return (_request, _body, response) => response.end(JSON.stringify({ Parameter: { Value: text } }));
};

function secretAt(endpoint: string) {
  return { parameter: '/job/redis', region: 'eu-central-1', credentials: CREDENTIALS, endpoint };
}

test('a parameter is asked for as Systems Manager documents it', async (t) => {
  const { endpoint, asked } = await systemsManager(t, (request, body, response) => {
    assert.equal(request.method, 'POST');
    assert.equal(request.headers['x-amz-target'], 'AmazonSSM.GetParameter');
    assert.equal(request.headers['content-type'], 'application/x-amz-json-1.1');
    assert.equal(request.headers['x-amz-security-token'], 'token');
    const scope = 'Credential=AKID/\\d{8}/eu-central-1/ssm/aws4_request';
    const names = 'SignedHeaders=content-type;host;x-amz-date;x-amz-security-token;x-amz-target';
    assert.match(
      String(request.headers.authorization),
      new RegExp(`${scope}, ${names}, Signature=[0-9a-f]{64}$`),
    );
    value('secret')(request, body, response);
  });
  assert.equal(await readParameter(secretAt(endpoint)), 'secret');
  assert.deepEqual(
    asked.map((body) => JSON.parse(body)),
    [{ Name: '/job/redis', WithDecryption: true }],
  );
});

test('a refusal of Systems Manager is passed on as it gives it, and is not asked again', async (t) => {
  const { endpoint, asked } = await systemsManager(t, (_request, _body, response) => {
    response.statusCode = 400;
    response.end(JSON.stringify({ __type: 'com.amazonaws.ssm#ParameterNotFound', message: 'none such' }));
  });
  await assert.rejects(readParameter(secretAt(endpoint)), {
    code: 'results_unavailable',
    message: 'the password of Redis, parameter /job/redis of Systems Manager: ParameterNotFound: none such',
  });
  assert.equal(asked.length, 1);
});

test('a broken answer is asked for once more, then refused', async (t) => {
  for (const [answer, reason] of [
    [(_q, _b, response) => response.writeHead(503).end('<html>'), /status 503/],
    [(_q, _b, response) => response.destroy(), /socket hang up|ECONNRESET/],
    [(_q, _b, response) => response.end('x'.repeat(100_000)), /an answer of over 65536 bytes/],
  ] as readonly (readonly [Answer, RegExp])[]) {
    const { endpoint, asked } = await systemsManager(t, answer);
    await assert.rejects(readParameter(secretAt(endpoint)), { code: 'results_unavailable', message: reason });
    assert.equal(asked.length, 2);
  }
  const strange = await systemsManager(t, (_q, _b, response) => response.end('{"Parameter":{"Value":7}}'));
  await assert.rejects(readParameter(secretAt(strange.endpoint)), { message: /status 200/ });
});

test('a secret is read once, again when it failed, and again when it may have changed and is old', async () => {
  const values: (string | Error)[] = [new Error('not yet'), 'one', 'two'];
  let readings = 0;
  let now = 0;
  const secret = new CachedSecret(
    async () => {
      const next = values[readings++];
      if (typeof next === 'string') return next;
      throw next;
    },
    () => now,
  );
  await assert.rejects(secret.get(), { message: 'not yet' });
  assert.equal(await secret.get(), 'one');
  now = 4_999;
  assert.equal(await secret.getChanged(), 'one');
  now = 5_000;
  assert.equal(await secret.get(), 'one');
  assert.equal(await secret.getChanged(), 'two');
  assert.equal(readings, 3);
});

test('a function signs in with the password of a parameter, and after a change with the new one', async (t) => {
  const server = await startRedis({ dataDir: await temporaryFolder(t), port: 0, log: () => undefined });
  t.after(() => server.close());
  if (server.kind === 'embedded') return t.skip('no redis-server on this machine');
  const admin = new Redis(server.url);
  t.after(() => admin.disconnect());
  await admin.acl('SETUSER', 'admin', 'on', '>admin', '~*', '&*', '+@all');
  await admin.auth('admin', 'admin');
  let password = 'first';
  const change = (to: string) => {
    password = to;
    return admin.acl('SETUSER', 'default', 'resetpass', `>${to}`);
  };
  await change('first');
  const { endpoint, asked } = await systemsManager(t, (request, body, response) =>
    value(password)(request, body, response),
  );
  const environment = readEnvironment({
    CLUSTER_SERVING_REDIS_URL: server.url,
    CLUSTER_SERVING_REDIS_PASSWORD_PARAMETER: '/job/redis',
    AWS_REGION: 'us-east-1',
    AWS_ACCESS_KEY_ID: 'AKID',
    AWS_SECRET_ACCESS_KEY: 'key',
    AWS_ENDPOINT_URL_SSM: endpoint,
  });
  t.mock.timers.enable({ apis: ['Date'], now: Date.now() });
  const connection = new Scope(environment).get(openConnection);
  t.after(() => connection.close());
  assert.equal(await connection.use((redis) => redis.ping(), true), 'PONG');
  await admin.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
  assert.equal(await connection.use((redis) => redis.ping(), true), 'PONG');
  assert.equal(asked.length, 1);
  await change('second');
  await admin.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
  t.mock.timers.tick(5_000);
  assert.equal(await connection.use((redis) => redis.ping(), true), 'PONG');
  assert.equal(asked.length, 2);
});
