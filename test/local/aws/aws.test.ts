import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import {
  GetObjectCommand,
  HeadObjectCommand,
  ListObjectsV2Command,
  PutObjectCommand,
  S3Client,
} from '@aws-sdk/client-s3';
import {
  ChangeMessageVisibilityCommand,
  DeleteMessageCommand,
  GetQueueAttributesCommand,
  GetQueueUrlCommand,
  type Message,
  ReceiveMessageCommand,
  SendMessageCommand,
  SQSClient,
} from '@aws-sdk/client-sqs';
import { type LocalAws, type LocalAwsOptions, startAws } from '../../../local/aws/aws.ts';
import { childEnvironment } from '../../support/environment.ts';

const log = { info: () => undefined, warn: () => undefined, error: () => undefined };
const opened: LocalAws[] = [];
const children: ChildProcess[] = [];
let folder: string;
let folders = 0;

before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'local-aws-'));
});
after(async () => {
  for (const child of children) child.kill('SIGKILL');
  await Promise.all(opened.map((aws) => aws.close()));
  await rm(folder, { recursive: true });
});

const newDataDir = () => join(folder, `data-${(folders += 1)}`, 'deep');
async function start(options: Partial<LocalAwsOptions> = {}): Promise<LocalAws> {
  const aws = await startAws({ port: 0, log, ...options });
  opened.push(aws);
  return aws;
}

async function send(aws: LocalAws, url: string, body: string): Promise<void> {
  await aws.sqs.send(new SendMessageCommand({ QueueUrl: url, MessageBody: body }));
}

async function receive(aws: LocalAws, url: string, waitSeconds = 0): Promise<Message[]> {
  const command = new ReceiveMessageCommand({
    QueueUrl: url,
    MaxNumberOfMessages: 10,
    WaitTimeSeconds: waitSeconds,
    MessageSystemAttributeNames: ['All'],
  });
  return (await aws.sqs.send(command)).Messages ?? [];
}

async function hide(
  aws: LocalAws,
  url: string,
  message: Message | undefined,
  seconds: number,
): Promise<void> {
  const handle = { QueueUrl: url, ReceiptHandle: message?.ReceiptHandle, VisibilityTimeout: seconds };
  await aws.sqs.send(new ChangeMessageVisibilityCommand(handle));
}

const bodyAndCount = (messages: readonly Message[]) =>
  messages.map((message) => `${message.Body} ${message.Attributes?.ApproximateReceiveCount}`);

async function read(aws: LocalAws, key: string, range?: string): Promise<Buffer> {
  const reply = await aws.s3.send(new GetObjectCommand({ Bucket: 'models', Key: key, Range: range }));
  return Buffer.from((await reply.Body?.transformToByteArray()) ?? []);
}

