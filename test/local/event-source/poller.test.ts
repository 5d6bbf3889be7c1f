import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { GetQueueAttributesCommand, SendMessageBatchCommand, SendMessageCommand } from '@aws-sdk/client-sqs';
import type { SQSEvent } from 'aws-lambda';
import { type LocalAws, type LocalQueue, type LocalQueueOptions, startAws } from '../../../local/aws/aws.ts';
import { type Poller, type PollerOptions, startPoller } from '../../../local/event-source/poller.ts';

const quiet = { info: () => undefined, warn: () => undefined, error: () => undefined };
let aws: LocalAws;
/** How the poller under test reaches its queue. */
let calls: PollerOptions['sqs'];
let queues = 0;
const pollers: Poller[] = [];

before(async () => {
  aws = await startAws({ port: 0, log: quiet });
});
after(async () => {
  await Promise.all(pollers.map((poller) => poller.close()));
  await aws.close();
});

async function newQueue(options: Partial<LocalQueueOptions> = {}): Promise<LocalQueue> {
  queues += 1;
  return aws.createQueue({ name: `q${queues}`, ...options });
}

async function poll(queue: LocalQueue, options: Partial<PollerOptions> & Pick<PollerOptions, 'handler'>) {
  const poller = await startPoller({
    sqs: calls,
    queueUrl: queue.url,
    functionName: 'batch',
    batchSize: 10,
    windowSeconds: 0,
    maximumConcurrency: 2,
    functionTimeoutMs: 1000,
    log: quiet,
    ...options,
  });
  pollers.push(poller);
  return poller;
}

/** A poller whose window ends only when the test says so, and then takes one more message with it. */
async function pollOnOwnTime(queue: LocalQueue, batchSize: number, handler: PollerOptions['handler']) {
  let nowMs = 0;
  const poller = await poll(queue, {
    batchSize,
    handler,
    windowSeconds: 300,
    functionTimeoutMs: 10_000,
    clock: () => nowMs,
  });
  const endWindow = () => {
    nowMs += 300_000;
    return send(queue, ['last']);
  };
  return { poller, endWindow };
}

async function send(queue: LocalQueue, bodies: readonly string[]): Promise<void> {
  for (let start = 0; start < bodies.length; start += 10) {
    const Entries = bodies
      .slice(start, start + 10)
      .map((MessageBody, id) => ({ Id: String(id), MessageBody }));
    await aws.sqs.send(new SendMessageBatchCommand({ QueueUrl: queue.url, Entries }));
  }
}

async function counts(url: string): Promise<{ visible: number; hidden: number }> {
  const { Attributes = {} } = await aws.sqs.send(
    new GetQueueAttributesCommand({ QueueUrl: url, AttributeNames: ['All'] }),
  );
  const hidden = Number(Attributes.ApproximateNumberOfMessagesNotVisible);
  return { visible: Number(Attributes.ApproximateNumberOfMessages), hidden };
}

