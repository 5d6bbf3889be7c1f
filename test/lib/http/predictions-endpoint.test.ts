/** GET and DELETE /predictions, GET /status and POST /cancel through their handler, beside others who do the same. */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { ServingError } from '../../../lib/contract/errors.ts';
import { LIMITS } from '../../../lib/contract/limits.ts';
import type { Outcome } from '../../../lib/contract/values.ts';
import type { WorkerValue } from '../../../lib/contract/worker-values.ts';
import { predictionTexts } from '../../../lib/http/predictions.ts';
import { preferredWaitMs } from '../../../lib/http/results.ts';
import { RedisConnection } from '../../../lib/redis/connection.ts';
import { RecordStates } from '../../../lib/redis/record-states.ts';
import { ResultStore } from '../../../lib/redis/results.ts';
import { serializeResult } from '../../../lib/results/fields.ts';
import type { Finished } from '../../../lib/results/store.ts';
import { startGateway } from '../../../local/gateway/gateway.ts';
import { enqueued } from '../../support/enqueue.ts';
import { predictionsWith } from '../../support/predictions.ts';
import { PATIENT, redisUrl } from '../../support/redis.ts';

const JOB = { job: 'job', now: Date.now };

function openStore(t: TestContext, url: string) {
  const connection = new RedisConnection(url, PATIENT);
  const results = new ResultStore(connection, { ...JOB, ttlSeconds: 60 });
  t.after(() => results.close());
  return { connection, results };
}

const saved = (uri: string, outcome: Outcome, message: string): Finished => ({
  uri,
  fields: serializeResult(outcome, undefined),
  enqueue: enqueued(message, Number(message.slice(1))),
});
const numbers = (...values: number[]): Outcome => ({
  ok: true,
  outputs: [{ name: 'y', dtype: 'float32', shape: [values.length], data: Float32Array.from(values) }],
});
const FAILURE: Outcome = { ok: false, error: new ServingError('bad_input', 'no') };

/** Its answer is more than a response may be. */
function tooLarge(uri: string): Finished {
  const value = `["${'x'.repeat(LIMITS.httpBodyBytes)}"]`;
  const fields = { status: 'succeeded', value, error: '', outputs: '', exact: '' } as const;
  return { uri, fields, enqueue: enqueued('m9', 9) };
}

/** The handler behind the local gateway. `afterReading` happens when a request has read a result, before it goes on. */
async function openEndpoint(t: TestContext, preferEmbedded = false) {
  const url = await redisUrl(t, preferEmbedded);
  const { connection, results } = openStore(t, url);
  const other = openStore(t, url);
  const place = {
    afterReading: async () => undefined as unknown,
    results: other.results,
    redis: other.connection.redis,
  };
  const states = new RecordStates(connection, JOB);
  const handler = predictionsWith({
    queue: () => ({ send: async () => undefined }),
    payloads: async () => ({ put: async () => 'key' }),
    results: () => ({
      async getWithin(uri, waitMs) {
        try {
          return await results.getWithin(uri, waitMs);
        } finally {
          await place.afterReading();
        }
      },
      take: results.take.bind(results),
      takePage: results.takePage.bind(results),
    }),
    states: () => states,
  });
  const routes = [
    { method: 'GET', path: '/predictions' },
    { method: 'DELETE', path: '/predictions' },
    { method: 'GET', path: '/predictions/{uri}' },
    { method: 'DELETE', path: '/predictions/{uri}' },
    { method: 'GET', path: '/status' },
    { method: 'POST', path: '/cancel' },
  ] as const;
  const gateway = await startGateway({
    port: 0,
    log: { info: () => undefined, warn: () => undefined, error: () => undefined },
    routes: routes.map((route) => ({ ...route, handler })),
  });
  t.after(() => gateway.close());
  const ask = async (
    method: string,
    path: string,
  ): Promise<{ status: number; body: Record<string, unknown> }> => {
    const response = await fetch(gateway.url + path, { method });
    return { status: response.status, body: (await response.json()) as Record<string, unknown> };
  };
  return { place, ask, url: gateway.url };
}

test('bytes of a worker are answered as they are for Accept: application/octet-stream, and other values as JSON', async (t) => {
  const { place, url } = await openEndpoint(t);
  const outcome = (value: WorkerValue): Outcome => ({ ok: true, outputs: [], value });
  await place.results.save([saved('bytes', outcome(Uint8Array.of(0, 255, 10)), 'm1')], 'v');
  await place.results.save([saved('list', outcome([1]), 'm2')], 'v');
  const get = (uri: string, accept: string, method = 'GET') =>
    fetch(`${url}/predictions/${uri}`, { method, headers: { accept } });
  const raw = await get('bytes', 'text/html, application/octet-stream;q=0.9');
  assert.equal(raw.headers.get('content-type'), 'application/octet-stream');
  assert.deepEqual([...new Uint8Array(await raw.arrayBuffer())], [0, 255, 10]);
  const valueOf = async (response: Response) => ((await response.json()) as { value: unknown }).value;
  assert.equal(await valueOf(await get('bytes', '*/*')), 'AP8K');
  assert.deepEqual(await valueOf(await get('list', 'application/octet-stream')), [1]);
  const taken = await get('bytes', 'application/octet-stream', 'DELETE');
  assert.equal((await taken.arrayBuffer()).byteLength, 3);
  assert.equal((await get('bytes', '*/*')).status, 404);
});

const dataOf = ({ outputs }: Record<string, unknown>) => (outputs as { data: unknown[] }[])[0]?.data;

