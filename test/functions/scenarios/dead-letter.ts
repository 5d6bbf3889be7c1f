/**
 * F14: a dead-letter queue in which one message in ten has no readable uri. Each message is archived with its body,
 * each uri fails exactly once, and a uri with a result keeps it. The messages get there by the queue's own redrive,
 * like those whose worker died each time.
 */
import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import { GetObjectCommand, ListObjectsV2Command, type S3Client } from '@aws-sdk/client-s3';
import { SendMessageBatchCommand } from '@aws-sdk/client-sqs';
import type { SQSRecord } from 'aws-lambda';
import { uriOf } from '../../../lib/codecs/dead-letter.ts';
import { encodeMessage } from '../../../lib/codecs/message.ts';
import { deadLetterPrefix } from '../../../lib/contract/names.ts';
import { toInputs } from '../../../sdk/inputs.ts';
import { count, deliverAll, expire, receive } from '../../support/faults/events.ts';
import { History } from '../../support/faults/history.ts';
import { startHttpProxy } from '../../support/faults/http-proxy.ts';
import { lineOf, record } from '../../support/faults/model.ts';
import { quietLog } from '../../support/faults/quiet.ts';
import { PASS, startRedisProxy } from '../../support/faults/redis/proxy.ts';
import { pick, seeded } from '../../support/faults/seeds.ts';
import {
  BUCKET,
  JOB,
  lineRunner,
  openDeadLetter,
  openWorker,
  type Queue,
  startQueue,
} from '../../support/faults/service.ts';
import { redisUrl } from '../../support/redis.ts';

/** Messages without a readable uri, used in turn. */
const POISON = [
  'no JSON',
  '{"data":"no uri"}',
  '[]',
  'null',
  '{"uri":"","data":""}',
  '{"uri":17,"data":""}',
  '{"uri":"line\\nfeed"}',
  '"uri"',
  '{"uri":"cut',
  '\t\t',
];

interface Dead {
  readonly bodies: string[];
  readonly uris: string[];
  /** As a worker got them. */
  readonly records: readonly SQSRecord[];
}

/** Sent, received as often as the queue allows, and moved by the queue itself. */
async function fillDeadLetters(queue: Queue, messages: number): Promise<Dead> {
  const bodies: string[] = [];
  const uris: string[] = [];
  for (let i = 0; i < messages; i++) {
    if (i % 10 === 5) bodies.push(`${POISON[Math.floor(i / 10) % POISON.length]}`);
    else {
      uris.push(`r-${i}`);
      bodies.push(encodeMessage(`r-${i}`, await toInputs(record(i))));
    }
  }
  for (let i = 0; i < messages; i += 10) {
    const Entries = bodies.slice(i, i + 10).map((MessageBody, id) => ({ Id: String(id), MessageBody }));
    await queue.aws.sqs.send(new SendMessageBatchCommand({ QueueUrl: queue.url, Entries }));
  }
  const source = { sqs: queue.aws.sqs, queueUrl: queue.url };
  const records = await receive(source, messages);
  await expire(source, records);
  assert.deepEqual(await receive(source, 10), []);
  return { bodies, uris, records };
}

async function archivedBodies(s3: S3Client): Promise<string[]> {
  const bodies: string[] = [];
  let after: string | undefined;
  do {
    const page = await s3.send(
      new ListObjectsV2Command({ Bucket: BUCKET, Prefix: deadLetterPrefix(JOB), ContinuationToken: after }),
    );
    const read = (page.Contents ?? []).map(async ({ Key = '' }) => {
      const object = await s3.send(new GetObjectCommand({ Bucket: BUCKET, Key }));
      const { body, messageId } = JSON.parse((await object.Body?.transformToString()) ?? '');
      assert.equal(Key, `${deadLetterPrefix(JOB)}${messageId}.json`);
      bodies.push(body);
    });
    await Promise.all(read);
    after = page.NextContinuationToken;
  } while (after !== undefined);
  return bodies;
}

interface DeadLetterCases {
  readonly messages: number;
}

export async function deadLettered(t: TestContext, { messages }: DeadLetterCases): Promise<void> {
  quietLog(t);
  const queue = await startQueue(t, 1);
  const { bodies, uris, records } = await fillDeadLetters(queue, messages);
  const url = await redisUrl(t);
  const history = new History();
  await history.listen(t, url, JOB);
  for (const uri of uris) history.enqueued(uri, 'max_receives_exceeded');
  // Every twentieth had its result; only the word that it was done got lost, three times.
  const done = new Set(uris.filter((_, i) => i % 20 === 0));
  const ran = records.filter(({ body }) => done.has(uriOf(body) ?? ''));
  const worker = await openWorker(t, { redisUrl: url, runner: await lineRunner(t) });
  for (let i = 0; i < ran.length; i += 10) await worker({ Records: ran.slice(i, i + 10) });
  for (const uri of done) history.enqueued(uri, lineOf(Number(uri.slice(2))));
  const dead = { sqs: queue.aws.sqs, queueUrl: queue.deadLetterUrl as string };
  assert.equal(await count(dead), messages);
  await deliverAll(dead, openDeadLetter(t, { redisUrl: url }), { most: messages });
  assert.deepEqual((await archivedBodies(queue.aws.s3)).sort(), bodies.sort());
  await history.assertClean(url, JOB);
}

export async function deadLetteredUnderFaults(t: TestContext, { messages }: DeadLetterCases): Promise<void> {
  quietLog(t);
  const queue = await startQueue(t, 1);
  const { bodies, uris } = await fillDeadLetters(queue, messages);
  const direct = await redisUrl(t);
  const history = new History();
  await history.listen(t, direct, JOB);
  for (const uri of uris) history.enqueued(uri, 'max_receives_exceeded');
  const random = seeded(14);
  const s3 = await startHttpProxy(t, queue.aws.url);
  s3.onRequest = () => ({ kind: random() < 0.2 ? pick(random, ['reset', 'lose'] as const) : 'pass' });
  const redis = await startRedisProxy(t, direct);
  redis.onCommand = ({ name }) => {
    if (name !== 'EVALSHA' || random() > 0.2) return PASS;
    return pick(random, [
      { kind: 'cut', bytes: 30 },
      { kind: 'cutReply', bytes: 0 },
      { kind: 'reply', text: '-OOM injected\r\n' },
    ] as const);
  };
  const dead = { sqs: queue.aws.sqs, queueUrl: queue.deadLetterUrl as string };
  await deliverAll(dead, openDeadLetter(t, { redisUrl: redis.url, s3Endpoint: s3.url }), { most: messages });
  assert.deepEqual((await archivedBodies(queue.aws.s3)).sort(), bodies.sort());
  await history.assertClean(direct, JOB);
}