async function untilTrue(condition: () => boolean | Promise<boolean>): Promise<void> {
  const deadline = Date.now() + 60_000;
  while (!(await condition())) {
    assert.ok(Date.now() < deadline, 'the condition did not come true in 60 s');
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

const numbered = (count: number) => Array.from({ length: count }, (_, index) => `m${index}`);
const bodiesOf = (event: SQSEvent) => event.Records.map((record) => record.body);
const gate = () => Promise.withResolvers<void>();

for (const way of ['sqs', 'direct'] as const) {
  describe(`poller, ${way === 'sqs' ? 'over HTTP' : 'in the process of the queue'}`, () => {
    before(() => {
      calls = aws[way];
    });

    it('passes each message once, with what the queue says about it, and deletes it', async () => {
      const queue = await newQueue();
      const attributes = { kind: { DataType: 'String', StringValue: 'λ' } };
      const command = { QueueUrl: queue.url, MessageBody: 'hello', MessageAttributes: attributes };
      const { MessageId } = await aws.sqs.send(new SendMessageCommand(command));
      const events: SQSEvent[] = [];
      const poller = await poll(queue, {
        handler: async (event, context) => {
          assert.equal(context.functionName, 'batch');
          assert.ok(context.getRemainingTimeInMillis() <= 1000);
          events.push(event);
        },
      });
      await untilTrue(() => poller.stats().deleted === 1);
      const record = events[0]?.Records[0];
      assert.equal(events.length, 1);
      assert.equal(record?.messageId, MessageId);
      assert.equal(record?.body, 'hello');
      assert.equal(record?.md5OfBody, '5d41402abc4b2a76b9719d911017c592');
      assert.equal(record?.attributes.ApproximateReceiveCount, '1');
      assert.ok(Math.abs(Number(record?.attributes.SentTimestamp) - Date.now()) < 60_000);
      assert.equal(record?.messageAttributes.kind?.stringValue, 'λ');
      assert.equal(record?.eventSourceARN, queue.arn);
      assert.equal(record?.awsRegion, 'us-east-1');
      assert.deepEqual(await counts(queue.url), { visible: 0, hidden: 0 });
    });

    it('invokes with up to batchSize messages and takes all of them', async () => {
      const queue = await newQueue();
      await send(queue, numbered(57));
      const seen: string[] = [];
      const sizes: number[] = [];
      const poller = await poll(queue, {
        batchSize: 4,
        maximumConcurrency: 8,
        handler: async (event) => {
          seen.push(...bodiesOf(event));
          sizes.push(event.Records.length);
        },
      });
      await untilTrue(() => poller.stats().deleted === 57);
      assert.deepEqual(new Set(seen), new Set(numbered(57)));
      assert.equal(seen.length, 57);
      assert.ok(Math.max(...sizes) <= 4);
      await poller.idle();
    });

    it('gathers several receives into one batch of more than ten', async () => {
      const queue = await newQueue();
      await send(queue, numbered(100));
      const sizes: number[] = [];
      const { poller, endWindow } = await pollOnOwnTime(
        queue,
        45,
        async (event) => void sizes.push(event.Records.length),
      );
      await untilTrue(() => poller.stats().deleted === 90 && poller.stats().pending === 10);
      assert.deepEqual(sizes, [45, 45]);
      await endWindow();
      await untilTrue(() => poller.stats().deleted === 101);
      assert.deepEqual(sizes, [45, 45, 11]);
    });

    it('gathers what trickles in during the window into one batch', async () => {
      const queue = await newQueue();
      const batches: string[][] = [];
      const { poller, endWindow } = await pollOnOwnTime(
        queue,
        10,
        async (event) => void batches.push(bodiesOf(event)),
      );
      for (const [index, body] of ['a', 'b', 'c'].entries()) {
        await send(queue, [body]);
        await untilTrue(() => poller.stats().pending === index + 1);
      }
      assert.deepEqual(batches, []);
      await endWindow();
      await untilTrue(() => poller.stats().deleted === 4);
      assert.deepEqual(batches, [['a', 'b', 'c', 'last']]);
    });

    it('invokes with what there is when the window ends', async () => {
      const queue = await newQueue();
      await send(queue, ['a']);
      const poller = await poll(queue, { batchSize: 100, windowSeconds: 1, handler: async () => undefined });
      await untilTrue(() => poller.stats().deleted === 1);
    });

    it('splits a batch before its event passes 6 MB', async () => {
      const queue = await newQueue({ visibilitySeconds: 60 });
      const body = 'x'.repeat(1024 * 1024 - 100);
      for (let index = 0; index < 9; index += 1) {
        await aws.sqs.send(new SendMessageCommand({ QueueUrl: queue.url, MessageBody: body }));
      }
      const sizes: number[] = [];
      const bytes: number[] = [];
      const { poller, endWindow } = await pollOnOwnTime(queue, 100, async (event) => {
        sizes.push(event.Records.length);
        bytes.push(Buffer.byteLength(JSON.stringify(event)));
      });
      await untilTrue(() => poller.stats().deleted === 5 && poller.stats().pending === 4);
      await endWindow();
      await untilTrue(() => poller.stats().deleted === 10);
      assert.deepEqual(sizes, [5, 5]);
      assert.ok(Math.max(...bytes) <= 6 * 1024 * 1024, String(bytes));
    });

    it('never runs more than maximumConcurrency invocations, and reaches that many', async () => {
      const queue = await newQueue();
      await send(queue, numbered(60));
      let running = 0;
      let most = 0;
      const open = gate();
      const poller = await poll(queue, {
        batchSize: 1,
        maximumConcurrency: 3,
        functionTimeoutMs: 10_000,
        handler: async () => {
          running += 1;
          most = Math.max(most, running);
          await open.promise;
          running -= 1;
        },
      });
      await untilTrue(() => running === 3);
      // An unreadable message stays in the queue, where others see it.
      assert.deepEqual(await counts(queue.url), { visible: 57, hidden: 3 });
      open.resolve();
      await untilTrue(() => poller.stats().deleted === 60);
      assert.equal(most, 3);
    });

    it('leaves the messages named in batchItemFailures in the queue and deletes the others', async () => {
      const queue = await newQueue({ visibilitySeconds: 600 });
      await send(queue, ['good', 'bad', 'fine']);
      const poller = await poll(queue, {
        windowSeconds: 1,
        handler: async (event) => ({
          batchItemFailures: event.Records.filter((record) => record.body === 'bad').map((record) => ({
            itemIdentifier: record.messageId,
          })),
        }),
      });
      await untilTrue(() => poller.stats().deleted === 2);
      assert.equal(poller.stats().failedMessages, 1);
      assert.equal(poller.stats().failedInvocations, 0);
      // Hidden until its visibility ends: the poller does not make it visible at once.
      assert.deepEqual(await counts(queue.url), { visible: 0, hidden: 1 });
    });

    it('moves a message that keeps failing to the dead-letter queue after maxReceiveCount receives', async () => {
      const queue = await newQueue({ visibilitySeconds: 1, maxReceiveCount: 2 });
      await send(queue, ['poison', 'good']);
      const receives: string[] = [];
      await poll(queue, {
        batchSize: 1,
        handler: async (event) => {
          const record = event.Records[0];
          if (record?.body !== 'poison') return { batchItemFailures: [] };
          receives.push(record.attributes.ApproximateReceiveCount);
          return { batchItemFailures: [{ itemIdentifier: record.messageId }] };
        },
      });
      const dead = queue.deadLetter?.url ?? '';
      await untilTrue(async () => (await counts(dead)).visible === 1);
      assert.deepEqual(receives, ['1', '2']);
      assert.deepEqual(await counts(queue.url), { visible: 0, hidden: 0 });
    });

    it('receives less often while every event fails, and as before once one succeeds', async () => {
      const queue = await newQueue({ visibilitySeconds: 600 });
      let isAway = true;
      let events = 0;
      const handler: PollerOptions['handler'] = async ({ Records }) => {
        events += 1;
        return {
          batchItemFailures: isAway ? Records.map(({ messageId: id }) => ({ itemIdentifier: id })) : [],
        };
      };
      for (let i = 0; i < 20; i++) await send(queue, Array(10).fill('record'));
      const poller = await poll(queue, { batchSize: 1, maximumConcurrency: 1, handler, random: () => 1 });
      await new Promise((resolve) => setTimeout(resolve, 1_500));
      // Pauses of 100, 200, 400 and 800 ms; without them all 200 were taken.
      assert.ok(events >= 1 && events <= 20, String(events));
      isAway = false;
      await untilTrue(() => poller.stats().deleted === 200 - poller.stats().failedMessages);
    });
  });
}
