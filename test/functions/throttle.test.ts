/** The function that slows queues down, with S3 and Lambda's calls about event sources on this machine. */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { concurrencyOf, setConcurrency } from '../../lib/aws/event-sources.ts';
import { Scope } from '../../lib/compose/scope.ts';
import { composeThrottle } from '../../lib/compose/throttle.ts';
import { type Environment, readEnvironment } from '../../lib/config/environment.ts';
import { budgetMark } from '../../lib/contract/names.ts';
import { throttle } from '../../lib/pipeline/throttle.ts';
import { getText, putText } from '../../lib/s3/objects.ts';
import { startAws } from '../../local/aws/aws.ts';
import { startEventSources } from '../support/event-sources.ts';

const DATE = '2026-11-29';
const NOON = Date.parse(`${DATE}T12:00:00Z`);
const DAY_MS = 86_400_000;
const BUCKET = 'bucket';

async function world(t: TestContext, budget: object = { perDay: 5, perMonth: 100 }) {
  const quiet = { info: () => undefined, warn: () => undefined, error: () => undefined };
  const aws = await startAws({ port: 0, log: quiet });
  t.after(() => aws.close());
  await aws.createBucket(BUCKET);
  const lambda = await startEventSources(t);
  lambda.concurrency.set('normal', 10).set('high', 4).set('least', 2);
  const variables = readEnvironment({
    ...aws.environment,
    CLUSTER_SERVING_BUCKET: BUCKET,
    CLUSTER_SERVING_CONFIG: JSON.stringify({ jobName: 'job', budget }),
    CLUSTER_SERVING_EVENT_SOURCES: 'normal=10,high=4,least=2',
  });
  // The SDK would look for its region and keys in the variables of this process.
  const access = { endpoint: aws.url, region: aws.region, credentials: aws.credentials };
  const environment: Environment = Object.create(variables, { aws: { value: access } });
  const place = { ...environment.role, endpoint: lambda.url };
  const clock = { ms: NOON };
  const changed: string[] = [];
  t.mock.method(Date, 'now', () => clock.ms);
  const deps = {
    ...(await composeThrottle(new Scope(environment))),
    concurrencyOf: (id: string) => concurrencyOf(place, id),
    setConcurrency: (id: string, most: number) => setConcurrency(place, id, most),
    onChanged: (_: string, { eventSource }: Readonly<Record<string, unknown>>) =>
      void changed.push(String(eventSource)),
  };
  const mark = { bucket: BUCKET, key: budgetMark('job') };
  return {
    lambda,
    clock,
    changed,
    look: throttle(deps),
    spent: (day: number, month: number) => putText(aws.s3, mark, JSON.stringify({ date: DATE, day, month })),
    mark: () => getText(aws.s3, mark),
    now: () => [...lambda.concurrency.values()],
  };
}

test('while no limit was reached it asks Lambda nothing', async (t) => {
  const { look, lambda } = await world(t);
  assert.deepEqual(await look(), { isSlow: false });
  assert.deepEqual(lambda.asked, []);
});

test('at the limit every queue gets its least, and the next day what the settings say', async (t) => {
  const { look, spent, lambda, clock, changed, now, mark } = await world(t);
  await spent(5, 30);
  assert.deepEqual(await look(), { isSlow: true });
  assert.deepEqual(now(), [2, 2, 2]);
  assert.deepEqual(
    changed.toSorted((a, b) => a.localeCompare(b)),
    ['high', 'normal'],
    'what has its least is not changed',
  );
  assert.ok(lambda.asked.every((call) => call.endsWith(' lambda')));
  lambda.asked.length = 0;
  await look();
  assert.ok(lambda.asked.every((call) => call.startsWith('GET ')));
  clock.ms += DAY_MS / 2;
  assert.deepEqual(await look(), { isSlow: false });
  assert.deepEqual(now(), [10, 4, 2]);
  assert.equal(await mark(), '{}');
  lambda.asked.length = 0;
  await look();
  assert.deepEqual(lambda.asked, []);
});

test('the limit of a month keeps the queues slow through its days', async (t) => {
  const { look, spent, clock, now } = await world(t);
  await spent(1, 100);
  await look();
  clock.ms += DAY_MS;
  await look();
  assert.deepEqual(now(), [2, 2, 2]);
  clock.ms += DAY_MS;
  await look();
  assert.deepEqual(now(), [10, 4, 2]);
});

test('a limit that was raised gives the queues their concurrency back the same day', async (t) => {
  const { look, spent, lambda, now } = await world(t, { perDay: 10 });
  lambda.concurrency.set('normal', 2).set('high', 2);
  await spent(5.01, 5.01);
  await look();
  assert.deepEqual(now(), [10, 4, 2]);
});

test('what a person has set stays when the limit ends', async (t) => {
  const { look, spent, lambda, clock, now } = await world(t);
  await spent(5, 5);
  await look();
  lambda.concurrency.set('normal', 7);
  clock.ms += DAY_MS;
  await look();
  assert.deepEqual(now(), [7, 4, 2]);
});

test('a queue that cannot be changed now keeps no other from it, and is changed by the next look', async (t) => {
  const { look, spent, lambda, clock, now, mark } = await world(t);
  await spent(5, 5);
  lambda.busy.add('normal');
  await assert.rejects(look(), /event source normal: status 400: Cannot update .* in use/);
  assert.deepEqual(now(), [10, 2, 2]);
  lambda.busy.clear();
  await look();
  assert.deepEqual(now(), [2, 2, 2]);
  clock.ms += DAY_MS;
  lambda.busy.add('high');
  await assert.rejects(look());
  assert.deepEqual(now(), [10, 2, 2]);
  assert.notEqual(await mark(), '{}');
  lambda.busy.clear();
  await look();
  assert.deepEqual(now(), [10, 4, 2]);
});

test('a mapping without a limit gets one, and one that is gone is an error with its id', async (t) => {
  const { look, spent, lambda, now } = await world(t);
  await spent(5, 5);
  lambda.concurrency.set('normal', undefined);
  await look();
  assert.deepEqual(now(), [2, 2, 2]);
  lambda.concurrency.delete('high');
  await assert.rejects(look(), /event source high: .*does not exist/);
});

test('an object without sums slows nothing down', async (t) => {
  const { look, spent, lambda } = await world(t);
  await spent(Number.NaN, 5);
  assert.deepEqual(await look(), { isSlow: false });
  assert.deepEqual(lambda.asked, []);
});

test('a list of event sources of another form is refused', async () => {
  const scope = (text: string) =>
    new Scope(readEnvironment({ CLUSTER_SERVING_BUCKET: 'b', CLUSTER_SERVING_EVENT_SOURCES: text }));
  await assert.rejects(composeThrottle(scope('normal')), { code: 'bad_config' });
  await assert.rejects(composeThrottle(scope('normal=ten')), { code: 'bad_config' });
});
