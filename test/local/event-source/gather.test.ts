import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { toRecord } from '../../../local/event-source/event.ts';
import { Gatherer, type HeldMessage } from '../../../local/event-source/gather.ts';
import fc from '../../support/fast-check.ts';

const queue = { arn: 'arn:aws:sqs:us-east-1:000000000000:q', region: 'us-east-1' };

function held(name: string, arrivedMs = 0, bytes = 1): HeldMessage {
  const record = toRecord({ MessageId: name, ReceiptHandle: name, Body: '' }, queue);
  return { messageId: name, receiptHandle: name, record, bytes, arrivedMs };
}
const many = (count: number, arrivedMs = 0) =>
  Array.from({ length: count }, (_, index) => held(`m${index}`, arrivedMs));
const names = (batch: readonly HeldMessage[] | undefined) => batch?.map((message) => message.messageId);

describe('gathering a batch', () => {
  it('closes at once without a window', () => {
    const gatherer = new Gatherer({ batchSize: 10, windowMs: 0, maxBytes: 100 });
    assert.equal(gatherer.take(5), undefined);
    gatherer.add([held('a', 5)]);
    assert.deepEqual(names(gatherer.take(5)), ['a']);
    assert.equal(gatherer.size, 0);
    assert.equal(gatherer.dueAtMs(), undefined);
  });

  it('stays open until the window of its first message ends', () => {
    const gatherer = new Gatherer({ batchSize: 10, windowMs: 1000, maxBytes: 100 });
    gatherer.add([held('a', 500)]);
    gatherer.add([held('b', 1400)]);
    assert.equal(gatherer.dueAtMs(), 1500);
    assert.equal(gatherer.take(1499), undefined);
    assert.deepEqual(names(gatherer.take(1500)), ['a', 'b']);
  });

  it('closes before its window ends when it is full, and leaves the rest its own window', () => {
    const gatherer = new Gatherer({ batchSize: 3, windowMs: 1000, maxBytes: 100 });
    gatherer.add([held('a', 0), held('b', 0)]);
    gatherer.add([held('c', 400), held('d', 400)]);
    assert.deepEqual(names(gatherer.take(400)), ['a', 'b', 'c']);
    assert.equal(gatherer.take(400), undefined);
    assert.equal(gatherer.dueAtMs(), 1400);
  });

  it('closes before the message that would pass the size limit', () => {
    const gatherer = new Gatherer({ batchSize: 10, windowMs: 1000, maxBytes: 100 });
    gatherer.add([held('a', 0, 60), held('b', 0, 40)]);
    assert.equal(gatherer.take(0), undefined);
    gatherer.add([held('c', 0, 1)]);
    assert.deepEqual(names(gatherer.take(0)), ['a', 'b']);
    assert.equal(gatherer.bytes, 1);
  });

  it('hands on a single message over the size limit rather than keeping it forever', () => {
    const gatherer = new Gatherer({ batchSize: 10, windowMs: 1000, maxBytes: 100 });
    gatherer.add([held('a', 0, 500), held('b', 0, 1)]);
    assert.deepEqual(names(gatherer.take(0)), ['a']);
  });

  it('drains what is open and what is closed', () => {
    const gatherer = new Gatherer({ batchSize: 3, windowMs: 1000, maxBytes: 100 });
    gatherer.add(many(5));
    assert.equal(gatherer.drain().length, 5);
    assert.equal(gatherer.size + gatherer.bytes, 0);
  });

  it('loses, doubles and reorders nothing, and breaks no limit, however messages come', () => {
    const arrivals = fc.array(fc.record({ bytes: fc.integer({ min: 1, max: 60 }), afterMs: fc.nat(400) }), {
      maxLength: 60,
    });
    fc.assert(
      fc.property(arrivals, fc.integer({ min: 1, max: 9 }), (messages, batchSize) => {
        const gatherer = new Gatherer({ batchSize, windowMs: 300, maxBytes: 100 });
        const out: string[] = [];
        let nowMs = 0;
        const takeAll = () => {
          for (let batch = gatherer.take(nowMs); batch !== undefined; batch = gatherer.take(nowMs)) {
            const bytes = batch.reduce((sum, message) => sum + message.bytes, 0);
            assert.ok(batch.length >= 1 && batch.length <= batchSize && bytes <= 100);
            out.push(...batch.map((message) => message.messageId));
          }
          const dueAtMs = gatherer.dueAtMs();
          assert.ok(dueAtMs === undefined || dueAtMs > nowMs, 'nothing waits beyond its window');
        };
        for (const [index, { bytes, afterMs }] of messages.entries()) {
          nowMs += afterMs;
          gatherer.add([held(`m${index}`, nowMs, bytes)]);
          takeAll();
        }
        nowMs += 300;
        takeAll();
        assert.deepEqual(
          out,
          messages.map((_, index) => `m${index}`),
        );
      }),
    );
  });
});
