/** The queues' sense of time while the machine's clock is set. Each test moves the wall clock by hours. */
import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { type TestContext, test } from 'node:test';
import {
  type Message,
  ReceiveMessageCommand,
  SendMessageBatchCommand,
  SendMessageCommand,
} from '@aws-sdk/client-sqs';
import { startAws } from '../../../local/aws/aws.ts';
import { temporaryFolder } from '../../support/runner.ts';
import { until } from '../../support/until.ts';

const NOW = Date.now;
const log = { info: () => undefined, warn: () => undefined, error: () => undefined };
const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;

/** The clock of signatures is left alone: the AWS SDK corrects its own by it. */
async function open(t: TestContext, dataDir: string) {
  const aws = await startAws({ port: 0, dataDir, log, now: NOW });
  const { url } = await aws.createQueue({ name: 'jobs', visibilitySeconds: 600 });
  let closed: Promise<void> | undefined;
  const close = () => (closed ??= aws.close());
  t.after(close);
  const send = (bodies: readonly string[], delaySeconds = 0) =>
    aws.sqs.send(
      new SendMessageBatchCommand({
        QueueUrl: url,
        Entries: bodies.map((body, i) => ({ Id: String(i), MessageBody: body, DelaySeconds: delaySeconds })),
      }),
    );
  const receive = async (VisibilityTimeout = 600): Promise<Message[]> => {
    const command = new ReceiveMessageCommand({
      QueueUrl: url,
      MaxNumberOfMessages: 10,
      VisibilityTimeout,
      MessageSystemAttributeNames: ['All'],
    });
    return (await aws.direct.send(command)).Messages ?? [];
  };
  return { aws, url, close, send, receive };
}

function settable(t: TestContext): (shiftMs: number) => void {
  let shiftMs = 0;
  t.mock.method(Date, 'now', () => NOW() + shiftMs);
  return (ms) => {
    shiftMs = ms;
  };
}

const orderOf = (message: Message | undefined) => Number(message?.Attributes?.['SequenceNumber']);
const ageOf = (message: Message | undefined) => Date.now() - Number(message?.Attributes?.['SentTimestamp']);

for (const shiftMs of [-HOUR_MS, DAY_MS]) {
  test(`a clock that is set by ${shiftMs} ms changes no wait and no age of a message`, async (t) => {
    const set = settable(t);
    const { send, receive } = await open(t, await temporaryFolder(t));
    await send(['hidden']);
    assert.equal((await receive(600)).length, 1);
    await send(['short']);
    assert.equal((await receive(1)).length, 1);
    await send(['delayed'], 1);
    set(shiftMs);
    assert.deepEqual(await receive(), []);
    const seen: Message[] = [];
    await until(async () => seen.push(...(await receive())) === 2);
    assert.deepEqual(new Set(seen.map(({ Body }) => Body)), new Set(['delayed', 'short']));
    for (const message of seen)
      assert.ok(ageOf(message) >= 1_000 - 10 && ageOf(message) < HOUR_MS / 2, String(ageOf(message)));
  });
}

test('messages have different numbers in the order of their arrival, which grow over a restart with an earlier clock', async (t) => {
  const set = settable(t);
  const dataDir = await temporaryFolder(t);
  const first = await open(t, dataDir);
  set(DAY_MS);
  await first.send(['a', 'b', 'c']);
  const before = (await first.receive()).map(orderOf);
  assert.equal(new Set(before).size, 3);
  assert.deepEqual(
    before,
    before.toSorted((one, other) => one - other),
  );
  assert.ok(first.aws.latestOrder() >= Math.max(...before));
  await first.close();
  set(-HOUR_MS);
  const second = await open(t, dataDir);
  assert.ok(second.aws.latestOrder() >= Math.max(...before));
  const again = await second.receive();
  assert.deepEqual(again.map(orderOf), before);
  await second.send(['d']);
  const [later] = await second.receive();
  assert.ok(orderOf(later) > Math.max(...before));
  assert.ok(Math.abs(ageOf(later)) < HOUR_MS / 2);
});

test('a message of an earlier release, which has no number, is ordered by the time at which it was sent', async (t) => {
  const dataDir = await temporaryFolder(t);
  const first = await open(t, dataDir);
  await first.aws.sqs.send(new SendMessageCommand({ QueueUrl: first.url, MessageBody: 'old' }));
  await first.close();
  const [file = ''] = readdirSync(dataDir).filter((name) => /\.(?:db|sqlite)$/.test(name));
  const db = new DatabaseSync(join(dataDir, file));
  db.exec(
    'UPDATE sqs_messages SET sequence_number = NULL; DROP TRIGGER keep_order; DROP TABLE order_numbers',
  );
  const { sent } = db.prepare('SELECT sent_timestamp AS sent FROM sqs_messages').get() as { sent: number };
  db.close();
  const second = await open(t, dataDir);
  const [message] = await second.receive();
  assert.equal(orderOf(message), sent);
  assert.ok(second.aws.latestOrder() >= sent);
});
