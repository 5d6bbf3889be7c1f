/**
 * One process of through-kills.ts, which may be killed at any moment: the server of queues and objects, the batch function with its
 * poller, the notifier with its poller, or the receiver. What has to outlive it is on disk or elsewhere.
 */
import { appendFileSync, readFileSync } from 'node:fs';
import { createServer } from 'node:https';
import type { SQSBatchResponse, SQSEvent } from 'aws-lambda';
import type { Credentials } from '../../../lib/codecs/sigv4.ts';
import type { Targets } from '../../../lib/contract/notice.ts';
import { awsSender } from '../../../lib/notify/aws.ts';
import { deliverer } from '../../../lib/notify/deliver.ts';
import { notifyTargets } from '../../../lib/notify/notifier.ts';
import { Webhooks } from '../../../lib/notify/webhook.ts';
import { serveEvent } from '../../../lib/pipeline/event.ts';
import { openSqs, QueueSender } from '../../../lib/queue/sender.ts';
import { RedisConnection } from '../../../lib/redis/connection.ts';
import { ResultStore } from '../../../lib/redis/results.ts';
import { announceOutcomes } from '../../../lib/results/announce.ts';
import { resultSink } from '../../../lib/results/sink.ts';
import { openS3 } from '../../../lib/s3/client.ts';
import { OutboxWriter } from '../../../lib/s3/outbox.ts';
import { OutboxReader } from '../../../lib/s3/outbox-reader.ts';
import { PausedTargets } from '../../../lib/s3/pauses.ts';
import { startAws } from '../../../local/aws/aws.ts';
import { watchObjects } from '../../../local/event-source/objects.ts';
import { startPoller } from '../../../local/event-source/poller.ts';
import { quietObservers } from '../../support/observers.ts';
import { isSigned, RECEIVER_URL, SECRET } from '../../support/receiver.ts';
import { PATIENT } from '../../support/redis.ts';
import { SIGNED_REGION } from '../../support/signed-api.ts';
import { STATE_MACHINE } from '../../support/step-functions.ts';
import { model } from './doubling.ts';

export const ROLES = ['queue', 'batch', 'notifier', 'receiver'] as const;
export type Role = (typeof ROLES)[number];
export const JOB = 'job';
export const BUCKET = 'bucket';
const TARGETS: Targets = {
  shop: { url: RECEIVER_URL, secret: '/shop' },
  flow: { stepFunctions: STATE_MACHINE },
};
/** Calls that the receiver does not answer with 204, although it has kept them. */
const REFUSALS = 0.03;

export interface Places {
  readonly awsPort: number;
  readonly credentials: { readonly accessKeyId: string; readonly secretAccessKey: string };
  readonly dataDir: string;
  readonly redisUrl: string;
  readonly receiverPort: number;
  readonly certificate: string;
  readonly key: string;
  /** Where the receiver writes what it has. */
  readonly log: string;
  readonly tasksUrl: string;
  readonly tasksCredentials: Credentials;
}

const QUIET = { info: () => undefined, warn: () => undefined, error: () => undefined };

async function startQueue({ awsPort: port, credentials, dataDir }: Places): Promise<void> {
  const aws = await startAws({ port, credentials, dataDir, log: QUIET });
  await aws.createBucket(BUCKET);
  for (const name of ['records', 'notices'])
    await aws.createQueue({ name, visibilitySeconds: 3, maxReceiveCount: 1_000 });
}

function clientsOf({ awsPort, credentials }: Places) {
  process.env['AWS_ACCESS_KEY_ID'] = credentials.accessKeyId;
  process.env['AWS_SECRET_ACCESS_KEY'] = credentials.secretAccessKey;
  const common = { endpoint: `http://127.0.0.1:${awsPort}`, region: 'us-east-1' };
  return { sqs: openSqs({ ...common, credentials }), s3: openS3(common) };
}

export function queueUrlOf({ awsPort }: Pick<Places, 'awsPort'>, name: string): string {
  return `http://127.0.0.1:${awsPort}/000000000000/${name}`;
}

