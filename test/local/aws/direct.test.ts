import assert from 'node:assert/strict';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { test } from 'node:test';
import { setImmediate, setTimeout } from 'node:timers/promises';
import {
  ChangeMessageVisibilityBatchCommand,
  DeleteMessageBatchCommand,
  GetQueueAttributesCommand,
  type Message,
  ReceiveMessageCommand,
  SendMessageBatchCommand,
  SendMessageCommand,
} from '@aws-sdk/client-sqs';
import { type LocalAws, startAws } from '../../../local/aws/aws.ts';
import { openStorage } from '../../../local/aws/storage.ts';
import { temporaryFolder } from '../../support/runner.ts';

const log = { info: () => undefined, warn: () => undefined, error: () => undefined };
type Test = Parameters<typeof temporaryFolder>[0];

async function start(t: Test, dataDir?: string) {
  const aws = await startAws({ port: 0, log, ...(dataDir === undefined ? {} : { dataDir }) });
  t.after(() => aws.close());
  const { url } = await aws.createQueue({ name: 'q', visibilitySeconds: 600 });
  return { aws, url };
}

const receiving = (url: string, WaitTimeSeconds = 0) =>
  new ReceiveMessageCommand({
    QueueUrl: url,
    MaxNumberOfMessages: 10,
    WaitTimeSeconds,
    MessageAttributeNames: ['All'],
    MessageSystemAttributeNames: ['All'],
  });

async function send(aws: LocalAws, url: string, bodies: readonly string[]): Promise<void> {
  const Entries = bodies.map((MessageBody, id) => ({ Id: String(id), MessageBody }));
  await aws.sqs.send(new SendMessageBatchCommand({ QueueUrl: url, Entries }));
}

const byHandle = (messages: readonly Message[]) =>
  messages.map(({ ReceiptHandle }, id) => ({ Id: String(id), ReceiptHandle }));

async function attributes({ direct }: LocalAws, url: string) {
  const command = new GetQueueAttributesCommand({ QueueUrl: url, AttributeNames: ['All'] });
  return (await direct.send(command)).Attributes;
}

test('a message is received as it is over HTTP, bytes and system attributes too', async (t) => {
  const { aws, url } = await start(t);
  const MessageAttributes = {
    text: { DataType: 'String', StringValue: 'λ' },
    bytes: { DataType: 'Binary', BinaryValue: Uint8Array.of(0, 250, 7) },
  };
  const sending = new SendMessageCommand({ QueueUrl: url, MessageBody: 'λ "quoted"', MessageAttributes });
  const seen: Message[] = [];
  for (const calls of [aws.sqs, aws.direct]) {
    await aws.sqs.send(sending);
    const [message] = (await calls.send(receiving(url))).Messages ?? [];
    assert.ok(message);
    const own = ['SentTimestamp', 'ApproximateFirstReceiveTimestamp', 'SequenceNumber'];
    for (const name of own) assert.match(message.Attributes?.[name as never] ?? '', /^\d{13}$/);
    const Attributes = Object.entries(message.Attributes ?? {}).filter(([name]) => !own.includes(name));
    const bytes = Buffer.from(message.MessageAttributes?.['bytes']?.BinaryValue ?? []).toString('hex');
    seen.push({
      ...message,
      MessageId: bytes,
      ReceiptHandle: '',
      Attributes: Object.fromEntries(Attributes),
    });
  }
  const [overHttp, directly] = seen;
  assert.equal(directly?.MessageId, '00fa07');
  assert.deepEqual(JSON.parse(JSON.stringify(directly)), JSON.parse(JSON.stringify(overHttp)));
});

test('an empty queue is answered like an empty queue, and its attributes as they are', async (t) => {
  const { aws, url } = await start(t);
  assert.equal((await aws.direct.send(receiving(url))).Messages, undefined);
  const command = new GetQueueAttributesCommand({ QueueUrl: url, AttributeNames: ['All'] });
  assert.deepEqual(await attributes(aws, url), (await aws.sqs.send(command)).Attributes);
});

