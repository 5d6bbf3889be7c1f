import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  DeleteMessageBatchCommand,
  GetQueueAttributesCommand,
  ReceiveMessageCommand,
} from '@aws-sdk/client-sqs';
import type { SqsCalls } from '../../../local/aws/direct.ts';
import { startPoller } from '../../../local/event-source/poller.ts';
import { until } from '../../support/until.ts';

interface Call {
  readonly ask: number;
  /** Answers the call with that many messages. */
  readonly bring: (count: number) => void;
}

/** An SQS whose receive calls are answered by the test. */
function heldSqs() {
  const calls: Call[] = [];
  let last = 0;
  const message = () => ({ MessageId: `m${++last}`, ReceiptHandle: `r${last}`, Body: '{}' });
  const send = (command: unknown, { abortSignal }: { abortSignal?: AbortSignal } = {}) => {
    if (command instanceof GetQueueAttributesCommand) {
      return Promise.resolve({ Attributes: { QueueArn: 'arn:aws:sqs:local:0:q', VisibilityTimeout: '180' } });
    }
    if (command instanceof DeleteMessageBatchCommand) return Promise.resolve({});
    assert.ok(command instanceof ReceiveMessageCommand);
    return new Promise((resolve, reject) => {
      const bring = (count: number) => resolve({ Messages: Array.from({ length: count }, message) });
      calls.push({ ask: command.input.MaxNumberOfMessages ?? 0, bring });
      abortSignal?.addEventListener('abort', () => reject(abortSignal.reason as Error));
    });
  };
  return { calls, sqs: { send } as unknown as SqsCalls };
}

test('messages of calls that were under way wait for a free invocation', async (t) => {
  const { calls, sqs } = heldSqs();
  const waiting: (() => void)[] = [];
  const log = { info: () => undefined, warn: () => undefined, error: () => undefined };
  const poller = await startPoller({
    sqs,
    queueUrl: 'http://sqs.example/0/q',
    handler: () => new Promise((resolve) => void waiting.push(() => resolve())),
    functionName: 'batch',
    batchSize: 7,
    windowSeconds: 0,
    maximumConcurrency: 4,
    functionTimeoutMs: 30_000,
    closeTimeoutMs: 0,
    log,
  });
  t.after(() => poller.close());
  // A full call doubles the number of calls at once.
  calls.shift()?.bring(10);
  await until(async () => waiting.length === 2 && calls.length === 2);
  const [first, second] = calls.splice(0) as [Call, Call];
  assert.deepEqual([first.ask, second.ask], [10, 4]);
  // Two batches of the first; the four of the second have to wait.
  first.bring(8);
  await until(async () => waiting.length === 4);
  second.bring(4);
  await until(async () => poller.stats().received === 22);
  assert.deepEqual([poller.stats().running, poller.stats().pending, waiting.length], [4, 4, 4]);
  for (const end of waiting.splice(0)) end();
  await until(async () => waiting.length === 1);
  for (const end of waiting.splice(0)) end();
});

test('a close waits for what runs as long as a function may, and 10 s at most', async (t) => {
  const turns = async () => {
    for (let turn = 0; turn < 20; turn++) await new Promise(setImmediate);
  };
  t.mock.timers.enable({ apis: ['setTimeout'] });
  for (const [functionTimeoutMs, closeTimeoutMs, expectedMs] of [
    [180_000, undefined, 10_000],
    [4_000, undefined, 4_000],
    [4_000, 7_000, 7_000],
  ] as const) {
    const { calls, sqs } = heldSqs();
    const warned: string[] = [];
    const poller = await startPoller({
      sqs,
      queueUrl: 'http://sqs.example/0/q',
      handler: () => new Promise(() => undefined),
      functionName: 'batch',
      batchSize: 1,
      windowSeconds: 0,
      maximumConcurrency: 1,
      functionTimeoutMs,
      ...(closeTimeoutMs && { closeTimeoutMs }),
      // A function whose clock stands still has always time.
      functionClock: () => 0,
      log: { info: () => undefined, warn: (message) => warned.push(message), error: () => undefined },
    });
    calls.shift()?.bring(1);
    await turns();
    assert.equal(poller.stats().running, 1);
    let isClosed = false;
    void poller.close().finally(() => {
      isClosed = true;
    });
    await turns();
    t.mock.timers.tick(expectedMs - 1);
    await turns();
    assert.equal(isClosed, false);
    t.mock.timers.tick(1);
    await turns();
    assert.equal(isClosed, true);
    assert.deepEqual(warned, ['closed with 1 invocations running; their messages come again']);
  }
});
