import assert from 'node:assert/strict';
import { randomBytes, randomUUID } from 'node:crypto';
import { test } from 'node:test';
import { attributesBytes, newAttributes } from '../../../lib/codecs/attributes.ts';
import { ServingError } from '../../../lib/contract/errors.ts';
import { LIMITS } from '../../../lib/contract/limits.ts';
import { submit } from '../../../lib/pipeline/submit.ts';
import { openSqs, QueueSender } from '../../../lib/queue/sender.ts';
import { PayloadStore } from '../../../lib/s3/payloads.ts';
import { count, receive } from '../../support/faults/events.ts';
import { type RequestFate, sqsError, startHttpProxy } from '../../support/faults/http-proxy.ts';
import { BUCKET, JOB, startQueue } from '../../support/faults/service.ts';
import { everySubset, partialAnswer } from './sqs-send.ts';

test('F9: of every subset of ten that SQS refuses for good, exactly those reject and the others are queued once', (t) =>
  everySubset(t, { passing: false }));

test('F9: of 146 subsets of ten that SQS refuses for a while, all are queued once in the end', (t) =>
  everySubset(t, { passing: true, step: 7 }));

const SEND = 'AmazonSQS.SendMessageBatch';

async function proxied(t: Parameters<typeof startQueue>[0], fate: (call: number) => RequestFate) {
  const queue = await startQueue(t);
  const proxy = await startHttpProxy(t, queue.aws.url);
  let calls = 0;
  proxy.onRequest = ({ action }) => (action === SEND ? fate(calls++) : { kind: 'pass' });
  const sqs = openSqs({ endpoint: proxy.url, region: queue.aws.region });
  const sender = new QueueSender(sqs, { queueUrl: queue.url });
  t.after(() => sender.close());
  const source = { sqs: queue.aws.sqs, queueUrl: queue.url };
  return { sender, source, queue, calls: () => calls };
}

const THROTTLES = [
  ['RequestThrottled', 403],
  ['ThrottlingException', 400],
  ['ServiceUnavailable', 503],
  ['InternalFailure', 500],
] as const;

for (const [code, status] of THROTTLES) {
  test(`F9: a send that is answered with ${status} ${code} and then taken is queued once`, async (t) => {
    const { sender, source, calls } = await proxied(t, (call) =>
      call < 2 ? { kind: 'answer', answer: sqsError(status, code) } : { kind: 'pass' },
    );
    await Promise.all(Array.from({ length: 10 }, (_, i) => sender.send(`m${i}`)));
    assert.equal(calls(), 3);
    assert.equal(await count(source), 10);
  });
}

test('F9: sends that SQS throttles without end reject, every one of them, with queue_unavailable', async (t) => {
  const { sender, source } = await proxied(t, () => ({
    kind: 'answer',
    answer: sqsError(400, 'ThrottlingException'),
  }));
  const settled = await Promise.allSettled(Array.from({ length: 25 }, (_, i) => sender.send(`m${i}`)));
  for (const outcome of settled) {
    assert.ok(outcome.status === 'rejected' && outcome.reason instanceof ServingError);
    assert.equal(outcome.reason.code, 'queue_unavailable');
  }
  assert.equal(await count(source), 0);
});

test('F9: a send whose answer is lost is sent again: queued at least once, and no call rejects', async (t) => {
  const { sender, source } = await proxied(t, (call) => ({ kind: call === 0 ? 'lose' : 'pass' }));
  await Promise.all(Array.from({ length: 10 }, (_, i) => sender.send(`m${i}`)));
  const bodies = (await receive(source, 30)).map(({ body }) => body);
  assert.equal(new Set(bodies).size, 10);
  assert.equal(bodies.length, 20);
});

test('F9: an entry that SQS names neither as taken nor as refused does not pass for taken', async (t) => {
  const { sender, source } = await proxied(t, (call) =>
    call === 0 ? partialAnswer({ forgotten: [3] }) : { kind: 'pass' },
  );
  await Promise.all(Array.from({ length: 10 }, (_, i) => sender.send(`m${i}`)));
  const bodies = (await receive(source, 30)).map(({ body }) => body);
  assert.deepEqual(
    [...new Set(bodies)].sort(),
    Array.from({ length: 10 }, (_, i) => `m${i}`),
  );
});

test('F9: a message of 1 MiB with its attributes is queued, and one byte more is refused or, with a bucket, goes through S3', async (t) => {
  const { sender, source, queue } = await proxied(t, () => ({ kind: 'pass' }));
  const identity = randomUUID();
  const limit = LIMITS.messageBytes - attributesBytes(newAttributes(identity));
  const most = randomBytes(limit / 2).toString('hex');
  assert.equal(most.length, limit);
  await submit(sender, undefined, { uri: 'most', identity, message: most });
  await assert.rejects(submit(sender, undefined, { uri: 'over', identity, message: `${most}0` }), {
    code: 'too_large',
    uri: 'over',
    message: /1048527 bytes.*limit of 1048526/,
  });
  const payloads = new PayloadStore(queue.aws.s3, BUCKET, JOB);
  await submit(sender, async () => payloads, { uri: 'over', identity, message: `${most}0` });
  const bodies = (await receive(source, 10)).map(({ body }) => body);
  assert.equal(bodies.length, 2);
  const resolved = await payloads.resolve(bodies);
  assert.deepEqual(new Set(resolved), new Set([most, `${most}0`]));
});