describe('queues and buckets', () => {
  it('are created with a dead-letter queue and the settings asked for', async () => {
    const aws = await start();
    const queue = await aws.createQueue({
      name: 'jobs',
      visibilitySeconds: 7,
      retentionSeconds: 90,
      maxReceiveCount: 3,
    });
    const reply = await aws.sqs.send(
      new GetQueueAttributesCommand({ QueueUrl: queue.url, AttributeNames: ['All'] }),
    );
    assert.equal(queue.arn, 'arn:aws:sqs:us-east-1:000000000000:jobs');
    assert.equal(queue.url, `${aws.url}/000000000000/jobs`);
    assert.equal(reply.Attributes?.VisibilityTimeout, '7');
    assert.equal(reply.Attributes.MessageRetentionPeriod, '90');
    assert.deepEqual(JSON.parse(reply.Attributes.RedrivePolicy ?? ''), {
      deadLetterTargetArn: 'arn:aws:sqs:us-east-1:000000000000:jobs-dlq',
      maxReceiveCount: 3,
    });
    assert.equal(queue.deadLetter?.url, `${aws.url}/000000000000/jobs-dlq`);
  });

  it('can be created again, with other settings, and keep what they hold', async () => {
    const aws = await start();
    const first = await aws.createQueue({ name: 'jobs', visibilitySeconds: 30, maxReceiveCount: 3 });
    await aws.createBucket('models');
    await send(aws, first.url, 'kept');
    await aws.s3.send(new PutObjectCommand({ Bucket: 'models', Key: 'a', Body: 'kept' }));
    const second = await aws.createQueue({ name: 'jobs', visibilitySeconds: 31 });
    await aws.createBucket('models');
    assert.equal(second.url, first.url);
    assert.equal(second.deadLetter, undefined);
    const { Attributes } = await aws.sqs.send(
      new GetQueueAttributesCommand({ QueueUrl: first.url, AttributeNames: ['All'] }),
    );
    assert.equal(Attributes?.VisibilityTimeout, '31');
    assert.equal(Attributes.RedrivePolicy, undefined);
    assert.deepEqual(bodyAndCount(await receive(aws, first.url)), ['kept 1']);
    assert.equal(String(await read(aws, 'a')), 'kept');
  });

  it('take the characters that SQS takes: emoji, no U+FFFE and no control characters', async () => {
    const aws = await start();
    const { url } = await aws.createQueue({ name: 'jobs' });
    await send(aws, url, '{"text":"😀 \u{10ffff}"}');
    assert.deepEqual(bodyAndCount(await receive(aws, url)), ['{"text":"😀 \u{10ffff}"} 1']);
    for (const refused of ['\ufffe', '\uffff', '\u0000', '\u000b', '\u001f'])
      await assert.rejects(send(aws, url, refused), /Invalid characters found/);
  });

  it('are refused with every setting that SQS would refuse', async () => {
    const aws = await start();
    const bad = { name: 'a b', visibilitySeconds: 43_201, retentionSeconds: 59, maxReceiveCount: 0 };
    await assert.rejects(aws.createQueue(bad), (error: Error) => {
      for (const part of ['name', 'visibilitySeconds', 'retentionSeconds', 'maxReceiveCount']) {
        assert.match(error.message, new RegExp(`${part} must be`));
      }
      return true;
    });
    await assert.rejects(aws.createBucket('No Such Name'), /bucket No Such Name cannot be created/);
  });

  it('are found by a client that knows nothing but the environment', async () => {
    const aws = await start({ region: 'eu-central-1' });
    const queue = await aws.createQueue({ name: 'jobs' });
    await send(aws, queue.url, 'hello');
    const script = join(folder, 'client.mjs');
    const sdk = import.meta.resolve('@aws-sdk/client-sqs');
    await writeFile(
      script,
      `import sdk from ${JSON.stringify(sdk)};
       const sqs = new sdk.SQSClient({});
       const { QueueUrl } = await sqs.send(new sdk.GetQueueUrlCommand({ QueueName: 'jobs' }));
       const { Messages } = await sqs.send(new sdk.ReceiveMessageCommand({ QueueUrl }));
       process.stdout.write(Messages[0].Body);`,
    );
    const child = spawn(process.execPath, [script], { env: childEnvironment(aws.environment) });
    children.push(child);
    let out = '';
    let errors = '';
    child.stdout.on('data', (chunk) => (out += String(chunk)));
    child.stderr.on('data', (chunk) => (errors += String(chunk)));
    await once(child, 'close');
    assert.equal(out, 'hello', errors);
  });
});

