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

test('malformed attributes and fields are no trace, and cost the record nothing', () => {
  const malformed = { StringValue: 'nonsense', DataType: 'String' } as const;
  const enqueue = enqueueOf(delivered({ ...newAttributes('i'), traceparent: malformed }));
  assert.deepEqual(enqueue, { identity: 'i', sentAt: 1_000, replays: 0 });
  const letter = decodeDeadLetter('{"messageId":"m","traceparent":["x"],"body":"{}"}');
  assert.equal(letter.trace, undefined);
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

test('what an operator should read of a record names its trace', (t) => {
  const error = new ServingError('internal', 'no');
  const enqueue = { identity: 'i', sentAt: 0, replays: 0, trace: TRACE };
  const finished = [{ id: 'm', enqueue, uri: 'a', outcome: { ok: false, error } as const }];
  const lines: string[] = [];
  t.mock.method(process.stdout, 'write', (text: string) => lines.push(text));
  FAILURES.chunkServed?.({ finished, returned: [{ id: 'n', error, trace: TRACE }] });
  t.mock.restoreAll();
  assert.deepEqual(
    lines.map((line) => (JSON.parse(line) as { trace_id: string }).trace_id),
    [TRACE?.traceId, TRACE?.traceId],
  );
});
