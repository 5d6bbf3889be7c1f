/** The line of a queue does what the array does that it replaces. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { withReadyLine } from '../../../local/aws/ready-line.ts';
import { openStorage } from '../../../local/aws/storage.ts';
import type { SqsQueue } from '../../../local/aws/stores.ts';
import fc from '../../support/fast-check.ts';

type Message = SqsQueue['messages'][number];

/** A queue as far as the line sees it. */
const queueOf = (messages: number[]) => withReadyLine({ messages } as unknown as SqsQueue);

test('messages come out in the order in which they went in, after any use of the line', () => {
  const step = fc.oneof(
    fc.nat({ max: 3_000 }).map((count) => ({ push: count })),
    fc.nat({ max: 3_000 }).map((count) => ({ take: count })),
    fc.constant('purge' as const),
  );
  fc.assert(
    fc.property(fc.array(step, { maxLength: 20 }), fc.nat({ max: 5 }), (steps, before) => {
      let next = before;
      let expected = Array.from({ length: before }, (_, i) => i);
      const queue = queueOf([...expected]);
      const line = () => queue.messages as unknown as number[];
      for (const each of steps) {
        if (each === 'purge') {
          queue.messages = [];
          expected = [];
        } else if ('push' in each) {
          for (let i = 0; i < each.push; i++) {
            assert.equal(line().push(next), expected.push(next));
            next++;
          }
        } else {
          for (let i = 0; i < each.take; i++) assert.equal(line().shift(), expected.shift());
        }
        assert.equal(line().length, expected.length);
        assert.equal(line().at(0), expected.at(0));
        assert.deepEqual([...line()], expected);
      }
    }),
    { numRuns: 60 },
  );
});

test('the queues of the store have it, those that are read from the data folder too, and only once', async () => {
  const { stores } = await openStorage(undefined);
  const queue = stores.sqsStore.createQueue('q', 'http://localhost/q', 'arn:q', {}, {});
  const line = queue.messages;
  assert.notEqual(Object.getPrototypeOf(line), Array.prototype);
  line.push({ messageId: 'a' } as Message);
  assert.equal(withReadyLine(queue).messages, line);
  assert.equal(stores.sqsStore.getQueue('http://localhost/q')?.messages.length, 1);
});
