/** Functions of a job with a budget as Lambda calls them, and a single machine, with a Redis and an S3 on this machine. */
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import type { Context } from 'aws-lambda';
import { Redis } from 'ioredis';
import { predict as createPredict } from '../../../functions/predict.ts';
import { status as createStatus } from '../../../functions/status.ts';
import { composeBatch } from '../../../lib/compose/batch.ts';
import { lambdaHandler } from '../../../lib/compose/handler.ts';
import { composePredict } from '../../../lib/compose/predict.ts';
import { composeStatus } from '../../../lib/compose/status.ts';
import { budgetKey, budgetMark } from '../../../lib/contract/names.ts';
import { dayOf } from '../../../lib/metrics/spent.ts';
import { serveEvent } from '../../../lib/pipeline/event.ts';
import { openS3 } from '../../../lib/s3/client.ts';
import { getText } from '../../../lib/s3/objects.ts';
import { SAMPLE, testStack } from '../../support/stack.ts';

const JOB = 'serving_stream';
const CONTEXT = { awsRequestId: 'one', getRemainingTimeInMillis: () => 29_000 } as Context;
const DAY_MS = 86_400_000;
const AWAY = 'redis://127.0.0.1:9';

interface Answer {
  readonly statusCode: number;
  readonly body: string;
  readonly headers: Readonly<Record<string, string>>;
}

async function deployment(t: TestContext, budget: object) {
  const stack = await testStack(t, { functionSeconds: 5 });
  const variables = {
    AWS_LAMBDA_RUNTIME_API: '127.0.0.1:9',
    AWS_LAMBDA_FUNCTION_NAME: 'budgeted',
    ...stack.aws.environment,
    CLUSTER_SERVING_BUCKET: stack.bucket,
    CLUSTER_SERVING_REDIS_URL: stack.redisUrl,
    CLUSTER_SERVING_CONFIG: JSON.stringify({ image: { height: 8, width: 8 }, budget }),
  };
  const before = Object.keys(variables).map((name) => [name, process.env[name]] as const);
  Object.assign(process.env, variables);
  const redis = new Redis(stack.redisUrl);
  t.after(() => {
    redis.disconnect();
    for (const [name, value] of before) {
      if (value === undefined) delete process.env[name];
      else process.env[name] = value;
    }
  });
  const lines: Record<string, unknown>[] = [];
  const write = process.stdout.write.bind(process.stdout);
  t.mock.method(process.stdout, 'write', (text: string | Uint8Array, ...rest: never[]) => {
    if (typeof text === 'string' && text.startsWith('{"_aws"')) lines.push(JSON.parse(text));
    else if (typeof text !== 'string' || !text.startsWith('{"')) return write(text, ...rest);
    return true;
  });
  const image = (await readFile(join(SAMPLE, 'images/digit-7.png'))).toString('base64');
  const { date, month } = dayOf(Date.now());
  const key = budgetKey(JOB, month);
  return {
    stack,
    image,
    date,
    lines,
    sums: async () => (await redis.hmget(key, date.slice(-2), 'month')).map(Number),
    spend: async (dollars: number) => {
      for (const name of [date.slice(-2), 'month']) await redis.hincrbyfloat(key, name, dollars);
    },
    /** A new environment of the function, opened. */
    predict: async () => {
      const handler = await lambdaHandler('http', createPredict, (scope) => composePredict(scope));
      return () =>
        handler(request('POST', '/predict', { instances: [{ image }] }) as never, CONTEXT) as Promise<Answer>;
    },
    status: async (path: string, accept = '*/*') => {
      const handler = await lambdaHandler('http', createStatus, composeStatus);
      return (await handler(request('GET', path, undefined, accept) as never, CONTEXT)) as Answer;
    },
    batch: async () => {
      const handler = await lambdaHandler('sqs', serveEvent, (scope) => composeBatch(scope));
      return (...uris: string[]) =>
        handler({ Records: uris.map((uri) => message(uri, image)) } as never, CONTEXT);
    },
  };
}

