/** How long a record may wait, as an attribute of its message, in its dead letter and in the replay of that. */
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
import { assertSchedule, scheduleOfTexts } from '../../../lib/contract/schedule.ts';
import { readTrace } from '../../../lib/contract/trace.ts';
import { submit } from '../../../lib/pipeline/submit.ts';

const received = (attributes: MessageAttributes) =>
  enqueueOf({
    messageId: 'm',
    attributes: { SentTimestamp: '1000' },
    messageAttributes: Object.fromEntries(
      Object.entries(attributes).map(([name, { StringValue }]) => [name, { stringValue: StringValue }]),
    ),
  });

test('expiresAfter survives the dead letter and its replay, with every other attribute in the ten of SQS', () => {
  const trace = readTrace({
    traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01',
    tracestate: 'vendor=1',
  });
  const said = { notify: 'flow', taskToken: 'token', canaryKey: 'k', expiresAfter: 30 };
  const enqueue = received(newAttributes('i', trace, said));
  assert.equal(enqueue.expiresAfter, 30);
  const text = encodeDeadLetter({ ...enqueue, messageId: 'm', attempts: 5, body: '{"uri":"a"}' });
  const attributes = replayAttributes(replayOf(decodeDeadLetter(text)));
  assert.ok(Object.keys(attributes).length <= 10);
  assert.deepEqual(received(attributes), { ...enqueue, replays: 1 });
});

test('an expiresAfter that no sender of ours writes is ignored, in a message and in a dead letter', () => {
  for (const wrong of ['', '0', '-1', '1.5', 'soon', '1209601', '9007199254740993']) {
    const attribute = { expiresAfter: { DataType: 'Number', StringValue: wrong } } as const;
    assert.ok(!('expiresAfter' in received(attribute)), wrong);
  }
  for (const wrong of [0, 1.5, '30', null, 1_209_601]) {
    const letter = JSON.stringify({ messageId: 'm', expiresAfter: wrong, body: '{}' });
    assert.ok(!('expiresAfter' in decodeDeadLetter(letter)), String(wrong));
  }
});

test('a delay reaches the queue with a message and with a pointer, and expiresAfter counts towards the size', async () => {
  const sent: { readonly body: string; readonly delay: number | undefined }[] = [];
  const send = async (body: string, _: MessageAttributes, _group?: string, delay?: number) =>
    void sent.push({ body, delay });
  const record = { uri: 'a', identity: 'i', expiresAfter: 1_000, delaySeconds: 900 };
  const room = LIMITS.messageBytes - attributesBytes(newAttributes('i', undefined, { expiresAfter: 1_000 }));
  const large = async () => ({ put: async () => 'payloads/job/key' });
  await submit({ send }, large, { ...record, message: 'x'.repeat(room) });
  await submit({ send }, large, { ...record, message: 'x'.repeat(room + 1) });
  assert.deepEqual(
    sent.map(({ body, delay }) => [body.length === room, delay]),
    [
      [true, 900],
      [false, 900],
    ],
  );
});

test('times at which a record cannot run are refused with the key, the limits and what was given', () => {
  const refusal = (given: object, ttl = 0) => {
    try {
      return assertSchedule(given, { recordTtlSeconds: ttl });
    } catch (error) {
      return (error as Error).message;
    }
  };
  for (const [given, ttl, message] of [
    [{ expiresAfter: 0 }, 0, 'expiresAfter: expected whole seconds from 1 to 1209600, got 0'],
    [{ expiresAfter: '60' }, 0, 'expiresAfter: expected whole seconds from 1 to 1209600, got "60"'],
    [{ expiresAfter: null }, 0, 'expiresAfter: expected whole seconds from 1 to 1209600, got null'],
    [{ delaySeconds: 901 }, 0, 'delaySeconds: expected whole seconds from 0 to 900, got 901'],
    [{ delaySeconds: 0.5 }, 0, 'delaySeconds: expected whole seconds from 0 to 900, got 0.5'],
    [
      { expiresAfter: 60, delaySeconds: 60 },
      0,
      'delaySeconds: with 60 and expiresAfter 60 the record would never run',
    ],
    [
      { expiresAfter: 90, delaySeconds: 60 },
      50,
      'delaySeconds: with 60 and queue.recordTtlSeconds 50 the record would never run',
    ],
    [
      { delaySeconds: 60 },
      50,
      'delaySeconds: with 60 and queue.recordTtlSeconds 50 the record would never run',
    ],
  ] as const)
    assert.equal(refusal(given, ttl), message);
  const least = { expiresAfter: 1, delaySeconds: 0, priority: 'high' };
  assert.deepEqual(refusal(least), least);
  const most = { expiresAfter: 1_209_600, delaySeconds: 900, priority: undefined };
  assert.deepEqual(refusal(most, 901), most);
});

test('a parameter of a query is a number where it is written as one, and else its error shows it', () => {
  assert.equal(scheduleOfTexts({ expiresAfter: '60' }).expiresAfter, 60);
  for (const text of ['', '1e2', ' 5', '0x10', '-1', '9'.repeat(30)])
    assert.throws(() => assertSchedule(scheduleOfTexts({ delaySeconds: text })), {
      code: 'bad_request',
      message: `delaySeconds: expected whole seconds from 0 to 900, got ${JSON.stringify(text).slice(0, 40)}`,
    });
});