for (const preferEmbedded of [false, true]) {
  const kind = preferEmbedded ? 'the embedded Redis' : 'the Redis of this machine';

  for (const [what, first] of [
    ['a result', numbers(1)],
    ['a failure', FAILURE],
  ] as const) {
    test(`${kind}: a DELETE that read ${what} which another took answers with what it deleted itself`, async (t) => {
      const { place, ask } = await openEndpoint(t, preferEmbedded);
      await place.results.save([saved('a', first, 'm1')], 'v');
      place.afterReading = async () => {
        await place.results.take('a').catch(() => undefined);
        await place.results.save([saved('a', numbers(2), 'm2')], 'v');
      };
      const { status, body } = await ask('DELETE', '/predictions?uri=a');
      assert.deepEqual([status, dataOf(body)], [200, [2]]);
      assert.equal(await place.results.get('a'), undefined);
    });

    test(`${kind}: a DELETE that read ${what} which another took, and nothing came after, finds none`, async (t) => {
      const { place, ask } = await openEndpoint(t, preferEmbedded);
      await place.results.save([saved('a', first, 'm1')], 'v');
      place.afterReading = () => place.results.take('a').catch(() => undefined);
      const { status, body } = await ask('DELETE', '/predictions?uri=a');
      assert.deepEqual([status, body['code']], [404, 'not_found']);
    });
  }

  test(`${kind}: a DELETE of a failure, and of a result that became one meanwhile, tells it and deletes it`, async (t) => {
    const { place, ask } = await openEndpoint(t, preferEmbedded);
    await place.results.save([saved('a', FAILURE, 'm1'), saved('b', numbers(1), 'm2')], 'v');
    const failed = (uri: string) => ({ uri, status: 'failed', error: 'no', code: 'bad_input' });
    assert.deepEqual(await ask('DELETE', '/predictions?uri=a'), { status: 200, body: failed('a') });
    place.afterReading = async () => {
      await place.results.take('b');
      await place.results.save([saved('b', FAILURE, 'm3')], 'v');
    };
    assert.deepEqual(await ask('DELETE', '/predictions?uri=b'), { status: 200, body: failed('b') });
    assert.equal(await place.results.get('a'), undefined);
    assert.equal(await place.results.get('b'), undefined);
  });

  test(`${kind}: a DELETE never destroys a result that is too large to answer, also one that came after it had read`, async (t) => {
    const { place, ask } = await openEndpoint(t, preferEmbedded);
    await place.results.save([tooLarge('a'), saved('b', numbers(1), 'm1')], 'v');
    const refused = async (uri: string) => {
      const { status, body } = await ask('DELETE', `/predictions?uri=${uri}`);
      assert.deepEqual([status, body['code']], [413, 'too_large']);
      assert.ok((await place.results.get(uri))?.filtered, uri);
      const left = await place.redis.pttl(`cluster-serving_job:${uri}`);
      assert.ok(left > 30_000 && left <= 60_000, `${left} ms`);
    };
    await refused('a');
    place.afterReading = async () => {
      await place.results.take('b');
      await place.results.save([tooLarge('b')], 'v');
    };
    await refused('b');
    const listed: string[] = [];
    for await (const { uri } of place.results.drain()) listed.push(uri);
    assert.deepEqual(listed.sort(), ['a', 'b']);
  });
}

test('a bool output is written as /predict writes it', async (t) => {
  const { place, ask } = await openEndpoint(t);
  const data = Uint8Array.of(1, 0);
  const outcome: Outcome = { ok: true, outputs: [{ name: 'y', dtype: 'bool', shape: [2], data }] };
  await place.results.save([saved('a', outcome, 'm1')], 'v');
  const { body } = await ask('GET', '/predictions?uri=a');
  assert.deepEqual(dataOf(body), [true, false]);
  assert.deepEqual(predictionTexts([outcome], undefined), ['{value={"data":[true,false],"shape":[2]}}']);
});

test('a wait of any number of digits is capped at 20 s', () => {
  const waits = [
    'wait=5',
    'wait=20',
    'wait=21',
    'wait=999999999',
    'wait=9999999999',
    `wait=${'9'.repeat(400)}`,
  ];
  assert.deepEqual(waits.map(preferredWaitMs), [5_000, 20_000, 20_000, 20_000, 20_000, 20_000]);
  assert.deepEqual(
    ['wait=', 'wait=-1', 'wait=1.5', 'await=5', undefined].map(preferredWaitMs),
    [0, 0, 0, 0, 0],
  );
});

test('a uri whose bytes are not UTF-8 is refused by every route, and one that is U+FFFD is a uri', async (t) => {
  const { ask } = await openEndpoint(t);
  const routes = [
    'GET /status?uri=',
    'POST /cancel?uri=',
    'GET /predictions?uri=',
    'DELETE /predictions?uri=',
  ];
  for (const route of routes) {
    const [method = '', path = ''] = route.split(' ');
    for (const broken of ['%ff', '%FE', 'a%C3', '%C3%28', 'ok%20%E2%82', '%ED%A0%80']) {
      const { status, body } = await ask(method, path + broken);
      assert.deepEqual([status, body['code']], [400, 'bad_request'], route + broken);
      assert.match(String(body['error']), /^uri: expected UTF-8/);
    }
    const { body } = await ask(method, `${path}%EF%BF%BD`);
    assert.notEqual(body['code'], 'bad_request', route);
  }
  assert.deepEqual((await ask('GET', '/status?other=%ff&uri=%EF%BF%BD')).body, {
    uri: '\ufffd',
    status: 'cancelled',
  });
  assert.equal((await ask('GET', '/predictions/%ff')).status, 400);
});
