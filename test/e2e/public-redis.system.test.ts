/** A Redis on the internet as `redis=public` makes one: a cluster with TLS, whose user signs in with tokens of IAM. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { accessRules } from '../../infra/template/redis-access.ts';
import { openRedis } from '../../lib/redis/cluster/connection.ts';
import { cachePassword } from '../../lib/redis/iam.ts';
import { ResultStore } from '../../lib/redis/results.ts';
import { startAws } from '../../local/aws/aws.ts';
import { InputQueue, OutputQueue } from '../../sdk/index.ts';
import { success } from '../lib/results/conformance/records.ts';
import { useAws } from '../support/environment.ts';
import { startRedisCluster } from '../support/redis-cluster.ts';

const QUIET = { info: () => undefined, warn: () => undefined, error: () => undefined };
const [JOB, USER, CACHE, REGION] = [
  'job',
  'cluster-serving-0123',
  'cluster-serving-0123-public',
  'eu-west-1',
];

test('a client signs in from anywhere, announces and reads, and another key or job is refused', async (t) => {
  const cluster = await startRedisCluster();
  if (!cluster) return t.skip('no redis-server or no openssl on this machine');
  t.after(() => cluster.close());
  const aws = await startAws({ port: 0, log: QUIET });
  t.after(() => aws.close());
  useAws(aws.environment);
  const credentials = {
    accessKeyId: aws.environment['AWS_ACCESS_KEY_ID'] ?? '',
    secretAccessKey: aws.environment['AWS_SECRET_ACCESS_KEY'] ?? '',
    sessionToken: undefined,
  };
  // A token is of one second: the cluster knows that of this one.
  const now = Math.floor(Date.now() / 1000) * 1000;
  t.mock.timers.enable({ apis: ['Date'], now });
  const token = cachePassword(
    { cache: CACHE, isServerless: true, user: USER, region: REGION, credentials },
    now,
  );
  for (const { redis } of cluster.nodes)
    await redis.acl('SETUSER', USER, 'reset', ...accessRules(JOB, true), `>${token}`);
  const address = new URL(cluster.url);
  address.username = USER;
  const redisUrl = `${address.href}&iam=${CACHE}&region=${REGION}&maxGB=1`;
  const { url: queueUrl } = await aws.createQueue({
    name: 'q',
    visibilitySeconds: 60,
    maxReceiveCount: 3,
    deadLetterName: 'q-dlq',
  });
  const open = (name: string, url: string) => {
    const output = new OutputQueue({ name, url });
    t.after(() => output.close());
    return output;
  };
  const input = new InputQueue({ name: JOB, queueUrl, endpoint: aws.url, region: aws.region, redisUrl });
  t.after(() => input.close());
  await input.enqueue('u', { x: [1] });
  const output = open(JOB, redisUrl);
  assert.equal(await output.status('u'), 'queued');

  // The service, which has the same user.
  const signedIn = openRedis(redisUrl, { credentials: async () => credentials });
  t.after(() => signedIn.close());
  const results = new ResultStore(signedIn, { job: JOB, ttlSeconds: 60, now: Date.now });
  await results.save([success('u', 7)], 'v1');
  assert.deepEqual(
    (await output.query('u'))?.outputs.map(({ data }) => [...data]),
    [[7]],
  );

  await assert.rejects(open('other', redisUrl).query('u'), {
    code: 'results_unavailable',
    message: /NOPERM/,
  });
  const wrong = openRedis(redisUrl, {
    credentials: async () => ({ ...credentials, secretAccessKey: 'another' }),
  });
  t.after(() => wrong.close());
  await assert.rejects(
    wrong.use((redis) => redis.ping(), true),
    { code: 'results_unavailable', message: /WRONGPASS/ },
  );
  const without = openRedis(redisUrl);
  t.after(() => without.close());
  await assert.rejects(
    without.use((redis) => redis.ping(), true),
    { message: /no credentials of AWS/ },
  );
});
