/** Each function has a handler that refuses events of another kind, which shows what it was made for. */
import assert from 'node:assert/strict';
import { test } from 'node:test';

const QUEUE = /^unknown event: expected an event of its SQS queue, got one with "a"/;
const HTTP = /^unknown event: expected a request of the HTTP API, payload format 2\.0, got one with "a"/;
const EXPECTED = { batch: QUEUE, 'dead-letter': QUEUE, predict: HTTP, predictions: HTTP, status: HTTP };

for (const [name, message] of Object.entries(EXPECTED))
  test(`${name} expects its own kind of event`, async () => {
    const { handler } = (await import(`../../functions/${name}.ts`)) as {
      handler: Promise<(event: unknown, context: unknown) => Promise<unknown>>;
    };
    await assert.rejects((await handler)({ a: 1 }, {}), { message });
  });
