import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { SqsCalls } from '../../../local/aws/direct.ts';
import { checkOptions, type PollerOptions } from '../../../local/event-source/options.ts';

const OPTIONS: PollerOptions = {
  sqs: {} as SqsCalls,
  queueUrl: 'http://sqs.example/0/q',
  handler: async () => undefined,
  functionName: 'batch',
  batchSize: 10,
  windowSeconds: 0,
  maximumConcurrency: 2,
  functionTimeoutMs: 30_000,
  log: { info: () => undefined, warn: () => undefined, error: () => undefined },
};

test('a batch of more than ten needs a window of a second, and one of ten does not', () => {
  checkOptions(OPTIONS);
  checkOptions({ ...OPTIONS, batchSize: 11, windowSeconds: 1 });
  assert.throws(() => checkOptions({ ...OPTIONS, batchSize: 11 }), /batchSize 11 is above 10 and needs/);
});

test('a FIFO queue is refused', () => {
  const queueUrl = 'http://sqs.example/0/q.fifo';
  assert.throws(() => checkOptions({ ...OPTIONS, queueUrl }), /FIFO queues are not supported/);
});
