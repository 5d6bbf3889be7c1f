/** One process of killed-job.ts, which may be killed at any moment: the server of queues and objects, or the function with its poller. */
import { endpoints } from '../../../lib/compose/endpoints.ts';
import { openOnnx } from '../../../lib/compose/onnx.ts';
import { plainAnswer } from '../../../lib/http/plain.ts';
import { serveJobs } from '../../../lib/jobs/serve.ts';
import { openSqs, QueueSender } from '../../../lib/queue/sender.ts';
import { openS3 } from '../../../lib/s3/client.ts';
import { JobObjects } from '../../../lib/s3/job-store.ts';
import { listPages } from '../../../lib/s3/pages.ts';
import { startAws } from '../../../local/aws/aws.ts';
import { watchObjects } from '../../../local/event-source/objects.ts';
import { startPoller } from '../../../local/event-source/poller.ts';
import { quietObservers } from '../../support/observers.ts';
import { SETTINGS } from '../../support/runner.ts';
import { until } from '../../support/until.ts';

export type Role = 'aws' | 'jobs';
export const JOB = 'job';
export const BUCKET = 'bucket';
const QUEUE = 'rows';
/** As short as an event source allows: a message of a function that was killed is hidden for as long. */
const SECONDS = 3;

export interface Places {
  readonly port: number;
  readonly credentials: { readonly accessKeyId: string; readonly secretAccessKey: string };
  readonly dataDir: string;
  readonly model: string;
}

const QUIET = { info: () => undefined, warn: () => undefined, error: () => undefined };

async function startServer({ port, credentials, dataDir }: Places): Promise<void> {
  const aws = await startAws({ port, credentials, dataDir, log: QUIET });
  await aws.createBucket(BUCKET);
  await aws.createQueue({ name: QUEUE, visibilitySeconds: SECONDS, maxReceiveCount: 1_000 });
}

export function clientsOf({ port, credentials }: Places) {
  const common = { endpoint: `http://127.0.0.1:${port}`, region: 'us-east-1', credentials };
  return { sqs: openSqs(common), s3: openS3(common) };
}

async function startJobs(places: Places): Promise<void> {
  const { sqs, s3 } = clientsOf(places);
  const queueUrl = `http://127.0.0.1:${places.port}/000000000000/${QUEUE}`;
  const sender = new QueueSender(sqs, { queueUrl });
  const runner = await openOnnx(places.model, 'v1', SETTINGS);
  const handler = serveJobs({
    job: JOB,
    bucket: BUCKET,
    model: { use: (work) => work(runner) },
    store: new JobObjects(s3, BUCKET),
    observers: quietObservers(),
    send: (message, delaySeconds) => sender.send(JSON.stringify(message), {}, undefined, delaySeconds),
    endpoint: endpoints(JOB, undefined),
    answerText: (outcome, version) => plainAnswer([outcome], undefined, version),
    most: 5,
    memoryMB: 1769,
    arch: process.arch,
    now: Date.now,
  });
  const start = () =>
    startPoller({
      sqs,
      log: QUIET,
      functionTimeoutMs: SECONDS * 1000,
      queueUrl,
      functionName: 'jobs',
      handler,
      batchSize: 1,
      windowSeconds: 0,
      maximumConcurrency: 2,
    });
  // The server may be dead at the moment.
  await until(() =>
    start().then(
      () => true,
      () => false,
    ),
  );
  const pages = () => listPages(s3, BUCKET, `jobs/${JOB}/in/`);
  watchObjects({ pages }, (message) => sender.send(message), Number.POSITIVE_INFINITY);
}

const [role, places] = process.argv.slice(2);
if (process.send && places !== undefined) {
  await (role === 'aws' ? startServer : startJobs)(JSON.parse(places));
  process.send('ready');
  // The memory of the function, each quarter of a second.
  setInterval(() => process.send?.(process.memoryUsage.rss()), 250).unref();
  process.once('disconnect', () => process.exit());
}