for (const kind of ['memory', 'a data folder'] as const) {
  const options = () => (kind === 'memory' ? {} : { dataDir: newDataDir() });

  describe(`SQS with ${kind}`, () => {
    it('shows a message again at once when its visibility is set to 0', async () => {
      const aws = await start(options());
      const { url } = await aws.createQueue({ name: 'jobs' });
      await send(aws, url, 'a');
      const [message] = await receive(aws, url);
      await hide(aws, url, message, 0);
      assert.deepEqual(bodyAndCount(await receive(aws, url)), ['a 2']);
    });

    it('does not count or hide a message for a receiver that has gone', async () => {
      const aws = await start(options());
      const { url } = await aws.createQueue({ name: 'jobs', visibilitySeconds: 600 });
      const gone = new AbortController();
      const command = new ReceiveMessageCommand({ QueueUrl: url, WaitTimeSeconds: 20 });
      const poll = aws.sqs.send(command, { abortSignal: gone.signal });
      await receive(aws, url);
      gone.abort();
      await assert.rejects(poll);
      await send(aws, url, 'a');
      let messages: Message[] = [];
      for (let tries = 0; tries < 10 && messages.length === 0; tries += 1)
        messages = await receive(aws, url, 1);
      assert.deepEqual(bodyAndCount(messages), ['a 1']);
    });
  });

  describe(`S3 with ${kind}`, () => {
    it('takes an object of more than 11 MiB in one PUT and gives any range of it', async () => {
      const aws = await start(options());
      await aws.createBucket('models');
      const body = Buffer.alloc(13 * 1024 * 1024, 'abcdefghijk');
      await aws.s3.send(new PutObjectCommand({ Bucket: 'models', Key: 'big', Body: body }));
      const ranges = ['bytes=0-9', 'bytes=5000000-6000000', `bytes=${body.length - 3}-`];
      const parts = await Promise.all(ranges.map((range) => read(aws, 'big', range)));
      assert.deepEqual(parts[0], body.subarray(0, 10));
      assert.ok(parts[1]?.equals(body.subarray(5_000_000, 6_000_001)));
      assert.deepEqual(parts[2], body.subarray(-3));
    });

    it('gives the new body of an object that was replaced', async () => {
      const aws = await start(options());
      await aws.createBucket('models');
      for (const fill of ['a', 'b']) {
        const body = Buffer.alloc(2 * 1024 * 1024, fill);
        await aws.s3.send(new PutObjectCommand({ Bucket: 'models', Key: 'm', Body: body }));
        assert.ok((await read(aws, 'm')).equals(body));
      }
    });

    it('refuses to overwrite with If-None-Match and takes a new key', async () => {
      const aws = await start(options());
      await aws.createBucket('models');
      const put = (key: string) =>
        aws.s3.send(new PutObjectCommand({ Bucket: 'models', Key: key, Body: key, IfNoneMatch: '*' }));
      await put('a');
      await assert.rejects(put('a'), { name: 'PreconditionFailed' });
      await put('b');
      assert.equal(String(await read(aws, 'a')), 'a');
    });

    it('keeps keys with dots, percent signs and other scripts, and of 300 characters, apart', async () => {
      const aws = await start(options());
      await aws.createBucket('models');
      const keys = ['a/../b', 'b', '../../up', 'a%2Fb', 'a/b', 'λ/模型.onnx', 'x'.repeat(300)];
      for (const key of keys)
        await aws.s3.send(new PutObjectCommand({ Bucket: 'models', Key: key, Body: key }));
      for (const key of keys) assert.equal(String(await read(aws, key)), key);
      const { Contents = [] } = await aws.s3.send(new ListObjectsV2Command({ Bucket: 'models' }));
      assert.equal(Contents.length, keys.length);
    });
  });
}

