/** The statements about a record that a message has as attributes. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { enqueueOf, replayAttributes } from '../../../lib/codecs/attributes.ts';

/** SQS refuses a message with more. */
const MOST = 10;

test('a replay of a record that says everything has as many attributes as SQS takes, and reads as it was written', () => {
  const enqueue = {
    identity: 'i-1',
    sentAt: 1_795_000_000_000,
    replays: 2,
    trace: {
      traceId: '4bf92f3577b34da6a3ce929d0e0e4736',
      spanId: '00f067aa0ba902b7',
      isSampled: true,
      state: 'a=b',
    },
    canaryKey: 'user-17',
    expiresAfter: 60,
    model: 'fraud',
    notify: 'shop',
    taskToken: 'token',
  };
  const attributes = replayAttributes(enqueue);
  assert.ok(Object.keys(attributes).length <= MOST, Object.keys(attributes).join(', '));
  const messageAttributes = Object.fromEntries(
    Object.entries(attributes).map(([name, { StringValue }]) => [name, { stringValue: StringValue }]),
  );
  const delivered = { messageId: 'm', attributes: { SentTimestamp: '1795000099000' }, messageAttributes };
  assert.deepEqual(enqueueOf(delivered), enqueue);
});