test('a request under the limit is answered and its cost is in Redis, one over it is refused, and the next day none is', async (t) => {
  const { predict, spend, sums, lines } = await deployment(t, { perDay: 5 });
  const first = await predict();
  assert.equal((await first()).statusCode, 200);
  const [day = 0, month = 0] = await sums();
  assert.equal(day, month);
  // More than the request at the API and the call; the INIT is that of this process.
  assert.ok(day > 1.85e-6 && day < 0.1, String(day));
  await spend(5);
  const second = await predict();
  const { statusCode, body, headers } = await second();
  const { code, error }: { code?: string; error?: string } = JSON.parse(body);
  assert.deepEqual([statusCode, code], [429, 'rate_limited']);
  assert.match(error ?? '', /the job's budget of the day is used up \(budget\.perDay\)/);
  assert.ok(Number(headers['retry-after']) >= 1 && Number(headers['retry-after']) <= 3_600);
  assert.equal(lines.at(-1)?.['BudgetExceeded'], 1);
  assert.equal(lines.at(-1)?.['Failures_rate_limited'], 1);
  const now = Date.now.bind(Date);
  t.mock.method(Date, 'now', () => now() + DAY_MS);
  assert.equal((await second()).statusCode, 200);
});

test('without its Redis a request is answered, and a metric counts it', async (t) => {
  const { predict, lines } = await deployment(t, { perDay: 1e-9 });
  process.env['CLUSTER_SERVING_REDIS_URL'] = AWAY;
  const ask = await predict();
  assert.equal((await ask()).statusCode, 200);
  assert.equal((await ask()).statusCode, 200);
  const told = lines.map(({ BudgetUnknown, BudgetExceeded }) => [BudgetUnknown, BudgetExceeded]);
  assert.deepEqual(told, [
    [1, undefined],
    [1, undefined],
  ]);
});

test('records over the limit are served and none comes again, the object of S3 says the limit, and a metric the event', async (t) => {
  const { batch, spend, stack, lines, date } = await deployment(t, { perDay: 5 });
  const s3 = openS3({ endpoint: stack.aws.url });
  t.after(() => s3.destroy());
  const mark = () => getText(s3, { bucket: stack.bucket, key: budgetMark(JOB) });
  const under = await batch();
  assert.deepEqual(await under('a', 'b'), { batchItemFailures: [] });
  assert.equal(lines.at(-1)?.['BudgetExceeded'], undefined);
  assert.equal(await mark(), undefined);
  await spend(5);
  const over = await batch();
  assert.deepEqual(await over('c', 'd'), { batchItemFailures: [] });
  assert.equal(lines.at(-1)?.['BudgetExceeded'], 1);
  const { date: day, day: spent }: { date?: string; day?: number } = JSON.parse((await mark()) ?? '{}');
  assert.equal(day, date);
  assert.ok(Number(spent) >= 5 && Number(spent) < 5.1, String(spent));
});

test('GET /ready and GET /metrics show what was spent, the limits and the end of a limit that is reached', async (t) => {
  const { spend, status } = await deployment(t, { perDay: 5, perMonth: 100 });
  await spend(1.5);
  const { budget } = JSON.parse((await status('/ready')).body);
  assert.ok(budget.day.spent >= 1.5 && budget.day.spent < 1.6, JSON.stringify(budget));
  assert.deepEqual([budget.day.limit, budget.month.limit, budget.refusesUntil], [5, 100, undefined]);
  assert.ok(
    Math.abs(
      budget.overshoot - (5 * 1_769 * (process.arch === 'arm64' ? 0.000_013_333_4 : 0.000_016_666_7)) / 1_024,
    ) < 1e-12,
  );
  await spend(3.5);
  const reached = JSON.parse((await status('/ready')).body).budget.refusesUntil;
  assert.match(reached, /^\d{4}-\d\d-\d\dT00:00:00\.000Z$/);
  const text = (await status('/metrics', 'text/plain')).body;
  assert.match(text, /^cluster_serving_budget_spent_dollars\{period="day"\} 5(\.0\d*)?$/m);
  assert.match(text, /^cluster_serving_budget_limit_dollars\{period="month"\} 100$/m);
  assert.match(text, /^cluster_serving_budget_exceeded 1$/m);
});

test('a single machine counts, and refuses requests while it takes records', async (t) => {
  const stack = await testStack(t, { config: 'imageResize: 8,8\nbudget: {perDay: 1}\n', functionSeconds: 5 });
  const redis = new Redis(stack.redisUrl);
  t.after(() => redis.disconnect());
  const image = (await readFile(join(SAMPLE, 'images/digit-7.png'))).toString('base64');
  const ask = (path: string, body: object) =>
    fetch(stack.url + path, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
    });
  assert.equal((await ask('/predict', { instances: [{ image }] })).status, 200);
  const { budget } = (await (await fetch(`${stack.url}/ready`)).json()) as {
    budget: { day: { spent: number } };
  };
  assert.ok(budget.day.spent > 1.85e-6 && budget.day.spent < 0.1, JSON.stringify(budget));
  const { date, month } = dayOf(Date.now());
  await redis.hincrbyfloat(budgetKey(JOB, month), date.slice(-2), 1);
  // GET /ready asks for the sums.
  await fetch(`${stack.url}/ready`);
  const refused = await ask('/predict', { instances: [{ image }] });
  assert.deepEqual([refused.status, refused.headers.has('retry-after')], [429, true]);
  assert.equal((await ask('/predictions', { uri: 'a', instances: [{ image }] })).status, 202);
  const result = await fetch(`${stack.url}/predictions/a`, { headers: { prefer: 'wait=20' } });
  assert.equal(result.status, 200);
});

test('a job without a budget counts nothing and shows nothing of it', async (t) => {
  const { predict, sums, status } = await deployment(t, {});
  const ask = await predict();
  assert.equal((await ask()).statusCode, 200);
  assert.deepEqual(await sums(), [0, 0]);
  assert.equal('budget' in JSON.parse((await status('/ready')).body), false);
  assert.doesNotMatch((await status('/metrics', 'text/plain')).body, /budget/);
});

function request(method: string, path: string, body?: unknown, accept = '*/*'): object {
  return {
    rawPath: path,
    rawQueryString: '',
    routeKey: `${method} ${path}`,
    headers: { 'content-type': 'application/json', accept },
    requestContext: { http: { method, path } },
    isBase64Encoded: false,
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  };
}

function message(uri: string, image: string) {
  return {
    messageId: uri,
    eventSource: 'aws:sqs',
    eventSourceARN: 'arn:aws:sqs:local:000000000000:jobs',
    body: JSON.stringify({ uri, data: JSON.stringify({ instances: [{ image }] }), serde: 'stream' }),
    attributes: { SentTimestamp: String(Date.now() - 50), ApproximateReceiveCount: '1' },
    messageAttributes: {},
  };
}
