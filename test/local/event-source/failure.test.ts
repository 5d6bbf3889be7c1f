import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import {
  DeleteMessageBatchCommand,
  GetQueueAttributesCommand,
  ReceiveMessageCommand,
  SendMessageBatchCommand,
  SQSClient,
} from '@aws-sdk/client-sqs';
import type { SQSBatchResponse } from 'aws-lambda';
import { type LocalAws, type LocalQueue, type LocalQueueOptions, startAws } from '../../../local/aws/aws.ts';
import { type Poller, type PollerOptions, startPoller } from '../../../local/event-source/poller.ts';

const logged: string[] = [];
const log = {
  info: () => undefined,
  warn: (message: string) => logged.push(message),
  error: (message: string) => logged.push(message),
};
let aws: LocalAws;
let queues = 0;
const pollers: Poller[] = [];

before(async () => {
  aws = await startAws({ port: 0, log });
});
after(async () => {
  await Promise.all(pollers.map((poller) => poller.close()));
  await aws.close();
});

async function newQueue(options: Partial<LocalQueueOptions> = {}): Promise<LocalQueue> {
  queues += 1;
  return aws.createQueue({ name: `q${queues}`, visibilitySeconds: 600, ...options });
}

async function poll(queue: LocalQueue, options: Partial<PollerOptions> & Pick<PollerOptions, 'handler'>) {
  const poller = await startPoller({
    sqs: aws.sqs,
    queueUrl: queue.url,
    functionName: 'batch',
    batchSize: 10,
    windowSeconds: 0,
    maximumConcurrency: 1,
    functionTimeoutMs: 5000,
    log,
    ...options,
  });
  pollers.push(poller);
  return poller;
}

