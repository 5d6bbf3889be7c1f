import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { test } from 'node:test';
import { ReceiveMessageCommand, type SQSClient } from '@aws-sdk/client-sqs';
import { openSqs, QueueSender } from '../../../lib/queue/sender.ts';
import { startAws } from '../../../local/aws/aws.ts';
import { type Entry, sqsThat } from '../../support/refusing-sqs.ts';

const QUIET = { info: () => undefined, warn: () => undefined, error: () => undefined };

test('messages of one tick leave ten to a call, in order', async (t) => {
  const { sender, calls } = await sqsThat(t, () => undefined);
  await Promise.all(Array.from({ length: 25 }, (_, i) => sender.send(`m${i}`)));
  assert.deepEqual(
    calls.map((call) => call.length).sort((a, b) => b - a),
    [10, 10, 5],
  );
  assert.deepEqual(
    calls
      .flat()
      .map(({ MessageBody }) => MessageBody)
      .sort(),
    Array.from({ length: 25 }, (_, i) => `m${i}`).sort(),
  );
});

test('a message arrives as it was sent, with its attributes', async () => {
  const aws = await startAws({ port: 0, log: QUIET });
  const sqs = openSqs({ endpoint: aws.url, region: aws.region, credentials: aws.credentials });
  try {
    const { url: queueUrl } = await aws.createQueue({ name: 'q' });
    const sender = new QueueSender(sqs, { queueUrl });
    const bodies = ['"quoted\\" \n\t', 'ä€😀', '{"a":[1,2]}', 'x'.repeat(300_000), '\u007f\u2028'];
    const attributes = { identity: { DataType: 'String', StringValue: 'a "b" ä😀' } } as const;
    // The SDK compares the digests of the answer with what it was given.
    await Promise.all(bodies.map((body) => sender.send(body, attributes)));
    const { Messages = [] } = await sqs.send(
      new ReceiveMessageCommand({
        QueueUrl: queueUrl,
        MaxNumberOfMessages: 10,
        MessageAttributeNames: ['All'],
      }),
    );
    assert.deepEqual(new Set(Messages.map(({ Body }) => Body)), new Set(bodies));
    assert.equal(Messages.length, bodies.length);
    for (const { MessageAttributes } of Messages) assert.deepEqual(MessageAttributes, attributes);
  } finally {
    sqs.destroy();
    await aws.close();
  }
});

test('a call never holds more than 1 MiB', async (t) => {
  const { sender, calls } = await sqsThat(t, () => undefined);
  await Promise.all(Array.from({ length: 5 }, (_, i) => sender.send(String(i).repeat(400_000))));
  for (const call of calls) {
    assert.ok(call.reduce((sum, { MessageBody }) => sum + MessageBody.length, 0) <= 1024 * 1024);
  }
  assert.equal(calls.flat().length, 5);
});

test('of every mask of refused entries, exactly the refused reject and the others resolve', async (t) => {
  const refused = new Set<string>();
  const { sender } = await sqsThat(t, (body) =>
    refused.has(body) ? { code: 'InvalidMessageContents', senderFault: true } : undefined,
  );
  for (let mask = 0; mask < 1024; mask += 11) {
    refused.clear();
    for (let i = 0; i < 10; i++) if (mask & (1 << i)) refused.add(`${mask}-${i}`);
    const settled = await Promise.allSettled(
      Array.from({ length: 10 }, (_, i) => sender.send(`${mask}-${i}`)),
    );
    for (const [i, { status }] of settled.entries()) {
      assert.equal(
        status,
        refused.has(`${mask}-${i}`) ? 'rejected' : 'fulfilled',
        `mask ${mask}, entry ${i}`,
      );
    }
  }
});

test('an entry refused for a passing reason is sent again, alone', async (t) => {
  const { sender, calls, attempts } = await sqsThat(t, (body, count) =>
    body === 'm3' && count < 3 ? { code: 'ServiceUnavailable', senderFault: false } : undefined,
  );
  await Promise.all(Array.from({ length: 10 }, (_, i) => sender.send(`m${i}`)));
  assert.equal(attempts.get('m3'), 3);
  assert.deepEqual(
    calls.map((call) => call.length),
    [10, 1, 1],
  );
});

