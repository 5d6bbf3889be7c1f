/** Makes every state that a version leaves behind, by running its clients and functions and stopping in the middle. */
import { randomUUID } from 'node:crypto';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { PutObjectCommand } from '@aws-sdk/client-s3';
import {
  ChangeMessageVisibilityCommand,
  ReceiveMessageCommand,
  SendMessageCommand,
} from '@aws-sdk/client-sqs';
import type { SQSRecord } from 'aws-lambda';
import { enqueueOf } from '../../../lib/codecs/attributes.ts';
import { encodePointer } from '../../../lib/codecs/pointer.ts';
import { Timers } from '../../../lib/metrics/timers.ts';
import { RedisConnection } from '../../../lib/redis/connection.ts';
import { RateLimiter } from '../../../lib/redis/rate-limiter.ts';
import { RecordStates } from '../../../lib/redis/record-states.ts';
import { ResultStore } from '../../../lib/redis/results.ts';
import { PayloadStore } from '../../../lib/s3/payloads.ts';
import { toRecord } from '../../../local/event-source/event.ts';
import { type Job, MOST_DELIVERIES, queueNameOf, resultKeyOf } from '../jobs.ts';
import { OTHER, RECORDS, type RecordInputs } from '../records.ts';
import type { StoredEvent } from '../stored.ts';
import type { World } from '../world.ts';
import { type Ids, storedEvent } from './dump.ts';
import { modelsOf } from './models.ts';
import { zooMessages } from './zoo.ts';

export const STRANGE_URI = 'a/b?c=d&e=*:ünïcode #1';
const DAY_MS = 24 * 3600 * 1000;
const FIRST_PUBLISHED = Date.UTC(2026, 0, 10);

export interface Made {
  readonly events: StoredEvent[];
  /** Lease of the result of `taken`. */
  readonly leaseId: string;
  readonly versions: Record<string, string>;
}

