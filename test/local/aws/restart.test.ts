import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ReceiveMessageCommand, SendMessageCommand } from '@aws-sdk/client-sqs';
import { startAws } from '../../../local/aws/aws.ts';
import { temporaryFolder } from '../../support/runner.ts';

const log = { info: () => undefined, warn: () => undefined, error: () => undefined };

test('a message that was being worked on when the stack ended is there at once after the next start', async (t) => {
  const dataDir = await temporaryFolder(t);
  const queue = { name: 'jobs', visibilitySeconds: 3600, maxReceiveCount: 5 };
  const first = await startAws({ port: 0, dataDir, log });
  const { url } = await first.createQueue(queue);
  await first.sqs.send(new SendMessageCommand({ QueueUrl: url, MessageBody: 'held' }));
  await first.sqs.send(new SendMessageCommand({ QueueUrl: url, MessageBody: 'delayed', DelaySeconds: 600 }));
  const held = await first.sqs.send(new ReceiveMessageCommand({ QueueUrl: url, MaxNumberOfMessages: 10 }));
  assert.deepEqual(
    held.Messages?.map(({ Body }) => Body),
    ['held'],
  );
  await first.close();

  const second = await startAws({ port: 0, dataDir, log });
  t.after(() => second.close());
  const again = await second.createQueue(queue);
  const receive = new ReceiveMessageCommand({
    QueueUrl: again.url,
    MaxNumberOfMessages: 10,
    MessageSystemAttributeNames: ['ApproximateReceiveCount'],
  });
  const { Messages = [] } = await second.sqs.send(receive);
  assert.deepEqual(
    Messages.map(({ Body }) => Body),
    ['held'],
  );
  assert.equal(Messages[0]?.Attributes?.ApproximateReceiveCount, '2');
});