test('an entry that is refused again and again rejects in the end, with the reason of SQS', async (t) => {
  const { sender, attempts } = await sqsThat(t, () => ({ code: 'ServiceUnavailable', senderFault: false }));
  await assert.rejects(sender.send('m'), { code: 'queue_unavailable', message: /ServiceUnavailable: no/ });
  assert.equal(attempts.get('m'), 4);
});

test('messages that are 1 MiB together are one call, a byte more is two, counted as UTF-8', async (t) => {
  const { sender, calls } = await sqsThat(t, () => undefined);
  const half = 'x'.repeat(524_288);
  await Promise.all([sender.send(half), sender.send(half)]);
  await Promise.all([sender.send(half), sender.send(`${half}x`)]);
  const wide = 'é'.repeat(300_000);
  await Promise.all([sender.send(wide), sender.send(wide)]);
  assert.deepEqual(
    calls.map((call) => call.length),
    [2, 1, 1, 1, 1],
  );
});

test('a message of more than 1 MiB is sent alone: SQS says what is wrong, and the others go on', async (t) => {
  const large = 'x'.repeat(1_048_577);
  const { sender, calls } = await sqsThat(t, (body) =>
    body === large ? { code: 'BatchRequestTooLong', senderFault: true } : undefined,
  );
  const [first, second] = await Promise.allSettled([sender.send(large), sender.send('m')]);
  assert.deepEqual([first.status, second.status, calls.length], ['rejected', 'fulfilled', 2]);
});

test('an entry that is refused for a fault of ours is sent once', async (t) => {
  const { sender, attempts } = await sqsThat(t, () => ({
    code: 'InvalidMessageContents',
    senderFault: true,
  }));
  await assert.rejects(sender.send('m'), { code: 'queue_unavailable', message: /InvalidMessageContents/ });
  assert.equal(attempts.get('m'), 1);
});

/** An SQS in this process, without its protocol. */
function senderTo(send: (entries: readonly Entry[]) => Promise<unknown>): QueueSender {
  const sqs = { send: ({ input }: { input: { Entries: Entry[] } }) => send(input.Entries) };
  return new QueueSender(sqs as unknown as SQSClient, { queueUrl: 'http://sqs.example/0/q' });
}

test('a call that fails rejects every message of it, and one that SQS does not name is not sent', async () => {
  const messages = ['a', 'b', 'c'];
  const down = senderTo(() => Promise.reject(new Error('down')));
  const failed = await Promise.allSettled(messages.map((body) => down.send(body)));
  assert.ok(failed.every(({ status }) => status === 'rejected'));
  const silent = senderTo(async () => ({}));
  await assert.rejects(silent.send('a'), { code: 'queue_unavailable', message: /no word/ });
});

test('at most sixteen calls are under way, and what waits is sent when one has ended', async () => {
  let calls = 0;
  let most = 0;
  const sender = senderTo(async (entries) => {
    most = Math.max(most, ++calls);
    await new Promise((resolve) => setImmediate(resolve));
    calls--;
    return { Successful: entries.map(({ Id }) => ({ Id })) };
  });
  await Promise.all(Array.from({ length: 400 }, (_, i) => sender.send(`m${i}`)));
  assert.equal(most, 16);
});

test('an endpoint that takes the call and never answers is given up', async (t) => {
  let calls = 0;
  const server = createServer(() => calls++);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  const address = server.address();
  assert.ok(typeof address === 'object' && address);
  const endpoint = `http://127.0.0.1:${address.port}`;
  const credentials = { accessKeyId: 'a', secretAccessKey: 'b' };
  const sqs = openSqs({ endpoint, region: 'local', credentials, timeoutMs: 100 });
  const sender = new QueueSender(sqs, { queueUrl: `${endpoint}/1/q` });
  t.after(() => sender.close());
  await assert.rejects(sender.send('{}'), { code: 'queue_unavailable' });
  assert.equal(calls, 4);
});
