/** How calls of DynamoDB are repeated and limited, and what errors say of those that fail. */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { Timers } from '../../../lib/metrics/timers.ts';
import { TableConnection } from '../../../lib/table/connection.ts';
import { TableLimiter } from '../../../lib/table/limiter.ts';
import { TableResults } from '../../../lib/table/results.ts';
import { type Answer, sqsError, startHttpProxy } from '../../support/faults/http-proxy.ts';
import { connectTo, createTable, placeOf, startDynamo } from '../../support/table.ts';
import { success } from '../results/conformance/records.ts';

const OPTIONS = { job: 'job', ttlSeconds: 60, now: Date.now };
const refusal = (code: string, status = 400): Answer => sqsError(status, code);

async function proxied(t: TestContext) {
  const endpoint = await startDynamo(t);
  await createTable(endpoint);
  const proxy = await startHttpProxy(t, endpoint);
  return { proxy, endpoint, connection: connectTo(proxy.url) };
}

for (const [code, status] of [
  ['ProvisionedThroughputExceededException', 400],
  ['ThrottlingException', 400],
  ['RequestLimitExceeded', 400],
  ['InternalServerError', 500],
  ['', 503],
] as const) {
  test(`a call that is refused with ${code || `status ${status}`} is repeated`, async (t) => {
    const { proxy, connection } = await proxied(t);
    let refused = 0;
    proxy.onRequest = () =>
      refused++ < 2 ? { kind: 'answer', answer: refusal(code, status) } : { kind: 'pass' };
    const results = new TableResults(connection, OPTIONS);
    assert.equal(await results.save([success('a', 1)], 'v'), 1);
    assert.equal((await results.get('a'))?.outputs[0]?.data[0], 1);
    assert.ok(refused > 2);
  });
}

test('a table that refuses for good is results_unavailable, with the reason and the name of the table', async (t) => {
  const { proxy, connection } = await proxied(t);
  const results = new TableResults(connection, OPTIONS);
  for (const code of ['AccessDeniedException', 'ResourceNotFoundException', 'ThrottlingException']) {
    proxy.onRequest = () => ({ kind: 'answer', answer: refusal(code) });
    await assert.rejects(results.get('a'), {
      code: 'results_unavailable',
      message: `table results of DynamoDB, GetItem: ${code}: injected`,
    });
  }
  const before = proxy.seen.length;
  proxy.onRequest = () => ({ kind: 'answer', answer: refusal('AccessDeniedException') });
  await assert.rejects(results.get('a'), { code: 'results_unavailable' });
  assert.equal(proxy.seen.length, before + 1, 'what is denied is not asked again');
});

test('sixteen calls are in flight at most', async (t) => {
  const { proxy, connection } = await proxied(t);
  const results = new TableResults(connection, OPTIONS);
  const full = Promise.withResolvers<void>();
  let [inFlight, most] = [0, 0];
  proxy.onRequest = ({ action }) => {
    if (!action.endsWith('UpdateItem')) return { kind: 'pass' };
    most = Math.max(most, ++inFlight);
    if (inFlight === 16) full.resolve();
    return {
      kind: 'change',
      request: ({ body }) => full.promise.then(() => body),
      answer: (answer) => {
        inFlight--;
        return answer;
      },
    };
  };
  await results.save(
    Array.from({ length: 200 }, (_, i) => success(`r${i}`, i)),
    'v',
  );
  assert.equal(most, 16);
});

test('a write that fails costs its own record, and its neighbours are saved', async (t) => {
  const { proxy, connection } = await proxied(t);
  const results = new TableResults(connection, OPTIONS);
  proxy.onRequest = ({ action, body }) =>
    action.endsWith('UpdateItem') && body.includes('/u/b"')
      ? { kind: 'answer', answer: refusal('ValidationException') }
      : { kind: 'pass' };
  const blocked: string[] = [];
  const saved = await results.save([success('a', 1), success('b', 2)], 'v', undefined, (uri, { code }) =>
    blocked.push(uri, code),
  );
  assert.deepEqual([saved, blocked], [1, ['b', 'results_unavailable']]);
  await assert.rejects(results.save([success('c', 1), success('b', 2)], 'v'), {
    code: 'results_unavailable',
  });
});

test('measurements that the table does not take are kept, and cost no record', async (t) => {
  const { proxy, connection } = await proxied(t);
  const results = new TableResults(connection, OPTIONS);
  proxy.onRequest = ({ body }) =>
    body.includes('/m/') ? { kind: 'answer', answer: refusal('ValidationException') } : { kind: 'pass' };
  const timers = new Timers();
  timers.record('zoo.serving.request.predict', 5);
  assert.equal(await results.save([success('a', 1)], 'v', timers), 1);
  assert.equal(timers.empty, false);
  await assert.rejects(results.save([], 'v', timers), { code: 'results_unavailable' });
  assert.equal(timers.empty, false);
});

test('requests that the table throttles are over the limit of requests', async (t) => {
  const { proxy, connection } = await proxied(t);
  const limiter = new TableLimiter(connection, {
    job: 'job',
    tokensPerSecond: 1_000,
    acquireTimeoutMs: 100,
    sleep: async () => assert.fail('expected no wait'),
    onError: (error) => assert.fail(String(error)),
  });
  await limiter.acquire();
  proxy.onRequest = () => ({ kind: 'answer', answer: refusal('ThrottlingException') });
  await assert.rejects(limiter.acquire(), { code: 'rate_limited', retryAfterSeconds: 1 });
});

test('a result that no item holds is a failure of its record', async (t) => {
  const { connection } = await proxied(t);
  const results = new TableResults(connection, OPTIONS);
  const value = `["${'x'.repeat(400_000)}"]`;
  const fields = { status: 'succeeded', value, error: '', outputs: '', exact: '' } as const;
  assert.equal(await results.save([{ uri: 'a', fields }], 'v'), 1);
  await assert.rejects(results.get('a'), { code: 'too_large', uri: 'a' });
});

test('what has expired is not there, also when the table has not deleted it', async (t) => {
  const { connection, endpoint } = await proxied(t);
  const results = new TableResults(connection, { ...OPTIONS, ttlSeconds: 1 });
  const timers = new Timers();
  timers.record('zoo.serving.request.predict', 5);
  await results.save([success('a', 1)], 'v', timers);
  const late = new (class extends TableConnection {
    override now() {
      return Date.now() + 8 * 86_400_000;
    }
  })(placeOf(endpoint), {});
  const later = new TableResults(late, OPTIONS);
  assert.equal(await later.get('a'), undefined);
  assert.equal(await later.takePage(10), undefined);
  assert.ok((await later.metrics()).every(({ count }) => count === 0));
  timers.record('zoo.serving.request.predict', 7);
  await later.save([success('a', 2)], 'v', timers);
  const [predict] = (await later.metrics()).filter(({ count }) => count > 0);
  assert.deepEqual([predict?.count, (await later.get('a'))?.outputs[0]?.data[0]], [1, 2]);
});