/** Fills the servers of `world`; random ids are learned by `ids` in order. */
export async function makeStates(world: World, ids: Ids, png: Uint8Array): Promise<Made> {
  const { aws, bucket, redis, redisUrl, functions } = world;
  const zoo = zooMessages(png);
  const versions = await publishModels(world);
  const events: StoredEvent[] = [];
  const dense = RECORDS.dense;
  const payloads = new PayloadStore(aws.s3, bucket, 'line');

  /** Receives a message, which stays in flight. */
  async function received(queueUrl: string): Promise<SQSRecord | undefined> {
    const receive = new ReceiveMessageCommand({
      QueueUrl: queueUrl,
      MaxNumberOfMessages: 1,
      MessageSystemAttributeNames: ['All'],
      MessageAttributeNames: ['All'],
    });
    const [message] = (await aws.sqs.send(receive)).Messages ?? [];
    const name = new URL(queueUrl).pathname.split('/').at(-1);
    return message && toRecord(message, { arn: `arn:aws:sqs:local:000000000000:${name}`, region: 'local' });
  }
  async function theOnly(job: Job): Promise<SQSRecord> {
    const record = await received(world.queue(job).url);
    if (!record) throw new Error(`nothing in the queue of ${job}`);
    for (const { stringValue = '' } of Object.values(record.messageAttributes)) ids.learn(stringValue);
    ids.learn(record.messageId);
    ids.learn(record.body);
    return record;
  }
  async function sent(job: Job, uri: string, inputs: RecordInputs, announces = false): Promise<SQSRecord> {
    await world.input(job, announces, (queue) => queue.enqueue(uri, inputs));
    return theOnly(job);
  }
  async function sentBody(job: Job, body: string): Promise<SQSRecord> {
    await aws.sqs.send(new SendMessageCommand({ QueueUrl: world.queue(job).url, MessageBody: body }));
    return theOnly(job);
  }
  /** The message of a record whose payload is in S3. */
  async function pointer(uri: string, inputs: RecordInputs): Promise<string> {
    const { body } = await sent('line', uri, inputs);
    return encodePointer(uri, await payloads.put(body), Buffer.byteLength(body));
  }
  /** Ends the visibility timeout of a message and receives it again. */
  async function again(record: SQSRecord): Promise<SQSRecord> {
    const queue = queueNameOf('line');
    if (!record.eventSourceARN.endsWith(queue)) throw new Error('only messages of line come again');
    await aws.sqs.send(
      new ChangeMessageVisibilityCommand({
        QueueUrl: world.queue('line').url,
        ReceiptHandle: record.receiptHandle,
        VisibilityTimeout: 0,
      }),
    );
    return theOnly('line');
  }
  /** Delivers a message until it moves to the dead-letter queue, and receives it there. */
  async function lost(body: string): Promise<SQSRecord> {
    let record = await sentBody('line', body);
    for (let count = 1; count < MOST_DELIVERIES; count++) record = await again(record);
    const { receiptHandle } = record;
    const QueueUrl = world.queue('line').url;
    await aws.sqs.send(
      new ChangeMessageVisibilityCommand({ QueueUrl, ReceiptHandle: receiptHandle, VisibilityTimeout: 0 }),
    );
    // The emulator applies the redrive policy when the queue is polled.
    if (await received(QueueUrl)) throw new Error('the message was delivered once too often');
    const dead = await received(world.queue('line').deadLetterUrl);
    if (!dead) throw new Error('the message is not with the dead letters');
    return dead;
  }
  const run = async (record: SQSRecord, job: Job) => {
    const failures = await functions[job].deliver('batch', [record]);
    if (failures.length > 0) throw new Error(`${record.body} failed: ${functions[job].log()}`);
    return record;
  };
  const archive = async (record: SQSRecord) => {
    const failures = await functions.line.deliver('dead-letter', [record]);
    if (failures.length > 0) throw new Error(`${record.body} is not archived: ${functions.line.log()}`);
  };
  const store = (
    name: string,
    job: Job,
    records: readonly SQSRecord[],
    functionName: StoredEvent['function'] = 'batch',
  ) => {
    events.push(storedEvent({ name, job, function: functionName }, records, ids));
  };
  const image: RecordInputs = { x: { bytes: png } };
  const bad = JSON.stringify({ uri: 'unreadable', data: 'bm8gQXJyb3c=' });

  // Results. `pair` was made before its job had a filter.
  await run(await sent('line', 'dense', dense, true), 'line');
  await run(await sent('line', 'image', image, true), 'line');
  await run(await sent('line', STRANGE_URI, dense, true), 'line');
  await run(await sent('line', 'unannounced', RECORDS.sparse), 'line');
  await run(await sent('line', 'specials', { x: { data: specials(), shape: [3, 2, 2] } }), 'line');
  await run(await sent('line', 'bad shape', RECORDS.nested, true), 'line');
  await run(await sentBody('line', bad), 'line');
  await run(await sent('kinds', 'kinds', { x: [0, 1, 3] }, true), 'kinds');
  await run(await sent('text', 'words', RECORDS.strings, true), 'text');
  await run(await sent('top', 'top', { x: [1, 4, 2, 3.5] }, true), 'top');
  const unfiltered = await world.startFunctions('top', 'jobName: top\n');
  await unfiltered.deliver('batch', [await sent('top', 'pair', { x: [1, 4, 2, 3.5] }, true)]);

  // Claims without a result yet.
  const queued = await sent('line', 'queued', dense, true);
  const cancelled = await sent('line', 'cancelled', dense, true);
  const running = await sent('line', 'running', dense, true);
  await world.output('line', async (queue) => {
    await queue.cancel('cancelled');
    await queue.cancel('cancelled before it was announced');
  });
  await run(await sent('line', 'expired', dense, true), 'line');
  await redis.del(resultKeyOf('line', 'expired'));
  await redis.zrem(`cluster-serving-index_line`, 'expired');

  // Dead letters.
  await archive(await lost((await sent('line', 'dead', dense)).body));
  await archive(await lost(zoo.dense('dead zoo')));
  await archive(await lost(await pointer('dead pointer', dense)));
  await archive(
    await lost(encodePointer('dead pointer to nothing', `payloads/line/${known(randomUUID())}`, 99)),
  );
  await archive(await lost((await sent('line', 'dead bad shape', RECORDS.nested)).body));
  await archive(await lost('{"data":"without a uri"}'));
  await archive(await lost('no JSON'));
  for (const uri of ['dead and used again', 'dead and cancelled', 'dead and answered']) {
    await archive(await lost((await sent('line', uri, dense)).body));
    await world.output('line', (queue) => queue.queryAndDelete(uri).catch(() => undefined));
  }
  await sent('line', 'dead and used again', OTHER, true);
  await world.output('line', (queue) => queue.cancel('dead and cancelled'));
  await run(await sent('line', 'dead and answered', dense), 'line');
  await put('dead-letters/line/not-a-message.json', 'no dead letter');

  // Taken, and kept for its taker.
  const taken = await run(await sent('line', 'taken', dense, true), 'line');
  for (const key of await redis.keys('cluster-serving-held_*')) await redis.del(key);
  await world.output('line', (queue) => queue.queryAndDelete('taken'));
  const [leaseKey = ''] = await redis.keys('cluster-serving-held_*');
  ids.learn(leaseKey);

  // Keys of other programs, and results of the original server.
  await redis.set(resultKeyOf('line', 'foreign'), 'not a result');
  const value = (await redis.hget(resultKeyOf('line', 'dense'), 'value')) as string;
  await redis.hset(resultKeyOf('line', 'old server'), { value });
  await redis.hset(resultKeyOf('line', 'old server, failed'), { value: 'NaN' });
  await redis.hset(resultKeyOf('line', 'old server, top'), { value: '[[4,5.0],[3,4.0]]' });

  // In flight.
  store('queued', 'line', [queued]);
  store('cancelled', 'line', [cancelled]);
  store('taken, delivered again', 'line', [await again(taken)]);
  const clients: SQSRecord[] = [];
  for (const [uri, name] of [
    ['c1', 'dense'],
    ['c2', 'integers'],
    ['c3', 'doubles'],
    ['c4', 'sparse'],
  ] as const)
    clients.push(await sent('line', uri, RECORDS[name]));
  clients.push(await sent('line', 'c5', image));
  clients.push(await sentBody('line', await pointer('c6', dense)));
  clients.push(await sentBody('line', await pointer('c7', image)));
  clients.push(await sentBody('line', zoo.stream('c8')));
  store('of our clients', 'line', clients);
  const old: SQSRecord[] = [];
  for (const [i, message] of [zoo.dense, zoo.sparse, zoo.scala, zoo.image, zoo.stream, zoo.json].entries())
    old.push(await sentBody('line', message(`zoo ${i}`)));
  store('of old clients', 'line', old);
  const broken: SQSRecord[] = [];
  for (const body of [
    (await sent('line', 'bad 0', RECORDS.nested)).body,
    JSON.stringify({ uri: 'bad 1', data: 'bm8gQXJyb3c=' }),
    JSON.stringify({ uri: 'bad 2', data: '', serde: 'pickle' }),
    encodePointer('bad 3', `payloads/line/${known(randomUUID())}`, 99),
    JSON.stringify({ uri: 'bad 4', pointer: 'models/line/current.json' }),
    '{"data":"without a uri"}',
    'no JSON',
  ])
    broken.push(await sentBody('line', body));
  const good = await sent('line', 'beside bad ones', dense);
  store('bad ones', 'line', [...broken, good]);
  const first = await sent('line', 'twice', dense);
  store('twice', 'line', [first, first, await sent('line', 'twice', OTHER)]);
  store('of a uri with a result', 'line', [await sent('line', 'dense', OTHER)]);
  store('of a uri that is foreign', 'line', [await sent('line', 'foreign', dense)]);
  store('running, delivered again', 'line', [await again(running)]);
  const second: SQSRecord[] = [];
  for (const uri of ['r1', 'r2', 'r3']) second.push(await again(await sent('line', uri, dense)));
  second.push(await again(await sentBody('line', await pointer('r4', dense))));
  store('delivered twice', 'line', [await sent('line', 'r0', dense), ...second]);
  const third: SQSRecord[] = [];
  for (const uri of ['r5', 'r6']) third.push(await again(await again(await sent('line', uri, image))));
  store('delivered three times', 'line', third);
  store('of kinds', 'kinds', [await sent('kinds', 'k1', { x: [7, 0, 255] })]);
  store('of top', 'top', [await sent('top', 't1', { x: [-1, 5, 5, 2] })]);
  store('of text', 'text', [
    await sent('text', 's1', RECORDS.strings),
    await sentBody('text', zoo.strings('s2')),
  ]);
  const dead: SQSRecord[] = [];
  for (const body of [
    (await sent('line', 'lost', dense)).body,
    zoo.dense('lost zoo'),
    await pointer('lost pointer', dense),
    '{"data":"without a uri"}',
    'no JSON',
    (await sent('line', 'dense', OTHER)).body,
  ])
    dead.push(await lost(body));
  store('out of deliveries', 'line', dead, 'dead-letter');

  await numbers();
  return { events, leaseId: ids.fixed(leaseKey.split(':')[1] ?? ''), versions };

  function known(id: string): string {
    ids.learn(id);
    return id;
  }

  async function put(key: string, text: string): Promise<void> {
    await aws.s3.send(
      new PutObjectCommand({ Bucket: bucket, Key: key, Body: text, ContentType: 'application/json' }),
    );
  }

  /** Metrics that do not depend on this machine, a running record, and a token bucket that is full for 20 seconds. */
  async function numbers(): Promise<void> {
    for (const key of await redis.keys('cluster-serving-metrics_*')) await redis.del(key);
    const connection = new RedisConnection(redisUrl);
    const timers = new Timers();
    for (const ms of [1, 2, 4, 8, 250]) timers.record('zoo.serving.request.predict', ms);
    for (const ms of [0.5, 0.25]) timers.record('zoo.serving.redis.put', ms);
    timers.record('zoo.serving.redis.wait', 12.5);
    const options = { job: 'line', ttlSeconds: 86_400, now: Date.now };
    await new ResultStore(connection, options).save([], '', timers);
    const states = new RecordStates(connection, { job: 'line', now: Date.now });
    await states.markRunning([{ uri: 'running', enqueue: enqueueOf(running) }], 600_000);
    const limiter = new RateLimiter(connection, {
      job: 'top',
      tokensPerSecond: 1,
      acquireTimeoutMs: 60_000,
      sleep: async () => undefined,
      onError: (error: unknown) => {
        throw error;
      },
    });
    for (let i = 0; i < 20; i++) await limiter.acquire();
    await connection.close();
  }
}

function specials(): Float32Array {
  return Float32Array.of(Number.NaN, Infinity, -Infinity, -0.5, 1e-45, 3e38, 1e7, 123_456.79, 0.1, 1, 2, 3);
}

/** Publishes all models but that of `text`, which is copied into the bucket. */
async function publishModels({ code, aws, bucket }: World): Promise<Record<string, string>> {
  const models = modelsOf();
  const folder = await mkdtemp(join(tmpdir(), 'cs-models-'));
  const versions: Record<string, string> = {};
  try {
    for (const job of ['line', 'kinds', 'top'] as const) {
      for (const [i, bytes] of models[job].entries()) {
        const directory = join(folder, `${job}-${i}`);
        await mkdir(directory);
        await writeFile(join(directory, 'model.onnx'), bytes);
        const options = { activate: i < 2, now: () => FIRST_PUBLISHED + i * DAY_MS };
        versions[`${job} ${i + 1}`] = await code.publish({ s3: aws.s3, bucket, job }, directory, options);
      }
    }
    const text = models.text[0] as Uint8Array;
    await aws.s3.send(new PutObjectCommand({ Bucket: bucket, Key: 'models/text/text.onnx', Body: text }));
    return versions;
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}
