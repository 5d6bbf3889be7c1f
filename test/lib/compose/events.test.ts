import assert from 'node:assert/strict';
import { test } from 'node:test';
import { handler as opening } from '../../../functions/status.ts';
import { assertEvent } from '../../../lib/compose/events.ts';

const message = { messageId: '1', eventSource: 'aws:sqs', body: '{}' };
const request = { version: '2.0', rawPath: '/', requestContext: { http: { method: 'GET' } } };

test('a function takes the events of what feeds it', () => {
  assertEvent({ Records: [message] }, 'sqs');
  assertEvent({ Records: [] }, 'sqs');
  assertEvent(request, 'http');
});

test('any other event is one clear error, which names no value of it', () => {
  const others: readonly (readonly [unknown, RegExp])[] = [
    [
      { key1: 'value1', key2: 'value2' },
      /got one with "key1", "key2"; call the function through what feeds it$/,
    ],
    [{ Records: [{ eventSource: 'aws:s3', s3: {} }] }, /got one with "Records"/],
    [{ Records: [message, null] }, /got one with "Records"/],
    [{ resource: '/', httpMethod: 'GET', path: '/' }, /got one with "resource", "httpMethod", "path"/],
    [{}, /got an empty one/],
    [null, /got null/],
    ['ping', /got a string/],
    [{ ['k'.repeat(100)]: 1, b: 1, c: 1, d: 1, e: 1, f: 1 }, /"k{40}", "b", "c", "d", "e" and 1 more/],
  ];
  for (const [event, says] of others)
    for (const kind of ['sqs', 'http'] as const)
      assert.throws(
        () => assertEvent(event, kind),
        (error: Error & { code?: string }) => {
          assert.equal(error.code, 'bad_request');
          assert.match(error.message, says);
          assert.doesNotMatch(error.message, /value1/);
          return true;
        },
      );
  assert.throws(() => assertEvent(request, 'sqs'), /expected an event of its SQS queue/);
  assert.throws(() => assertEvent({ Records: [message] }, 'http'), /expected a request of the HTTP API/);
});

test('a function refuses it before it opens anything', async () => {
  const handler = await opening;
  const event = { key1: 'value1' } as unknown as Parameters<typeof handler>[0];
  await assert.rejects(handler(event, {} as Parameters<typeof handler>[1]), { code: 'bad_request' });
});