test('what is deleted is gone, what is given back comes again, the rest stays hidden', async (t) => {
  const { aws, url } = await start(t);
  await send(aws, url, ['a', 'b', 'c']);
  const { Messages = [] } = await aws.direct.send(receiving(url));
  assert.equal(Messages.length, 3);
  const [first, second] = byHandle(Messages);
  await aws.direct.send(new DeleteMessageBatchCommand({ QueueUrl: url, Entries: [first as never] }));
  const Entries = [{ ...(second as { Id: string; ReceiptHandle: string }), VisibilityTimeout: 0 }];
  await aws.direct.send(new ChangeMessageVisibilityBatchCommand({ QueueUrl: url, Entries }));
  const again = (await aws.sqs.send(receiving(url))).Messages ?? [];
  assert.deepEqual(
    again.map(({ Body, Attributes }) => [Body, Attributes?.ApproximateReceiveCount]),
    [['b', '2']],
  );
  assert.equal((await attributes(aws, url))?.ApproximateNumberOfMessagesNotVisible, '2');
});

test('a long poll ends with the message that comes, and with nothing when it is broken off', async (t) => {
  const { aws, url } = await start(t);
  const waiting = aws.direct.send(receiving(url, 20));
  await setTimeout(50);
  await send(aws, url, ['late']);
  assert.equal((await waiting).Messages?.[0]?.Body, 'late');

  const call = new AbortController();
  const broken = aws.direct.send(receiving(url, 20), { abortSignal: call.signal });
  await setTimeout(50);
  call.abort();
  assert.equal((await broken).Messages, undefined);
  await assert.rejects(aws.direct.send(receiving(url), { abortSignal: call.signal }), { name: 'AbortError' });
  await send(aws, url, ['after']);
  assert.equal((await aws.direct.send(receiving(url))).Messages?.[0]?.Body, 'after');
});

test('a queue that is not there, a wrong field and a command of clients are refused', async (t) => {
  const { aws, url } = await start(t);
  await assert.rejects(aws.direct.send(receiving(`${url}-other`)), /queue does not exist/i);
  const hidden = new ReceiveMessageCommand({ QueueUrl: url, MaxNumberOfMessages: 11 });
  await assert.rejects(aws.direct.send(hidden), /between 1 and 10/);
  const sending = new SendMessageCommand({ QueueUrl: url, MessageBody: 'x' });
  await assert.rejects(aws.direct.send(sending), /goes over HTTP/);
});

test('other work gets its turn between two calls', async (t) => {
  const { aws, url } = await start(t);
  let turns = 0;
  const calls = { done: false };
  const other = (async () => {
    for (; !calls.done; turns++) await setImmediate();
  })();
  for (let call = 0; call < 50; call++) await aws.direct.send(receiving(url));
  calls.done = true;
  await other;
  assert.ok(turns >= 50, `${turns} turns in 50 calls`);
});

test('what was deleted stays deleted after a restart, what was received comes again and its tries are counted', async (t) => {
  const dataDir = await temporaryFolder(t);
  const { aws, url } = await start(t, dataDir);
  await send(aws, url, ['a', 'b', 'c']);
  const { Messages = [] } = await aws.direct.send(receiving(url));
  const done = byHandle(Messages.filter(({ Body }) => Body === 'b'));
  await aws.direct.send(new DeleteMessageBatchCommand({ QueueUrl: url, Entries: done }));
  await aws.close();
  const db = new DatabaseSync(join(dataDir, 'fauxqs.db'));
  assert.equal(db.prepare('SELECT count(*) AS n FROM deliveries').get()?.['n'], 2);
  db.close();
  const next = await start(t, dataDir);
  const again = (await next.aws.direct.send(receiving(next.url))).Messages ?? [];
  assert.deepEqual(
    again.map(({ Body, Attributes }) => `${Body}${Attributes?.ApproximateReceiveCount}`).toSorted(),
    ['a2', 'c2'],
  );
});

test('a call that the disk refuses in the middle changes nothing on the disk', async (t) => {
  const dataDir = await temporaryFolder(t);
  const { aws, url } = await start(t, dataDir);
  await send(aws, url, ['a', 'b']);
  await aws.close();
  const storage = await openStorage(dataDir);
  const persistence = storage.stores.sqsStore.persistence;
  assert.ok(persistence);
  const count = () =>
    Number(persistence['db'].prepare('SELECT count(*) AS n FROM sqs_messages').get()?.['n']);
  try {
    const ids = persistence['db'].prepare('SELECT message_id AS id FROM sqs_messages').all();
    const emptyThenFail = () => {
      for (const { id } of ids) persistence.deleteMessage(String(id));
      assert.equal(count(), 0);
      throw new Error('disk full');
    };
    assert.throws(() => storage.transaction(emptyThenFail), /disk full/);
    assert.equal(count(), 2);
  } finally {
    storage.close();
  }
});
