import assert from 'node:assert/strict';
import { createHash, createHmac } from 'node:crypto';
import { test } from 'node:test';
import { accessRules } from '../../infra/template/redis-access.ts';
import { presign } from '../../lib/codecs/sigv4.ts';
import { connection as openConnection } from '../../lib/compose/results.ts';
import { Scope } from '../../lib/compose/scope.ts';
import { readEnvironment } from '../../lib/config/environment.ts';
import { RedisConnection, type SignIn } from '../../lib/redis/connection.ts';
import { cachePassword } from '../../lib/redis/iam.ts';
import { protectedRedis } from '../support/protected-redis.ts';
import { until } from '../support/until.ts';

const EXAMPLE = {
  accessKeyId: 'AKIAIOSFODNN7EXAMPLE',
  secretAccessKey: 'wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY',
};

test("a presigned address has the signature of AWS's published example", () => {
  // Amazon S3 API Reference, "Authenticating Requests: Using Query Parameters": GET /test.txt.
  const signed = presign({
    host: 'examplebucket.s3.amazonaws.com',
    path: '/test.txt',
    query: {},
    service: 's3',
    region: 'us-east-1',
    credentials: { ...EXAMPLE, sessionToken: undefined },
    now: Date.parse('2013-05-24T00:00:00Z'),
    lifeSeconds: 86_400,
    payloadDigest: 'UNSIGNED-PAYLOAD',
  });
  assert.equal(
    signed,
    'examplebucket.s3.amazonaws.com/test.txt?X-Amz-Algorithm=AWS4-HMAC-SHA256' +
      '&X-Amz-Credential=AKIAIOSFODNN7EXAMPLE%2F20130524%2Fus-east-1%2Fs3%2Faws4_request' +
      '&X-Amz-Date=20130524T000000Z&X-Amz-Expires=86400&X-Amz-SignedHeaders=host' +
      '&X-Amz-Signature=aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404',
  );
});

interface Signer {
  presign(request: object, options: object): Promise<{ query: Record<string, string> }>;
}
type SignerModule = { readonly SignatureV4: new (options: object) => Signer };

test("the password of a cache has the signature that AWS's own signer makes", async (t) => {
  // Inside the AWS SDK's tree, and no dependency of ours.
  const name = '@smithy/signature-v4';
  const found = (await import(name).catch(() => undefined)) as SignerModule | undefined;
  if (!found) return t.skip(`no ${name} in node_modules`);
  const credentials = { ...EXAMPLE, sessionToken: 'a+session/token=with!(signs)*' };
  const now = Date.parse('2026-11-21T16:00:00.000Z');
  const password = cachePassword(
    {
      cache: 'Results-Cache',
      isServerless: true,
      user: 'cluster-serving-0123',
      region: 'eu-central-1',
      credentials,
    },
    now,
  );
  class Sha256 {
    readonly #hash;
    constructor(secret?: string | Uint8Array) {
      this.#hash = secret === undefined ? createHash('sha256') : createHmac('sha256', secret);
    }
    update(data: string | Uint8Array) {
      this.#hash.update(data);
    }
    async digest() {
      return new Uint8Array(this.#hash.digest());
    }
  }
  const signer = new found.SignatureV4({
    service: 'elasticache',
    region: 'eu-central-1',
    credentials,
    sha256: Sha256,
  });
  const { query } = await signer.presign(
    {
      method: 'GET',
      protocol: 'http:',
      hostname: 'results-cache',
      path: '/',
      headers: { host: 'results-cache' },
      query: { Action: 'connect', ResourceType: 'ServerlessCache', User: 'cluster-serving-0123' },
    },
    { expiresIn: 900, signingDate: new Date(now) },
  );
  const ours = new URL(`http://${password}`);
  assert.equal(ours.host, 'results-cache');
  assert.deepEqual(Object.fromEntries(ours.searchParams), { ...query });
});

test('a function whose environment names a user signs in with the credentials of its role', () => {
  const variables = {
    CLUSTER_SERVING_REDIS_USER: 'someone',
    CLUSTER_SERVING_REDIS_CACHE: 'cache',
    AWS_REGION: 'us-east-1',
    AWS_ACCESS_KEY_ID: EXAMPLE.accessKeyId,
    AWS_SECRET_ACCESS_KEY: EXAMPLE.secretAccessKey,
    AWS_SESSION_TOKEN: 'token',
  };
  assert.deepEqual(readEnvironment(variables).redisSignIn, {
    user: 'someone',
    cache: 'cache',
    region: 'us-east-1',
    credentials: { ...EXAMPLE, sessionToken: 'token' },
  });
  assert.equal(readEnvironment({}).redisSignIn, undefined);
  const { CLUSTER_SERVING_REDIS_CACHE: _, ...without } = variables;
  assert.throws(() => readEnvironment(without).redisSignIn, { message: /CLUSTER_SERVING_REDIS_CACHE/ });
});

test('a connection presents the password that its environment signs', async (t) => {
  const server = await protectedRedis(t);
  if (!server) return t.skip('no redis-server on this machine');
  const environment = readEnvironment({
    CLUSTER_SERVING_REDIS_URL: server.url,
    CLUSTER_SERVING_REDIS_USER: 'functions',
    CLUSTER_SERVING_REDIS_CACHE: 'cache',
    AWS_REGION: 'us-east-1',
    AWS_ACCESS_KEY_ID: EXAMPLE.accessKeyId,
    AWS_SECRET_ACCESS_KEY: EXAMPLE.secretAccessKey,
  });
  t.mock.timers.enable({ apis: ['Date'], now: Date.parse('2026-11-21T16:00:00Z') });
  const { redisSignIn } = environment;
  assert.ok(redisSignIn && 'cache' in redisSignIn);
  const password = cachePassword({ ...redisSignIn, isServerless: false }, Date.now());
  await server.setUser('functions', accessRules('job'), password);
  const connection = new Scope(environment).get(openConnection);
  t.after(() => connection.close());
  assert.equal(await connection.use((redis) => redis.ping(), true), 'PONG');
  const outsider = new RedisConnection(server.url);
  t.after(() => outsider.close());
  await assert.rejects(
    outsider.use((redis) => redis.ping(), true),
    { code: 'results_unavailable' },
  );
});

test('a connection that was lost is made anew with a new password, and so is the one that subscribes', async (t) => {
  const server = await protectedRedis(t);
  if (!server) return t.skip('no redis-server on this machine');
  let made = 0;
  let password = '';
  const signIn: SignIn = { username: 'functions', password: () => (made++, password) };
  const renew = async () => {
    password = `password-${made}-${process.hrtime.bigint()}`;
    await server.setUser('functions', accessRules('job'), password);
  };
  await renew();
  const connection = new RedisConnection(server.url, { signIn });
  t.after(() => connection.close());
  assert.equal(await connection.use((redis) => redis.ping(), true), 'PONG');
  const heard: string[] = [];
  const subscriber = await connection.subscriber((channel) => heard.push(channel));
  t.after(() => subscriber.disconnect());
  await subscriber.subscribe('cluster-serving-done_job:u');
  const before = made;
  await renew();
  await server.admin.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
  await server.admin.call('CLIENT', 'KILL', 'TYPE', 'pubsub');
  assert.equal(await connection.use((redis) => redis.ping(), true), 'PONG');
  await until(async () => {
    await server.admin.publish('cluster-serving-done_job:u', '');
    return heard.length > 0;
  });
  assert.ok(made >= before + 2, `${made} passwords`);
});
