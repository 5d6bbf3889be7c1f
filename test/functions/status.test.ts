import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { APIGatewayProxyEventV2 } from 'aws-lambda';
import { status } from '../../functions/status.ts';
import { modelUnavailable, ServingError } from '../../lib/contract/errors.ts';
import { quietObservers } from '../support/observers.ts';

interface World {
  readonly serving?: () => Promise<{ version: string; atMs: number }[]>;
  readonly modelVersion?: () => Promise<string>;
}

async function get(path: string, { serving, modelVersion }: World = {}) {
  const handler = status({
    results: {
      serving: serving ?? (async () => []),
      timers: async () => ({ histograms: new Map(), seconds: 0 }),
    },
    jobName: 'job',
    modelVersion: modelVersion ?? (async () => 'v1'),
    observers: quietObservers(),
  });
  const event = { rawPath: path, headers: {}, requestContext: { http: { method: 'GET' } } };
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
  const { body } = await get('/ready', { serving, modelVersion: async () => 'v2' });
  assert.deepEqual(JSON.parse(body), {
    ready: true,
    model: 'v2',
    serving: [
      { version: 'v1', at: '1970-01-01T00:00:02.000Z' },
      { version: 'v0', at: '1970-01-01T00:00:01.000Z' },
    ],
  });
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
    modelVersion: () => Promise.reject(modelUnavailable('none')),
  });
  assert.deepEqual([statusCode, JSON.parse(body).code], [503, 'model_unavailable']);
});

test('/ready says of everything that is away what it is, and no address', async (t) => {
  t.mock.method(process.stdout, 'write', () => true);
  const serving = () => Promise.reject(new ServingError('results_unavailable', 'Redis at 10.0.0.7'));
  const s3 = () => Promise.reject(modelUnavailable('s3://bucket', { cause: new Error('ECONNREFUSED') }));
  const none = () => Promise.reject(modelUnavailable('none'));
  const errorOf = async (world: World) => JSON.parse((await get('/ready', world)).body).error as string;
  const [redis, model] = ['the results cannot be reached (Redis)', 'the model cannot be reached (S3)'];
  assert.equal(await errorOf({ serving }), `not ready: ${redis}; the log says why`);
  assert.equal(await errorOf({ modelVersion: s3 }), `not ready: ${model}; the log says why`);
  assert.equal(
    await errorOf({ serving, modelVersion: s3 }),
    `not ready: ${redis}, and ${model}; the log says why`,
  );
  assert.equal(await errorOf({ modelVersion: none }), 'not ready: no model can be served; the log says why');
});

test('GET / is the text of the old front end, /metrics a list, and any other path is not found', async () => {
  assert.deepEqual(await get('/'), {
    statusCode: 200,
    body: 'welcome to analytics zoo web serving frontend',
  });
  assert.deepEqual(await get('/metrics'), { statusCode: 200, body: '[]' });
  assert.equal((await get('/readiness')).statusCode, 404);
});
