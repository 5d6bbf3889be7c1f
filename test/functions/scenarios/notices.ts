/**
 * Outcomes on their way to a back end, with everything between that can end: the batch function, the notifier, their calls to
 * Redis, S3 and SQS, and the receiver. Real servers, the functions' own code, and what they call ends at random.
 */
import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import type { SQSBatchResponse, SQSEvent } from 'aws-lambda';
import { newAttributes } from '../../../lib/codecs/attributes.ts';
import { encodeMessage } from '../../../lib/codecs/message.ts';
import { ServingError } from '../../../lib/contract/errors.ts';
import type { Targets } from '../../../lib/contract/notice.ts';
import { elementAt } from '../../../lib/contract/present.ts';
import { deliverer } from '../../../lib/notify/deliver.ts';
import { notifyTargets } from '../../../lib/notify/notifier.ts';
import { Webhooks } from '../../../lib/notify/webhook.ts';
import { serveEvent } from '../../../lib/pipeline/event.ts';
import { openSqs, QueueSender } from '../../../lib/queue/sender.ts';
import { RedisConnection } from '../../../lib/redis/connection.ts';
import { RecordStates } from '../../../lib/redis/record-states.ts';
import { ResultStore } from '../../../lib/redis/results.ts';
import { announceOutcomes } from '../../../lib/results/announce.ts';
import { resultSink } from '../../../lib/results/sink.ts';
import { OutboxWriter } from '../../../lib/s3/outbox.ts';
import { OutboxReader } from '../../../lib/s3/outbox-reader.ts';
import { PausedTargets } from '../../../lib/s3/pauses.ts';
import { startAws } from '../../../local/aws/aws.ts';
import { watchObjects } from '../../../local/event-source/objects.ts';
import { startPoller } from '../../../local/event-source/poller.ts';
import { quietLog } from '../../support/faults/quiet.ts';
import { quietObservers } from '../../support/observers.ts';
import { isSigned, RECEIVER_URL, SECRET, startReceiver } from '../../support/receiver.ts';
import { PATIENT, redisUrl } from '../../support/redis.ts';
import { until } from '../../support/until.ts';
import { inputsOf, model } from './doubling.ts';

const JOB = 'job';
const BUCKET = 'bucket';
const TARGETS: Targets = { shop: { url: RECEIVER_URL, secret: '/shop' } };
const QUIET = { info: () => undefined, warn: () => undefined, error: () => undefined };
/** Calls that end the function before they begin, or after they are done. */
const FAULTS = 0.03;
/** Calls that the receiver answers with 500, although it may have kept them. */
const REFUSALS = 0.1;

interface Body {
  readonly type: string;
  readonly data: { readonly uri: string; readonly identity: string; readonly status: string };
}

