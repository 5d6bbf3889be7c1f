/** A trace context on its way through the queue, the dead letters and back, beside what names its record. */
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
import { ServingError } from '../../../lib/contract/errors.ts';
import { LIMITS } from '../../../lib/contract/limits.ts';
import { readTrace } from '../../../lib/contract/trace.ts';
import { FAILURES } from '../../../lib/observe/failures.ts';
import { submit } from '../../../lib/pipeline/submit.ts';

const TRACE = readTrace({
  traceparent: `00-${'a'.repeat(32)}-${'b'.repeat(16)}-01`,
  tracestate: 'vendor=1',
});

const delivered = (attributes: MessageAttributes) => ({
  messageId: 'm',
  attributes: { SentTimestamp: '1000' },
  messageAttributes: Object.fromEntries(
    Object.entries(attributes).map(([name, { StringValue }]) => [name, { stringValue: StringValue }]),
  ),
});

test('a message, its dead letter and the replay of that keep the trace, and the identity is the same without it', () => {
  assert.ok(TRACE);
  const enqueue = enqueueOf(delivered(newAttributes('i', TRACE)));
  assert.deepEqual(enqueue, { identity: 'i', sentAt: 1_000, replays: 0, trace: TRACE });
  assert.deepEqual(enqueueOf(delivered(newAttributes('i'))), { identity: 'i', sentAt: 1_000, replays: 0 });
  const letter = { messageId: 'm', ...enqueue, attempts: 5, body: '{"uri":"a"}' };
  const text = encodeDeadLetter(letter);
  // A listing reads the first bytes of a file only.
  assert.ok(text.indexOf('traceparent') < text.indexOf('"body"'));
  assert.deepEqual(decodeDeadLetter(text), letter);
  const attributes = replayAttributes(replayOf(letter));
  assert.ok(Object.keys(attributes).length <= 10);
  assert.deepEqual(enqueueOf(delivered(attributes)), { ...enqueue, replays: 1 });
});

test('malformed attributes and fields give no trace, and do not affect the record', () => {
  const malformed = { StringValue: 'nonsense', DataType: 'String' } as const;
  const enqueue = enqueueOf(delivered({ ...newAttributes('i'), traceparent: malformed }));
  assert.deepEqual(enqueue, { identity: 'i', sentAt: 1_000, replays: 0 });
  const letter = decodeDeadLetter('{"messageId":"m","traceparent":["x"],"body":"{}"}');
  assert.equal(letter.trace, undefined);
});

test('an identity that breaks lists, a time in the future and a count that is none are not believed', () => {
  const text = (StringValue: string) => ({ DataType: 'String', StringValue }) as const;
  for (const [identity, expected] of [
    ['x'.repeat(64), 'x'.repeat(64)],
    ['A-z_0.9', 'A-z_0.9'],
    ...['a b', '', '~', 'a\n', 'ä', 'a:b', 'x'.repeat(65)].map((refused) => [refused, 'm'] as const),
  ] as const) {
    assert.equal(enqueueOf(delivered(newAttributes(identity))).identity, expected, identity);
    const letter = JSON.stringify({ messageId: 'm', identity, body: '{}' });
    assert.equal(decodeDeadLetter(letter).identity, expected, identity);
  }
  for (const [original, sentAt] of [
    ['999', 999],
    ['1000', 1_000],
    ['1001', 1_000],
    ['9007199254740991', 1_000],
    ...['', 'soon', '-1', '1.5', '1e400', '9007199254740992'].map((none) => [none, 0] as const),
  ] as const) {
    const { sentAt: got } = enqueueOf(delivered({ originalSentTimestamp: text(original) }));
    assert.equal(got, sentAt, original);
  }
  for (const [replays, expected] of [
    ['2', 2],
    ['-1', 0],
    ['1.5', 0],
    ['x', 0],
    ['9007199254740992', 0],
  ] as const)
    assert.equal(enqueueOf(delivered({ replays: text(replays) })).replays, expected, replays);
});

test('the number that the queue of a single machine gives comes before the time, and not the twenty digits of a FIFO queue', () => {
  for (const [SequenceNumber, sentAt] of [
    ['7', 7],
    ['18849496460467696128', 1_000],
    [undefined, 1_000],
  ] as const) {
    const attributes = { SentTimestamp: '1000', SequenceNumber };
    assert.equal(enqueueOf({ messageId: 'm', attributes }).sentAt, sentAt);
  }
});

test('a dead letter without numbers of its own is read as one that was sent once, at an unknown time', () => {
  const { sentAt, replays, attempts, groupId } = decodeDeadLetter(
    '{"messageId":"m","sentAt":"1","replays":null,"attempts":1e999,"groupId":7,"body":"{}"}',
  );
  assert.deepEqual([sentAt, replays, attempts, groupId], [undefined, 0, undefined, undefined]);
});

test('a record that has room for no trace is sent without it', async () => {
  const sent: MessageAttributes[] = [];
  const sender = { send: async (_: string, attributes: MessageAttributes) => void sent.push(attributes) };
  const room = LIMITS.messageBytes - attributesBytes(newAttributes('i'));
  const record = { uri: 'a', identity: 'i', trace: TRACE };
  await submit(sender, undefined, { ...record, message: 'x'.repeat(room) });
  await submit(sender, undefined, { ...record, message: 'x' });
  assert.deepEqual(sent, [newAttributes('i'), newAttributes('i', TRACE)]);
  await assert.rejects(submit(sender, undefined, { ...record, message: 'x'.repeat(room + 1) }), {
    code: 'too_large',
  });
});

test('what an operator should read of a record names its trace and the version of the model', (t) => {
  const error = new ServingError('internal', 'no');
  const enqueue = { identity: 'i', sentAt: 0, replays: 0, trace: TRACE };
  const finished = [{ id: 'm', enqueue, uri: 'a', outcome: { ok: false, error } as const }];
  const lines: string[] = [];
  t.mock.method(process.stdout, 'write', (text: string) => lines.push(text));
  FAILURES.chunkServed?.({ version: 'v', finished, returned: [{ id: 'n', error, trace: TRACE }] });
  t.mock.restoreAll();
  assert.deepEqual(
    lines.map((line) => {
      const { trace_id, model_version } = JSON.parse(line) as Record<string, unknown>;
      return [trace_id, model_version];
    }),
    [
      [TRACE?.traceId, 'v'],
      [TRACE?.traceId, 'v'],
    ],
  );
});
