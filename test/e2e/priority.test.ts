/** Records of high priority and others of the same uri, through both queues of a service on one machine. */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { GetQueueAttributesCommand, PurgeQueueCommand } from '@aws-sdk/client-sqs';
import { highQueueName } from '../../lib/queue/names.ts';
import type { Stack } from '../../local/service/stack.ts';
import { InputQueue, OutputQueue } from '../../sdk/index.ts';
import type { Hooks } from '../support/runner.ts';
import { clientOptions, SAMPLE, testStack } from '../support/stack.ts';
import { until } from '../support/until.ts';

const cleanups: (() => unknown)[] = [];
let stack: Stack;
before(async () => {
  const hooks = { after: (cleanup: () => unknown) => cleanups.unshift(cleanup) };
  stack = await testStack(hooks, { config: 'imageResize: 8,8\nqueue: {highShare: 0.7}' });
});
after(async () => {
  for (const cleanup of cleanups) await cleanup();
});

const IMAGE = { image: join(SAMPLE, 'images/digit-3.png') };

function clients(t: Hooks, of = stack) {
  const { input: options, output: reading } = clientOptions(of);
  // Announced, so that status and cancel know it.
  const input = new InputQueue({ ...options, redisUrl: of.redisUrl });
  const output = new OutputQueue(reading);
  t.after(async () => {
    await Promise.all([input.close(), output.close()]);
  });
  return { input, output };
}

/** Resolves when no message is in either queue. */
const settled = () =>
  until(async () =>
    [stack.queueUrl, highQueueName(stack.queueUrl)].every((url) => {
      const { waiting, running, delayed } = stack.aws.queueFigures(url);
      return waiting + running + delayed === 0;
    }),
  );

test('a record of high priority travels through its own queue, from SQS and over HTTPS, and is answered', async (t) => {
  const { input, output } = clients(t);
  const high = await input.enqueue('high', IMAGE, { priority: 'high', delaySeconds: 900 });
  assert.equal(stack.aws.queueFigures(highQueueName(stack.queueUrl)).delayed, 1);
  assert.equal(stack.aws.queueFigures(stack.queueUrl).delayed, 0);
  assert.equal(await output.status('high', high), 'queued');
  const overHttp = new InputQueue({ frontendUrl: stack.url });
  t.after(() => overHttp.close());
  const { identity } = await overHttp.enqueue('over http', IMAGE, { priority: 'high' });
  assert.equal((await output.wait('over http', { identity })).uri, 'over http');
  await overHttp.enqueueMany([
    { uri: 'n', inputs: IMAGE, priority: 'normal' },
    { uri: 'h', inputs: IMAGE, priority: 'high' },
  ]);
  for (const uri of ['n', 'h']) await output.wait(uri);
  // It would be there for a quarter of an hour.
  await stack.aws.sqs.send(new PurgeQueueCommand({ QueueUrl: highQueueName(stack.queueUrl) }));
});

for (const [first, second] of [
  ['normal', 'high'],
  ['high', 'normal'],
] as const)
  test(`of one uri in both queues the ${second} enqueue counts, which is the later one, also when the ${first} one is delivered after it`, async (t) => {
    const { input, output } = clients(t);
    const uri = `both, ${first} first`;
    await input.enqueue(uri, IMAGE, { priority: first, delaySeconds: 1 });
    const { identity } = await input.enqueue(uri, IMAGE, { priority: second });
    assert.equal((await output.wait(uri)).identity, identity);
    // The earlier one is delivered, and changes nothing.
    await settled();
    assert.equal((await output.query(uri))?.identity, identity);
  });

test('a cancel ends the records of a uri in both queues', async (t) => {
  const { input, output } = clients(t);
  await input.enqueue('cancelled', IMAGE, { delaySeconds: 1 });
  await input.enqueue('cancelled', IMAGE, { priority: 'high', delaySeconds: 1 });
  assert.equal(await output.cancel('cancelled'), true);
  await settled();
  await assert.rejects(output.query('cancelled'), { code: 'cancelled' });
});

test('a record of high priority that does not fit fails as any other, and both queues give up to the same dead letters', async (t) => {
  const { input, output } = clients(t);
  await input.enqueue('wrong', { image: [1] }, { priority: 'high' });
  await assert.rejects(output.wait('wrong'), { code: 'bad_input' });
  const policies = [stack.queueUrl, highQueueName(stack.queueUrl)].map(async (QueueUrl) => {
    const ask = new GetQueueAttributesCommand({ QueueUrl, AttributeNames: ['RedrivePolicy'] });
    return (await stack.aws.sqs.send(ask)).Attributes?.['RedrivePolicy'];
  });
  const [normal, high] = await Promise.all(policies);
  assert.equal(high, normal);
  assert.match(high ?? '', /-dlq"/);
});

test('without queue.highShare a high priority is refused with the setting, by the service and by the client of the queue', async (t) => {
  const plain = await testStack(t);
  const { input, output } = clients(t, plain);
  const refusal = {
    code: 'bad_request',
    uri: 'a',
    message: 'priority: the job has no queue for "high"; set queue.highShare in its config.yaml, such as 0.7',
  };
  await assert.rejects(input.enqueue('a', IMAGE, { priority: 'high' }), refusal);
  const byName = new InputQueue({ endpoint: plain.aws.url, region: plain.aws.region });
  const overHttp = new InputQueue({ frontendUrl: plain.url });
  for (const queue of [byName, overHttp]) {
    await assert.rejects(queue.enqueue('a', IMAGE, { priority: 'high' }), refusal);
    await queue.enqueue('a', IMAGE, { priority: 'normal' });
    await queue.close();
  }
  assert.equal((await output.wait('a')).uri, 'a');
});