/** @param random from 0 to 1 */
export async function allAnnounced(t: TestContext, records: number, random: () => number): Promise<void> {
  const receiver = await startReceiver(t, (_, response) =>
    response.writeHead(random() < REFUSALS ? 500 : 204).end(),
  );
  if (!receiver) return t.skip('needs openssl');
  quietLog(t);
  const aws = await startAws({ port: 0, log: QUIET });
  t.after(() => aws.close());
  await aws.createBucket(BUCKET);
  const [queue, notices] = await Promise.all(
    ['records', 'notices'].map((name) =>
      aws.createQueue({ name, visibilitySeconds: 2, maxReceiveCount: 1_000 }),
    ),
  );
  assert.ok(queue && notices);
  const connection = new RedisConnection(await redisUrl(t), PATIENT);
  const results = new ResultStore(connection, { job: JOB, ttlSeconds: 3_600, now: Date.now });
  const states = new RecordStates(connection, { job: JOB, now: Date.now });
  t.after(() => results.close());
  const sqs = openSqs({ endpoint: aws.url, region: aws.region, credentials: aws.credentials });
  t.after(async () => sqs.destroy());
  const senders = [queue.url, notices.url].map((queueUrl) => new QueueSender(sqs, { queueUrl }));
  const [records1, notices1] = [elementAt(senders, 0, 'senders'), elementAt(senders, 1, 'senders')];

  // Ends the function that calls: before the call, or after it.
  const mortal =
    <A extends unknown[], R>(work: (...given: A) => Promise<R>) =>
    async (...given: A): Promise<R> => {
      if (random() < FAULTS) throw new Error('ended before it');
      const done = await work(...given);
      if (random() < FAULTS) throw new Error('ended after it');
      return done;
    };
  const writer = new OutboxWriter(aws.s3, BUCKET, JOB);
  const reader = new OutboxReader(aws.s3, BUCKET, JOB);
  const announce = announceOutcomes({
    targets: TARGETS,
    results,
    put: mortal((some) => writer.put(some)),
    job: JOB,
    place: BUCKET,
  });
  const sink = resultSink({ save: mortal(results.save.bind(results)) }, { announce });
  const batch = serveEvent({
    model,
    sink,
    running: { begin: () => async () => undefined },
    payloads: { resolve: async (bodies) => bodies },
    observers: quietObservers(),
    now: Date.now,
  });
  const webhooks = new Webhooks(receiver.options);
  t.after(async () => webhooks.close());
  const notify = notifyTargets({
    outbox: {
      read: mortal((key) => reader.read(key)),
      remove: mortal((keys) => reader.remove(keys)),
      pages: () => reader.pages(),
    },
    pauses: new PausedTargets(aws.s3, { bucket: BUCKET, job: JOB, now: () => performance.now() }),
    deliver: deliverer({
      targets: TARGETS,
      webhooks,
      sendToAws: () => assert.fail('no target is of AWS'),
      readSecret: async () => SECRET,
      now: Date.now,
    }),
    // A second instead of the seconds and minutes of a real back-off.
    sendLater: mortal((text, seconds) => notices1.send(text, {}, undefined, Math.min(1, seconds))),
    giveUp: () => assert.fail('no notice is given up within a day'),
    now: Date.now,
    random,
  });
  const poll = (
    queueUrl: string,
    functionName: string,
    handler: (event: SQSEvent) => Promise<SQSBatchResponse>,
  ) =>
    startPoller({
      sqs: aws.direct,
      log: QUIET,
      functionTimeoutMs: 2_000,
      queueUrl,
      functionName,
      handler: mortal((event: SQSEvent) => handler(event)),
      batchSize: 10,
      windowSeconds: 0,
      maximumConcurrency: 8,
    });
  const pollers = await Promise.all([poll(queue.url, 'batch', batch), poll(notices.url, 'notifier', notify)]);
  const endWatch = watchObjects(reader, (message) => notices1.send(message));
  t.after(endWatch);
  t.after(async () => void (await Promise.all(pollers.map((poller) => poller.close()))));

  // Some are cancelled, of which most have run by then; each fourth names no target.
  const isTold = (i: number) => i % 4 !== 3;
  const sent: Promise<unknown>[] = [];
  for (let i = 0; i < records; i++) {
    const attributes = newAttributes(`i-${i}`, undefined, isTold(i) ? { notify: 'shop' } : {});
    const send = records1.send(encodeMessage(`uri-${i}`, inputsOf(i)), attributes);
    sent.push(i % 5 === 0 ? send.then(() => states.cancel(`uri-${i}`)) : send);
    if (sent.length % 500 === 0) await Promise.all(sent);
  }
  await Promise.all(sent);
  const expected = Array.from({ length: records }, (_, i) => i).filter(isTold);
  const statuses = new Map<string, Set<string>>();
  const ids = new Map<string, Set<string>>();
  let read = 0;
  const all = () => {
    for (const one of receiver.received.slice(read)) {
      read++;
      assert.ok(isSigned(one));
      const { data }: Body = JSON.parse(one.body);
      ids.set(data.identity, (ids.get(data.identity) ?? new Set()).add(one.id));
      statuses.set(one.id, (statuses.get(one.id) ?? new Set()).add(`${data.uri} ${data.status}`));
    }
    return ids.size >= expected.length;
  };
  await until(all, 600_000, 100);
  // A repeated notice has the same id and the same content.
  assert.deepEqual([...ids.keys()].toSorted(), expected.map((i) => `i-${i}`).toSorted());
  assert.ok([...ids.values()].every((own) => own.size === 1));
  assert.equal(statuses.size, expected.length);
  for (const [id, said] of statuses) assert.equal(said.size, 1, `${id}: ${[...said].join(', ')}`);
  // A client finds the outcome that was announced.
  const counts = { succeeded: 0, failed: 0, cancelled: 0 };
  for (const i of expected) {
    const status = await statusOf(results, `uri-${i}`, `i-${i}`);
    const [id = ''] = ids.get(`i-${i}`) ?? [];
    assert.deepEqual([...(statuses.get(id) ?? [])], [`uri-${i} ${status}`]);
    counts[status]++;
  }
  assert.ok(
    Object.values(counts).every((count) => count > 0),
    JSON.stringify(counts),
  );
  assert.ok(read > expected.length, 'nothing was repeated, so nothing ended');
}

async function statusOf(results: ResultStore, uri: string, identity: string) {
  try {
    assert.ok(await results.get(uri, { identity }));
    return 'succeeded';
  } catch (error) {
    return ServingError.from(error).code === 'cancelled' ? 'cancelled' : 'failed';
  }
}