async function send(queue: LocalQueue, bodies: readonly string[]): Promise<void> {
  const Entries = bodies.map((MessageBody, id) => ({ Id: String(id), MessageBody }));
  await aws.sqs.send(new SendMessageBatchCommand({ QueueUrl: queue.url, Entries }));
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

/** A real client that fails the first `times` calls of one kind before they reach the network. */
function failingClient(command: string, times: number): SQSClient {
  const sqs = new SQSClient({ endpoint: aws.url, region: aws.region, credentials: aws.credentials });
  let left = times;
  sqs.middlewareStack.add(
    (next, context) => async (args) => {
      if (context.commandName !== command || left === 0) return next(args);
      left -= 1;
      throw new Error(`${command} fails`);
    },
    { step: 'initialize' },
  );
  return sqs;
}

describe('a batch that fails as a whole', () => {
  const never = () => new Promise<never>(() => undefined);
  for (const [why, handler, message] of [
    ['a handler that throws', () => Promise.reject(new Error('boom')), 'the handler threw'],
    ['a handler that throws before its first await', () => assert.fail('boom'), 'the handler threw'],
    ['a handler that hangs', never, 'no result after 50 ms'],
    [
      'an unknown message id',
      async () => ({ batchItemFailures: [{ itemIdentifier: 'x' }] }),
      'itemIdentifier is not a message of this batch: "x"',
    ],
    [
      'an empty id',
      async () => ({ batchItemFailures: [{ itemIdentifier: '' }] }),
      'a failure has no itemIdentifier',
    ],
  ] as const) {
    it(`stays in the queue, hidden, after ${why}`, async () => {
      const queue = await newQueue();
      await send(queue, ['a', 'b', 'c']);
      logged.length = 0;
      const run: () => Promise<SQSBatchResponse> = handler;
      const poller = await poll(queue, {
        handler: run,
        functionTimeoutMs: why.includes('hangs') ? 50 : 5000,
      });
      await untilTrue(() => poller.stats().failedMessages === 3);
      await poller.idle();
      assert.deepEqual(await counts(queue.url), { visible: 0, hidden: 3 });
      assert.equal(poller.stats().deleted, 0);
      assert.ok(
        logged.some((line) => line.startsWith('the whole batch failed') && line.includes(message)),
        String(logged),
      );
    });
  }

  it('continues with the next messages after a handler that hung', async () => {
    const queue = await newQueue();
    await send(queue, ['hang']);
    const poller = await poll(queue, {
      functionTimeoutMs: 50,
      handler: (event) =>
        event.Records[0]?.body === 'hang' ? never() : Promise.resolve({ batchItemFailures: [] }),
    });
    await untilTrue(() => poller.stats().failedMessages === 1);
    await send(queue, ['go']);
    await untilTrue(() => poller.stats().deleted === 1);
  });

  it('ends in the dead-letter queue when its handler always throws', async () => {
    const queue = await newQueue({ visibilitySeconds: 1, maxReceiveCount: 1 });
    await send(queue, ['a', 'b']);
    await poll(queue, { functionTimeoutMs: 1000, handler: () => Promise.reject(new Error('boom')) });
    await untilTrue(async () => (await counts(queue.deadLetter?.url ?? '')).visible === 2);
    assert.deepEqual(await counts(queue.url), { visible: 0, hidden: 0 });
  });
});

describe('a poller whose SQS fails', () => {
  it('continues receiving when SQS is back', async () => {
    const queue = await newQueue();
    await send(queue, ['a']);
    const poller = await poll(queue, {
      sqs: failingClient(ReceiveMessageCommand.name, 2),
      random: () => 0,
      handler: async () => undefined,
    });
    await untilTrue(() => poller.stats().deleted === 1);
    assert.equal(poller.stats().receiveErrors, 2);
  });

  it('deletes what is done although deleting failed at first, and invokes no second time', async () => {
    const queue = await newQueue();
    await send(queue, ['a', 'b']);
    const poller = await poll(queue, {
      sqs: failingClient(DeleteMessageBatchCommand.name, 1),
      random: () => 0,
      handler: async () => undefined,
    });
    await untilTrue(() => poller.stats().deleted === 2);
    assert.equal(poller.stats().invocations, 1);
    assert.deepEqual(await counts(queue.url), { visible: 0, hidden: 0 });
  });

  it('refuses a queue that is not there', async () => {
    const missing = { ...(await newQueue()), url: `${aws.url}/000000000000/missing` };
    await assert.rejects(poll(missing, { handler: async () => undefined }), { code: 'queue_unavailable' });
  });

  it('refuses a visibility timeout shorter than the function timeout', async () => {
    const queue = await newQueue({ visibilitySeconds: 5 });
    const started = poll(queue, { handler: async () => undefined, functionTimeoutMs: 6000 });
    await assert.rejects(started, /visibility timeout \(5 s\) is less than the function's timeout \(6 s\)/);
  });

  it('refuses options Lambda would refuse, all of them at once', async () => {
    const queue = { ...(await newQueue()), url: `${aws.url}/000000000000/q.fifo` };
    const bad = { batchSize: 20_000, windowSeconds: 0.5, maximumConcurrency: 0, functionTimeoutMs: 1e7 };
    await assert.rejects(poll(queue, { handler: async () => undefined, ...bad }), (error: Error) => {
      for (const part of Object.keys(bad))
        assert.match(error.message, new RegExp(`${part} must be a whole number`));
      assert.match(error.message, /above 10 and needs windowSeconds/);
      assert.match(error.message, /FIFO/);
      return true;
    });
  });
});

describe('closing a poller', () => {
  it('gives back at once what was received and not invoked', async () => {
    const queue = await newQueue();
    await send(queue, ['a', 'b', 'c']);
    const poller = await poll(queue, {
      batchSize: 100,
      windowSeconds: 300,
      handler: () => assert.fail('the window has not ended'),
    });
    await untilTrue(() => poller.stats().pending === 3);
    await poller.close();
    assert.equal(poller.stats().returned, 3);
    assert.equal(poller.stats().invocations, 0);
    await untilTrue(async () => (await counts(queue.url)).visible === 3);
  });

  it('leaves no long poll behind that would take the next message', async () => {
    const queue = await newQueue();
    const poller = await poll(queue, { handler: async () => undefined });
    await send(queue, ['first']);
    await untilTrue(() => poller.stats().deleted === 1);
    await poller.close();
    await send(queue, ['later']);
    const receive = new ReceiveMessageCommand({
      QueueUrl: queue.url,
      WaitTimeSeconds: 5,
      MessageSystemAttributeNames: ['All'],
    });
    const [message] = (await aws.sqs.send(receive)).Messages ?? [];
    assert.equal(message?.Body, 'later');
    assert.equal(message.Attributes?.ApproximateReceiveCount, '1');
  });

  it('waits for the invocation under way and deletes its messages', async () => {
    const queue = await newQueue();
    await send(queue, ['a']);
    const open = Promise.withResolvers<void>();
    const poller = await poll(queue, { handler: () => open.promise });
    await untilTrue(() => poller.stats().running === 1);
    const closed = poller.close();
    open.resolve();
    await closed;
    assert.equal(poller.stats().deleted, 1);
    assert.deepEqual(await counts(queue.url), { visible: 0, hidden: 0 });
  });

  it('does not wait longer than its limit for a handler that hangs', async () => {
    const queue = await newQueue();
    await send(queue, ['a']);
    const poller = await poll(queue, { closeTimeoutMs: 20, handler: () => new Promise(() => undefined) });
    await untilTrue(() => poller.stats().running === 1);
    logged.length = 0;
    await poller.close();
    assert.match(logged.join('\n'), /closed with 1 invocations running/);
    assert.deepEqual(await counts(queue.url), { visible: 0, hidden: 1 });
  });
});
