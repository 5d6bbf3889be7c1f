/**
 * The models of SQS and S3 against services that speak to the real AWS SDK: those in the process of the single machine, and
 * moto's where it is installed (`pip install "moto[server]"`). What the models do beyond them is what AWS documents and an
 * emulator never does: lose, delay and repeat.
 */
import assert from 'node:assert/strict';
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { type TestContext, test } from 'node:test';
import {
  CreateBucketCommand,
  DeleteObjectsCommand,
  GetObjectCommand,
  HeadObjectCommand,
  ListObjectsV2Command,
  PutObjectCommand,
  S3Client,
} from '@aws-sdk/client-s3';
import {
  CreateQueueCommand,
  DeleteMessageBatchCommand,
  GetQueueAttributesCommand,
  ReceiveMessageCommand,
  SendMessageBatchCommand,
  SQSClient,
} from '@aws-sdk/client-sqs';
import { startAws } from '../../../local/aws/aws.ts';
import { pick, seeded, whole } from '../../support/faults/seeds.ts';
import { QUIET } from '../../support/faults/service.ts';
import { freePort } from '../../support/free-port.ts';
import { until } from '../../support/until.ts';
import { Choices } from '../machine/random.ts';
import { S3Model } from '../models/s3.ts';
import { SqsQueue } from '../models/sqs.ts';

interface Account {
  readonly s3: S3Client;
  readonly sqs: SQSClient;
  /** False: it writes although the condition does not hold. */
  readonly hasConditions: boolean;
}

async function localAccount(t: TestContext): Promise<Account> {
  const aws = await startAws({ port: 0, log: QUIET });
  t.after(() => aws.close());
  return { ...aws, hasConditions: false };
}

const hasMoto = spawnSync('moto_server', ['--help']).status === 0;
const needsMoto = { skip: hasMoto ? false : 'needs moto_server: pip install "moto[server]"' };

async function motoAccount(t: TestContext): Promise<Account> {
  const port = await freePort();
  const server: ChildProcess = spawn('moto_server', ['-H', '127.0.0.1', '-p', String(port)], {
    stdio: 'ignore',
  });
  t.after(() => server.kill());
  const url = `http://127.0.0.1:${port}`;
  await until(() =>
    fetch(url).then(
      () => true,
      () => false,
    ),
  );
  const options = {
    endpoint: url,
    region: 'eu-west-1',
    credentials: { accessKeyId: 'id', secretAccessKey: 'key' },
  };
  const s3 = new S3Client({ ...options, forcePathStyle: true });
  const sqs = new SQSClient({ ...options, useQueueUrlAsEndpoint: false });
  t.after(() => s3.destroy());
  t.after(() => sqs.destroy());
  return { s3, sqs, hasConditions: true };
}

const BUCKET = 'compared';
const KEYS = ['a', 'a/b', 'a/c', 'b', 'models/job/current.json'];

interface Operation {
  readonly name: 'PutObject' | 'GetObject' | 'HeadObject' | 'ListObjectsV2' | 'DeleteObjects';
  readonly input: Readonly<Record<string, unknown>>;
}

const COMMANDS = {
  PutObject: PutObjectCommand,
  GetObject: GetObjectCommand,
  HeadObject: HeadObjectCommand,
  ListObjectsV2: ListObjectsV2Command,
  DeleteObjects: DeleteObjectsCommand,
};

/** @param etagOf what an object has now */
function drawOperation(
  random: () => number,
  hasConditions: boolean,
  etagOf: (key: string) => string | undefined,
): Operation {
  const Key = pick(random, KEYS);
  switch (whole(random, 0, 9)) {
    case 0:
    case 1:
    case 2:
      return {
        name: 'PutObject',
        input: { Key, Body: 'x'.repeat(whole(random, 0, 30)) + String(whole(random, 0, 99)) },
      };
    case 3: {
      if (!hasConditions) return { name: 'HeadObject', input: { Key } };
      const condition = pick(random, [
        { IfNoneMatch: '*' },
        { IfMatch: etagOf(Key) ?? '"0"' },
        { IfMatch: '"0"' },
      ]);
      return { name: 'PutObject', input: { Key, Body: 'conditional', ...condition } };
    }
    case 4:
      return { name: 'GetObject', input: { Key } };
    case 5: {
      const first = whole(random, 0, 40);
      return { name: 'GetObject', input: { Key, Range: `bytes=${first}-${first + whole(random, 0, 9)}` } };
    }
    case 6:
      return { name: 'GetObject', input: { Key, IfMatch: pick(random, [etagOf(Key) ?? '"0"', '"0"']) } };
    case 7:
      return { name: 'HeadObject', input: { Key } };
    case 8: {
      const Prefix = pick(random, ['', 'a', 'a/', 'models/']);
      return {
        name: 'ListObjectsV2',
        input: { Prefix, ...pick(random, [{}, { Delimiter: '/' }, { StartAfter: 'a/b' }]) },
      };
    }
    default:
      return { name: 'DeleteObjects', input: { Delete: { Objects: [{ Key }], Quiet: true } } };
  }
}

