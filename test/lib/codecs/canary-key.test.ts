/** The key by which a canary takes a record, as an attribute of its message and in its dead letter. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  attributesBytes,
  enqueueOf,
  type MessageAttributes,
  newAttributes,
  replayAttributes,
} from '../../../lib/codecs/attributes.ts';
import { decodeDeadLetter, encodeDeadLetter, replayOf } from '../../../lib/codecs/dead-letter.ts';
import { LIMITS } from '../../../lib/contract/limits.ts';
import { readTrace } from '../../../lib/contract/trace.ts';
import { submit } from '../../../lib/pipeline/submit.ts';

const KEY = '!~'.repeat(64);

const received = (attributes: MessageAttributes) =>
  enqueueOf({
    messageId: 'm',
    attributes: { SentTimestamp: '1000' },
    messageAttributes: Object.fromEntries(
      Object.entries(attributes).map(([name, { StringValue }]) => [name, { stringValue: StringValue }]),
    ),
  });

test('a canary key survives the dead letter and its replay, with every other attribute in the ten of SQS', () => {
  const trace = readTrace({
    traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01',
    tracestate: 'vendor=1',
  });
  const said = { notify: 'flow', taskToken: 'token', canaryKey: KEY };
  const enqueue = received(newAttributes('i', trace, said));
  assert.equal(enqueue.canaryKey, KEY);
  const text = encodeDeadLetter({ ...enqueue, messageId: 'm', attempts: 5, body: '{"uri":"a"}' });
  // A listing reads the first bytes of a file only.
  assert.ok(text.indexOf('canaryKey') < text.indexOf('"body"'));
  const attributes = replayAttributes(replayOf(decodeDeadLetter(text)));
  assert.equal(Object.keys(attributes).length, 8);
  assert.deepEqual(received(attributes), { ...enqueue, replays: 1 });
});

test('a record without a canary key has neither attribute nor field, and a malformed one is ignored', () => {
  assert.deepEqual(Object.keys(newAttributes('i')), ['identity']);
  assert.ok(!('canaryKey' in received(newAttributes('i'))));
  for (const wrong of ['', 'a b', 'ü', 'a'.repeat(129)]) {
    assert.ok(!('canaryKey' in received(newAttributes('i', undefined, { canaryKey: wrong }))), wrong);
    const letter = JSON.stringify({ messageId: 'm', canaryKey: wrong, body: '{}' });
    assert.ok(!('canaryKey' in decodeDeadLetter(letter)), wrong);
  }
});

test('a canary key counts towards the size of a message', async () => {
  const room = LIMITS.messageBytes - attributesBytes(newAttributes('i', undefined, { canaryKey: KEY }));
  const sent: MessageAttributes[] = [];
  const sender = { send: async (_: string, attributes: MessageAttributes) => void sent.push(attributes) };
  const record = { uri: 'a', identity: 'i', canaryKey: KEY };
  await submit(sender, undefined, { ...record, message: 'x'.repeat(room) });
  assert.deepEqual(sent, [newAttributes('i', undefined, { canaryKey: KEY })]);
  const refused = submit(sender, undefined, { ...record, message: 'x'.repeat(room + 1) });
  await assert.rejects(refused, { code: 'too_large', uri: 'a' });
});
