/** Notices that were given up and are sent again, on real queues. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SendMessageCommand } from '@aws-sdk/client-sqs';
import { startAws } from '../../local/aws/aws.ts';
import { Notices } from '../../local/console/notices.ts';

test('a notice that cannot be sent again stays given up', async (t) => {
  const silent = () => undefined;
  const aws = await startAws({ port: 0, log: { info: silent, warn: silent, error: silent } });
  t.after(() => aws.close());
  const { s3, sqs } = aws;
  await aws.createBucket('bucket');
  const { url: deadLetterUrl } = await aws.createQueue({ name: 'given-up', visibilitySeconds: 1 });
  const { url } = await aws.createQueue({ name: 'notices', visibilitySeconds: 1 });
  const body = JSON.stringify({ notice: { target: 'shop' } });
  await sqs.send(new SendMessageCommand({ QueueUrl: deadLetterUrl, MessageBody: body }));
  const options = { sqs, s3, job: 'job', bucket: 'bucket', deadLetterUrl };
  const away = new Notices({ ...options, queueUrl: `${url}-away` });
  await assert.rejects(away.resume('shop'), { name: /NonExistentQueue|QueueDoesNotExist/ });
  const there = new Notices({ ...options, queueUrl: url });
  assert.equal((await there.facts())?.givenUp, 1);
});