/** The parts of an answer that the product reads, or the error. */
async function shown(work: () => Promise<object>): Promise<object> {
  try {
    const {
      Body,
      ETag,
      ContentLength,
      Contents,
      CommonPrefixes,
    }: {
      Body?: Buffer | { transformToString(): Promise<string> };
      ETag?: string;
      ContentLength?: number;
      Contents?: readonly { Key?: string; Size?: number; ETag?: string }[];
      CommonPrefixes?: readonly { Prefix?: string }[];
    } = await work();
    const text = Body && ('transformToString' in Body ? await Body.transformToString() : Body.toString());
    return {
      text,
      ETag,
      ContentLength,
      Contents: Contents?.map((one) => [one.Key, one.Size, one.ETag]),
      folders: CommonPrefixes?.map(({ Prefix }) => Prefix),
    };
  } catch (error) {
    const { name, $metadata }: { name?: string; $metadata?: { httpStatusCode?: number } } = Object(error);
    return { name, status: $metadata?.httpStatusCode };
  }
}

async function compareS3({ s3, hasConditions }: Account): Promise<void> {
  await s3
    .send(
      new CreateBucketCommand({
        Bucket: BUCKET,
        CreateBucketConfiguration: { LocationConstraint: 'eu-west-1' },
      }),
    )
    .catch(() => s3.send(new CreateBucketCommand({ Bucket: BUCKET })));
  const model = new S3Model(Date.now);
  const random = seeded(7);
  for (let i = 0; i < 300; i++) {
    const { name, input } = drawOperation(random, hasConditions, (key) => model.objects.get(key)?.etag);
    const modelled = await shown(async () => model.serve(name, input));
    const command: GetObjectCommand = Reflect.construct(COMMANDS[name], [{ Bucket: BUCKET, ...input }]);
    const real = await shown(() => s3.send(command));
    // An answer to a write or a listing has more than the model says.
    const keys = Object.entries(modelled)
      .filter(([, value]) => value !== undefined)
      .map(([key]) => key);
    const compared = Object.fromEntries(keys.map((key) => [key, Reflect.get(real, key)]));
    assert.deepEqual(
      compared,
      Object.fromEntries(keys.map((key) => [key, Reflect.get(modelled, key)])),
      `${i}: ${name} ${JSON.stringify(input)} ${JSON.stringify(real)}`,
    );
  }
}

test('the model of S3 answers as the S3 of the single machine', async (t) =>
  compareS3(await localAccount(t)));
test('the model of S3 answers as moto, conditions included', needsMoto, async (t) =>
  compareS3(await motoAccount(t)),
);

const VISIBILITY_MS = 1_000;

/** A queue as a sequence of calls sees it. */
interface Queue {
  send(count: number, bytes?: number): Promise<string[]>;
  /** All that is visible: body, receive count, id, receipt. */
  receive(): Promise<readonly (readonly [body: string, receives: number, id: string, receipt: string])[]>;
  remove(id: string, receipt: string): Promise<void>;
  wait(ms: number): Promise<void>;
  /** Bodies in the dead letters. */
  dead(): Promise<string[]>;
}

function modelledQueue(): Queue {
  let nowMs = Date.now();
  const choices = new Choices(1);
  const deadLetters = new SqsQueue(
    { name: 'dead', visibilityMs: VISIBILITY_MS, retentionMs: 1e9 },
    choices,
    () => nowMs,
  );
  const options = {
    name: 'queue',
    visibilityMs: VISIBILITY_MS,
    retentionMs: 1e9,
    maxReceives: 2,
    deadLetters,
  };
  const queue = new SqsQueue(options, choices, () => nowMs);
  return {
    send: async (count, bytes) =>
      namesOf(
        queue.sendBatch({ Entries: entries(count, bytes) }, { refuses: () => false, delayMs: () => 0 }),
      ),
    receive: async () =>
      queue.receive(100).map(({ body, receives, id, receipt }) => [body, receives, id, receipt]),
    remove: async (id, receipt) => void queue.remove({ id, receipt }),
    wait: async (ms) => void (nowMs += ms),
    dead: async () => deadLetters.receive(100).map(({ body }) => body),
  };
}

