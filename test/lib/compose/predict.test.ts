/** Connections that predict opens: Redis only for a limit, a queue, or due timers. */
import assert from 'node:assert/strict';
import { createServer } from 'node:net';
import { type TestContext, test } from 'node:test';
import { composePredict } from '../../../lib/compose/predict.ts';
import { Scope } from '../../../lib/compose/scope.ts';
import { readEnvironment } from '../../../lib/config/environment.ts';
import { parseFilter } from '../../../lib/pipeline/answer/postprocess.ts';
import { useAws } from '../../support/environment.ts';

/** Listens where Redis would be, and S3, and counts who comes. */
async function listener(t: TestContext) {
  const seen = { connections: 0 };
  const server = createServer((socket) => {
    seen.connections++;
    socket.destroy();
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(() => server.close());
  const address = server.address();
  assert.ok(address !== null && typeof address === 'object');
  return { seen, where: `127.0.0.1:${address.port}` };
}

async function open(t: TestContext, variables: Readonly<Record<string, string>>) {
  const s3 = await listener(t);
  useAws({ AWS_ACCESS_KEY_ID: 'local', AWS_SECRET_ACCESS_KEY: 'local', AWS_REGION: 'local' });
  const environment = readEnvironment({
    CLUSTER_SERVING_BUCKET: 'bucket',
    AWS_ENDPOINT_URL: `http://${s3.where}`,
    ...variables,
  });
  return composePredict(new Scope(environment));
}

test('a job without a limit and without a queue asks Redis nothing before its timers are due, and then it does', async (t) => {
  const redis = await listener(t);
  let now = process.uptime();
  t.mock.method(process, 'uptime', () => now);
  const deps = await open(t, { CLUSTER_SERVING_REDIS_URL: `redis://${redis.where}` });
  assert.deepEqual([deps.limiter, deps.accept, deps.jobName], [undefined, undefined, 'serving_stream']);
  const limit = { leftMs: () => 2_000 };
  deps.observers.start('run')();
  await deps.observers.flush?.(limit);
  assert.equal(redis.seen.connections, 0);
  now += 10;
  await deps.observers.flush?.(limit);
  assert.ok(redis.seen.connections > 0);
});

test('a job with a limit has its limiter, and one with a queue takes records, before the first request', async (t) => {
  const limited = await open(t, {
    CLUSTER_SERVING_REDIS_URL: 'redis://127.0.0.1:9',
    CLUSTER_SERVING_CONFIG: JSON.stringify({
      http: { tokenBucketEnabled: true, tokensPerSecond: 5, tokenAcquireTimeoutMs: 10 },
    }),
  });
  assert.equal(typeof limited.limiter?.acquire, 'function');
  const queued = await open(t, {
    CLUSTER_SERVING_REDIS_URL: 'redis://127.0.0.1:9',
    CLUSTER_SERVING_QUEUE_URL: 'http://127.0.0.1:9/000000000000/queue',
  });
  assert.equal(typeof queued.accept?.queue().send, 'function');
  assert.equal(typeof queued.accept?.announcer().announce, 'function');
});

test('it has the settings of its job', async (t) => {
  const job = { jobName: 'digits', batchSize: 7, postProcessing: 'topN(3)' };
  const { filter, ...deps } = await open(t, {
    CLUSTER_SERVING_REDIS_URL: 'redis://127.0.0.1:9',
    CLUSTER_SERVING_CONFIG: JSON.stringify(job),
  });
  const { jobName, batchSize, postProcessing } = deps;
  assert.deepEqual({ jobName, batchSize, postProcessing }, job);
  assert.deepEqual(filter, parseFilter('topN(3)'));
});

test('without the address of Redis it fails at once, and says which variable', async (t) => {
  await assert.rejects(open(t, {}), {
    code: 'bad_config',
    message: 'the environment variable CLUSTER_SERVING_REDIS_URL is not set',
  });
});
