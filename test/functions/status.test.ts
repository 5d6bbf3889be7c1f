import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { APIGatewayProxyEventV2 } from 'aws-lambda';
import { status } from '../../functions/status.ts';
import { DEFAULT_JOB } from '../../lib/config/job.ts';
import { modelUnavailable, ServingError } from '../../lib/contract/errors.ts';
import type { ServedVersions } from '../../lib/contract/values.ts';
import type { Timers } from '../../lib/metrics/timers.ts';
import { DeliveredTimers } from '../../lib/observe/timers.ts';
import { together } from '../../lib/observe/together.ts';
import type { Observers } from '../../lib/pipeline/observer.ts';
import { quietObservers } from '../support/observers.ts';

interface World {
  readonly serving?: () => Promise<{ version: string; atMs: number }[]>;
  readonly versions?: () => Promise<ServedVersions>;
  readonly observers?: Observers;
  readonly lostCaptures?: number;
  readonly timers?: () => void;
  readonly accept?: string;
}

async function get(path: string, world: World = {}) {
  const { serving, versions, observers, timers, lostCaptures = 0, accept = '' } = world;
  const handler = status({
    results: {
      lostCaptures: async () => lostCaptures,
      serving: serving ?? (async () => []),
      timers: async () => {
        timers?.();
        return { histograms: new Map(), seconds: 0 };
      },
    },
    settings: DEFAULT_JOB,
    versions: versions ?? (async () => ({ version: 'v1' })),
    observers: observers ?? quietObservers(),
  });
  const event = { rawPath: path, headers: { accept }, requestContext: { http: { method: 'GET' } } };
  const { statusCode, body } = await handler(event as unknown as APIGatewayProxyEventV2);
  return { statusCode, body: body as string };
}

test('/ready is 200 with the version that serves when Redis and the model can be reached', async () => {
  const { statusCode, body } = await get('/ready');
  assert.deepEqual([statusCode, JSON.parse(body)], [200, { ready: true, model: 'v1' }]);
});

test('/ready names the version that was pushed, and apart from it those by which environments have answered', async () => {
  const serving = async () => [
    { version: 'v1', atMs: 2_000 },
    { version: 'v0', atMs: 1_000 },
  ];
  const { body } = await get('/ready', { serving, versions: async () => ({ version: 'v2' }) });
  assert.deepEqual(JSON.parse(body), {
    ready: true,
    model: 'v2',
    serving: [
      { version: 'v1', at: '1970-01-01T00:00:02.000Z' },
      { version: 'v0', at: '1970-01-01T00:00:01.000Z' },
    ],
  });
});

test('/ready names the canary with its share, and the shadow, without what else their pointers have', async () => {
  const since = '2026-11-29T08:00:00.000Z';
  const canary = { version: 'v2', share: 0.05, since, files: [] };
  const shadow = { version: 'v3', since };
  const { body } = await get('/ready', { versions: async () => ({ version: 'v1', canary, shadow }) });
  const named = { version: 'v2', share: 0.05, since };
  assert.deepEqual(JSON.parse(body), { ready: true, model: 'v1', canary: named, shadow });
});

test('/metrics for Prometheus has an info of its own for a canary, beside that of the model', async () => {
  const canary = { version: 'v2', share: 0.05, since: '2026-11-29T08:00:00.000Z' };
  const versions = async () => ({ version: 'v1', canary });
  const { body } = await get('/metrics', { versions, accept: 'text/plain' });
  assert.match(body, /^cluster_serving_model_info\{model="serving_stream",version="v1"\} 1$/m);
  assert.match(body, /^cluster_serving_canary_share\{model="serving_stream",version="v2"\} 0.05$/m);
  assert.doesNotMatch((await get('/metrics', { accept: 'text/plain' })).body, /canary/);
});

test('/ready says how many requests and records were to be captured and are lost, where there are any', async () => {
  const { body } = await get('/ready', { lostCaptures: 3 });
  assert.deepEqual(JSON.parse(body), { ready: true, model: 'v1', lostCaptures: 3 });
});

test('/ready is 503 when Redis does not answer', async (t) => {
  t.mock.method(process.stdout, 'write', () => true);
  const serving = () => Promise.reject(new ServingError('results_unavailable', 'away'));
  const { statusCode, body } = await get('/ready', { serving });
  assert.deepEqual([statusCode, JSON.parse(body).code], [503, 'results_unavailable']);
});

test('/ready is 503 when no model can be found', async (t) => {
  t.mock.method(process.stdout, 'write', () => true);
  const { statusCode, body } = await get('/ready', {
    versions: () => Promise.reject(modelUnavailable('none')),
  });
  assert.deepEqual([statusCode, JSON.parse(body).code], [503, 'model_unavailable']);
});

test('/ready says of everything that is away what it is, and no address', async (t) => {
  t.mock.method(process.stdout, 'write', () => true);
  const serving = () => Promise.reject(new ServingError('results_unavailable', 'Redis at 10.0.0.7'));
  const s3 = () => Promise.reject(modelUnavailable('s3://bucket', { cause: new Error('ECONNREFUSED') }));
  const none = () => Promise.reject(modelUnavailable('none'));
  const errorOf = async (world: World) => JSON.parse((await get('/ready', world)).body).error as string;
  const [redis, model] = ['the results cannot be reached', 'the model cannot be reached (S3)'];
  assert.equal(await errorOf({ serving }), `not ready: ${redis}; the log says why`);
  assert.equal(await errorOf({ versions: s3 }), `not ready: ${model}; the log says why`);
  assert.equal(
    await errorOf({ serving, versions: s3 }),
    `not ready: ${redis}, and ${model}; the log says why`,
  );
  assert.equal(await errorOf({ versions: none }), 'not ready: no model can be served; the log says why');
});

test('GET / is the text of the old front end, /metrics a list, and any other path is not found', async () => {
  assert.deepEqual(await get('/'), {
    statusCode: 200,
    body: 'welcome to analytics zoo web serving frontend',
  });
  assert.deepEqual(await get('/metrics'), { statusCode: 200, body: '[]' });
  assert.equal((await get('/readiness')).statusCode, 404);
});

test('/metrics for Prometheus is answered while no model can be found, and names none', async () => {
  const versions = () => Promise.reject(modelUnavailable('none'));
  const { statusCode, body } = await get('/metrics', { versions, accept: 'text/plain' });
  assert.equal(statusCode, 200);
  assert.match(body, /^cluster_serving_build_info\{version="[\d.]+"\} 1$/m);
  assert.doesNotMatch(body, /model_info/);
});

test('/metrics measures itself, and no other path does', async () => {
  let nowMs = 0;
  const delivered: unknown[] = [];
  const now = () => nowMs;
  const deliver = async (timers: Timers) => void delivered.push(...timers.take());
  const world = {
    observers: together([new DeliveredTimers({ now, deliver })], now),
    timers: () => void (nowMs += 700),
  };
  nowMs = 5_000;
  for (const path of ['/', '/ready', '/none']) await get(path, world);
  await world.observers.flush?.({ leftMs: () => 30_000 });
  assert.deepEqual([nowMs, delivered], [5_000, []]);
  await get('/metrics', world);
  await world.observers.flush?.({ leftMs: () => 30_000 });
  const [[name, { count, sum }]] = delivered as [[string, { count: number; sum: number }]];
  assert.deepEqual([name, count, sum], ['zoo.serving.request.metrics', 1, 700]);
});
