/** A queue that gets a notice when a record is done, on one machine; and the targets that one machine does not have. */
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { GetQueueUrlCommand, ReceiveMessageCommand } from '@aws-sdk/client-sqs';
import { SAMPLE, testStack } from '../support/stack.ts';
import { until } from '../support/until.ts';

const STOCK = 'arn:aws:sqs:eu-west-1:123456789012:stock';

test('a queue that a target names is made on one machine, and gets the outcome with its result under one id', async (t) => {
  const config = `imageResize: 8,8\nnotify: {stock: {sqs: '${STOCK}', include: result}}`;
  const stack = await testStack(t, { config });
  const image = (await readFile(join(SAMPLE, 'images/digit-3.png'))).toString('base64');
  const response = await fetch(`${stack.url}/predictions`, {
    method: 'POST',
    body: JSON.stringify({ uri: 'one', instances: [{ image }], notify: 'stock' }),
    headers: { 'content-type': 'application/json' },
  });
  assert.equal(response.status, 202);
  const { sqs } = stack.aws;
  const { QueueUrl } = await sqs.send(new GetQueueUrlCommand({ QueueName: 'stock' }));
  const messages: { readonly Body?: string | undefined }[] = [];
  await until(async () => {
    const ask = new ReceiveMessageCommand({ QueueUrl, MessageAttributeNames: ['All'] });
    messages.push(...((await sqs.send(ask)).Messages ?? []));
    return messages.length > 0;
  });
  const { id, type, data }: Told = JSON.parse(messages[0]?.Body ?? '');
  assert.match(id, /^msg_[0-9a-f]{32}$/);
  assert.deepEqual([type, data.uri, data.status], ['record.succeeded', 'one', 'succeeded']);
  const answer = (await (await fetch(`${stack.url}/predictions/one`)).json()) as { outputs: unknown };
  assert.deepEqual(data.result.outputs, answer.outputs);
});

interface Told {
  readonly id: string;
  readonly type: string;
  readonly data: {
    readonly uri: string;
    readonly status: string;
    readonly result: { readonly outputs: unknown };
  };
}

const REFUSED: readonly (readonly [target: string, message: RegExp])[] = [
  ['{eventBridge: default}', /notify.stock: there is no EventBridge on one machine; try it with a webhook/],
  ["{sns: 'arn:aws:sns:eu-west-1:123456789012:stock'}", /there is no SNS on one machine/],
  [`{sqs: '${STOCK}.fifo'}`, /no FIFO queues/],
  [
    "{sqs: 'arn:aws:sqs:eu-west-1:123456789012:cluster-serving-serving_stream-dlq'}",
    /is a queue of the job itself/,
  ],
];
for (const [target, message] of REFUSED)
  test(`a service on one machine with the target ${target} does not start, and says why`, async (t) => {
    await assert.rejects(testStack(t, { config: `notify: {stock: ${target}}` }), {
      code: 'bad_config',
      message,
    });
  });