describe('a data folder', () => {
  it('gives messages, their receive counts and objects back after a restart on another port', async () => {
    const dataDir = newDataDir();
    const first = await start({ dataDir });
    const old = await first.createQueue({ name: 'jobs', visibilitySeconds: 600, maxReceiveCount: 5 });
    await first.createBucket('models');
    for (const body of ['waiting', 'done', 'seen']) await send(first, old.url, body);
    const messages = await receive(first, old.url);
    const byBody = (body: string) => messages.find((message) => message.Body === body);
    await hide(first, old.url, byBody('waiting'), 0);
    await hide(first, old.url, byBody('seen'), 600);
    const done = { QueueUrl: old.url, ReceiptHandle: byBody('done')?.ReceiptHandle };
    await first.sqs.send(new DeleteMessageCommand(done));
    await first.s3.send(
      new PutObjectCommand({
        Bucket: 'models',
        Key: 'm/1',
        Body: 'weights',
        ContentType: 'x/y',
        Metadata: { a: 'b' },
      }),
    );
    await first.close();

    const second = await start({ dataDir });
    assert.notEqual(second.port, first.port);
    const { QueueUrl } = await second.sqs.send(new GetQueueUrlCommand({ QueueName: 'jobs' }));
    assert.equal(QueueUrl, `${second.url}/000000000000/jobs`);
    const queue = await second.createQueue({ name: 'jobs', visibilitySeconds: 600, maxReceiveCount: 5 });
    assert.equal(queue.url, QueueUrl);
    // 'seen' was in the hands of a process that is gone: it does not stay hidden for its 600 s.
    assert.deepEqual(bodyAndCount(await receive(second, queue.url)).sort(), ['seen 2', 'waiting 2']);
    const { Attributes } = await second.sqs.send(
      new GetQueueAttributesCommand({ QueueUrl, AttributeNames: ['All'] }),
    );
    assert.equal(Attributes?.ApproximateNumberOfMessagesNotVisible, '2');
    assert.equal(String(await read(second, 'm/1')), 'weights');
    const head = await second.s3.send(new HeadObjectCommand({ Bucket: 'models', Key: 'm/1' }));
    assert.equal(head.ContentType, 'x/y');
    assert.deepEqual(head.Metadata, { a: 'b' });
  });

  it('holds what was acknowledged before a kill -9', async () => {
    const dataDir = newDataDir();
    const script = join(folder, 'victim.mjs');
    const outside = await start();
    const { credentials } = outside;
    const log2 = '{ info() {}, warn() {}, error() {} }';
    await writeFile(
      script,
      `import { startAws } from ${JSON.stringify(new URL('../../../local/aws/aws.ts', import.meta.url).href)};
       const aws = await startAws({ port: 0, dataDir: ${JSON.stringify(dataDir)}, log: ${log2},
         credentials: ${JSON.stringify(credentials)} });
       await aws.createQueue({ name: 'jobs', visibilitySeconds: 600 });
       await aws.createBucket('models');
       process.stdout.write(aws.url + '\\n');`,
    );
    const child = spawn(process.execPath, [script], { stdio: ['ignore', 'pipe', 'inherit'] });
    children.push(child);
    const [line] = await once(child.stdout, 'data');
    const endpoint = String(line).trim();
    const sqs = new SQSClient({ endpoint, region: outside.region, credentials });
    const QueueUrl = `${endpoint}/000000000000/jobs`;
    for (let index = 0; index < 50; index += 1) {
      await sqs.send(new SendMessageCommand({ QueueUrl, MessageBody: `m${index}` }));
    }
    const s3 = new S3Client({ endpoint, region: outside.region, credentials });
    await s3.send(new PutObjectCommand({ Bucket: 'models', Key: 'm', Body: 'weights' }));
    const refused = startAws({ port: 0, dataDir, log });
    await assert.rejects(refused, /is in use by another running stack/);
    child.kill('SIGKILL');
    await once(child, 'exit');

    const aws = await start({ dataDir });
    const { url } = await aws.createQueue({ name: 'jobs', visibilitySeconds: 600 });
    const bodies = new Set<string | undefined>();
    for (let call = 0; call < 5; call += 1) {
      for (const message of await receive(aws, url)) bodies.add(message.Body);
    }
    assert.equal(bodies.size, 50);
    assert.equal(String(await read(aws, 'm')), 'weights');
  });

  it('that cannot be opened is named in the error', async () => {
    const file = join(folder, 'file');
    await writeFile(file, '');
    await assert.rejects(startAws({ port: 0, dataDir: file, log }), (error: Error) => {
      assert.match(error.message, new RegExp(`data folder ${file} cannot be opened: `));
      return true;
    });
  });
});

describe('the local endpoint', () => {
  it('says who has its port when it is taken, and frees its data folder', async () => {
    const aws = await start();
    const dataDir = newDataDir();
    const second = startAws({ port: aws.port, dataDir, log });
    await assert.rejects(
      second,
      new RegExp(`port ${aws.port} is in use by .*choose another with --aws-port`),
    );
    await (await start({ dataDir })).close();
  });

  it('can be closed twice, and does not answer afterwards', async () => {
    const aws = await start();
    await Promise.all([aws.close(), aws.close()]);
    await assert.rejects(fetch(aws.url));
  });
});