function entries(count: number, bytes = 4) {
  return Array.from({ length: count }, (_, i) => ({ Id: String(i), MessageBody: `${i}`.padEnd(bytes, '.') }));
}

function namesOf(answer: object): string[] {
  const {
    Successful = [],
    Failed = [],
  }: { Successful?: readonly { Id?: string }[]; Failed?: readonly { Id?: string }[] } = answer;
  return [...Successful.map(({ Id }) => `took ${Id}`), ...Failed.map(({ Id }) => `refused ${Id}`)];
}

async function realQueue({ sqs }: Account): Promise<Queue> {
  const create = async (QueueName: string, Attributes: Record<string, string>) =>
    (await sqs.send(new CreateQueueCommand({ QueueName, Attributes }))).QueueUrl ?? '';
  const seconds = String(VISIBILITY_MS / 1000);
  const deadUrl = await create('dead', { VisibilityTimeout: seconds });
  const { Attributes } = await sqs.send(
    new GetQueueAttributesCommand({ QueueUrl: deadUrl, AttributeNames: ['QueueArn'] }),
  );
  const redrive = JSON.stringify({ deadLetterTargetArn: Attributes?.['QueueArn'], maxReceiveCount: 2 });
  const QueueUrl = await create('queue', { VisibilityTimeout: seconds, RedrivePolicy: redrive });
  const receive = async (url: string) => {
    const all = [];
    for (;;) {
      const ask = {
        QueueUrl: url,
        MaxNumberOfMessages: 10,
        MessageSystemAttributeNames: ['ApproximateReceiveCount'] as const,
      };
      const { Messages = [] } = await sqs.send(
        new ReceiveMessageCommand({
          ...ask,
          MessageSystemAttributeNames: [...ask.MessageSystemAttributeNames],
        }),
      );
      if (Messages.length === 0) return all;
      all.push(...Messages);
    }
  };
  return {
    send: async (count, bytes) =>
      namesOf(await sqs.send(new SendMessageBatchCommand({ QueueUrl, Entries: entries(count, bytes) }))),
    receive: async () =>
      (await receive(QueueUrl)).map(
        ({ Body = '', Attributes: facts, MessageId = '', ReceiptHandle = '' }) => [
          Body,
          Number(facts?.ApproximateReceiveCount),
          MessageId,
          ReceiptHandle,
        ],
      ),
    remove: async (Id, ReceiptHandle) =>
      void (await sqs.send(
        new DeleteMessageBatchCommand({ QueueUrl, Entries: [{ Id: Id.slice(0, 80), ReceiptHandle }] }),
      )),
    wait: (ms) => new Promise((resolve) => setTimeout(resolve, ms)),
    dead: async () => (await receive(deadUrl)).map(({ Body = '' }) => Body),
  };
}

/** Returns the behaviour of a queue, without ids and order, which differ. */
async function lifeOf(queue: Queue): Promise<unknown[]> {
  const failure = (error: unknown) => String(Reflect.get(Object(error), 'name')).replace(/^.*\./, '');
  const said: unknown[] = [
    await queue.send(3),
    await queue.send(11).catch(failure),
    await queue.send(0).catch(failure),
  ];
  said.push(await queue.send(2, 600_000).catch(failure));
  const first = await queue.receive();
  const bodies = (messages: Awaited<ReturnType<Queue['receive']>>) =>
    messages.map(([body, receives]) => `${body} ${receives}`).sort();
  said.push(bodies(first), bodies(await queue.receive()));
  const [one] = first.filter(([body]) => body.startsWith('0'));
  if (one) await queue.remove(one[2], one[3]);
  await queue.wait(VISIBILITY_MS + 300);
  said.push(bodies(await queue.receive()));
  await queue.wait(VISIBILITY_MS + 300);
  said.push(bodies(await queue.receive()), (await queue.dead()).sort());
  return said;
}

test('the model of a queue behaves as that of the single machine', async (t) => {
  assert.deepEqual(await lifeOf(modelledQueue()), await lifeOf(await realQueue(await localAccount(t))));
});

test('the model of a queue behaves as moto', needsMoto, async (t) => {
  assert.deepEqual(await lifeOf(modelledQueue()), await lifeOf(await realQueue(await motoAccount(t))));
});
