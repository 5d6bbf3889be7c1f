/** Each function has a handler that refuses events of another kind, and opens its own dependencies for one of its kind. */
import assert from 'node:assert/strict';
import { test } from 'node:test';

const QUEUE = /^unknown event: expected an event of its SQS queue, got one with "a"/;
const HTTP = /^unknown event: expected a request of the HTTP API, payload format 2\.0, got one with "a"/;
const SCHEDULE = /^unknown event: expected an event of its schedule, or a replay, got one with "a"/;
const RECORDS = { Records: [] };
const REQUEST = { rawPath: '/', headers: {}, requestContext: { http: { method: 'GET' } } };
/** The first that is missing, of what its dependencies are opened with. */
const REDIS = 'the environment variable CLUSTER_SERVING_REDIS_URL is not set';
const BUCKET = 'the environment variable CLUSTER_SERVING_BUCKET is not set';

const EXPECTED = {
  batch: [QUEUE, RECORDS, REDIS],
  'dead-letter': [QUEUE, RECORDS, REDIS],
  jobs: [QUEUE, RECORDS, BUCKET],
  notifier: [QUEUE, RECORDS, BUCKET],
  throttle: [SCHEDULE, { source: 'aws.events' }, BUCKET],
  predict: [HTTP, REQUEST, REDIS],
  predictions: [HTTP, REQUEST, undefined],
  status: [HTTP, REQUEST, BUCKET],
} as const;

type Call = (event: unknown, context: unknown) => Promise<unknown>;

for (const [name, [message, event, missing]] of Object.entries(EXPECTED)) {
  const handlerOf = async () => {
    const { handler } = (await import(`../../functions/${name}.ts`)) as { handler: Promise<Call> };
    return handler;
  };

  test(`${name} expects its own kind of event`, async () => {
    await assert.rejects((await handlerOf())({ a: 1 }, {}), { message });
  });

  test(`${name} opens its dependencies for the first event of its kind`, async (t) => {
    t.mock.method(process.stdout, 'write', () => true);
    const answer = (await handlerOf())(event, {});
    if (missing !== undefined) await assert.rejects(answer, { message: missing });
    // Opened by the routes that need them.
    else assert.equal(((await answer) as { statusCode: number }).statusCode, 404);
  });
}