async function poll(
  places: Places,
  name: string,
  batchSize: number,
  handler: (event: SQSEvent) => Promise<SQSBatchResponse>,
): Promise<void> {
  await startPoller({
    sqs: clientsOf(places).sqs,
    log: QUIET,
    functionTimeoutMs: 3_000,
    queueUrl: queueUrlOf(places, name),
    functionName: name,
    handler,
    batchSize,
    windowSeconds: batchSize > 10 ? 1 : 0,
    maximumConcurrency: 4,
  });
}

async function startBatch(places: Places): Promise<void> {
  const { s3 } = clientsOf(places);
  const connection = new RedisConnection(places.redisUrl, PATIENT);
  const results = new ResultStore(connection, { job: JOB, ttlSeconds: 86_400, now: Date.now });
  const outbox = new OutboxWriter(s3, BUCKET, JOB);
  const announce = announceOutcomes({
    targets: TARGETS,
    results,
    put: (notices) => outbox.put(notices),
    job: JOB,
    place: BUCKET,
  });
  const handler = serveEvent({
    model,
    sink: resultSink(results, { announce }),
    running: { begin: () => async () => undefined },
    payloads: { resolve: async (bodies) => bodies },
    observers: quietObservers(),
    now: Date.now,
  });
  await poll(places, 'records', 50, handler);
}

async function startNotifier(places: Places): Promise<void> {
  const { s3, sqs } = clientsOf(places);
  const reader = new OutboxReader(s3, BUCKET, JOB);
  const sender = new QueueSender(sqs, { queueUrl: queueUrlOf(places, 'notices') });
  const webhooks = new Webhooks({
    resolve: async () => ['127.0.0.1'],
    isAllowed: (address) => address === '127.0.0.1',
    ca: readFileSync(places.certificate, 'utf8'),
    port: places.receiverPort,
    now: Date.now,
  });
  const place = {
    region: SIGNED_REGION,
    credentials: places.tasksCredentials,
    endpoint: places.tasksUrl,
  };
  const handler = notifyTargets({
    outbox: reader,
    pauses: new PausedTargets(s3, { bucket: BUCKET, job: JOB, now: () => performance.now() }),
    deliver: deliverer({
      targets: TARGETS,
      webhooks,
      sendToAws: awsSender({ place: () => place }),
      readSecret: async () => SECRET,
      now: Date.now,
    }),
    // Two seconds instead of the seconds and minutes of a real back-off.
    sendLater: (text, seconds) => sender.send(text, {}, undefined, Math.min(2, seconds)),
    giveUp: async (text) => appendFileSync(places.log, `given up ${text}\n`),
    now: Date.now,
    random: Math.random,
  });
  watchObjects(reader, (message) => sender.send(message));
  // Without a clock: a notifier with so little time would send everything on to its next call.
  await poll(places, 'notices', 10, (event) => handler(event));
}

interface Body {
  readonly data: { readonly uri: string; readonly identity: string; readonly status: string };
}

async function startReceiver({ receiverPort, certificate, key, log }: Places): Promise<void> {
  const server = createServer(
    { cert: readFileSync(certificate), key: readFileSync(key) },
    (request, response) => {
      let body = '';
      request.setEncoding('utf8').on('data', (chunk: string) => (body += chunk));
      request.on('end', () => {
        const id = String(request.headers['webhook-id']);
        const { data }: Body = JSON.parse(body);
        const isRight = isSigned({ id, body, headers: request.headers });
        // Kept before it is answered.
        appendFileSync(
          log,
          `${isRight ? 'got' : 'unsigned'} ${id} ${data.identity} ${data.uri} ${data.status}\n`,
        );
        const chance = Math.random();
        if (chance < REFUSALS / 3) response.destroy();
        else response.writeHead(chance < REFUSALS ? 500 : 204).end();
      });
    },
  );
  await new Promise<void>((resolve) => server.listen(receiverPort, '127.0.0.1', resolve));
}

const STARTS: Readonly<Record<Role, (places: Places) => Promise<void>>> = {
  queue: startQueue,
  batch: startBatch,
  notifier: startNotifier,
  receiver: startReceiver,
};

const [role, places] = process.argv.slice(2);
if (process.send && role !== undefined && places !== undefined) {
  const found = ROLES.find((one) => one === role);
  if (found) await STARTS[found](JSON.parse(places));
  process.send('ready');
  process.once('disconnect', () => process.exit());
}
