/**
 * In: one job's config and the services of this machine. Out: the job served: the same handlers that Lambda runs,
 * behind an HTTP gateway of its own and an event-source poller on its own queue.
 * Trap: parts are closed in the opposite order of their opening: first the doors, then what they need.
 */
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import type { APIGatewayProxyEventV2 } from 'aws-lambda';
import { batch } from '../functions/batch.ts';
import { deadLetter } from '../functions/dead-letter.ts';
import { predict } from '../functions/predict.ts';
import { predictions } from '../functions/predictions.ts';
import { status } from '../functions/status.ts';
import { jobModel, modelSettings } from '../lib/compose/live-model.ts';
import { liveLimiter, liveResults } from '../lib/compose/live-redis.ts';
import { type JobConfig, predictTimeoutSeconds, visibilityTimeoutSeconds } from '../lib/config/job.ts';
import { modelPrefix, parkedPrefix, queueName } from '../lib/contract/names.ts';
import { corsRules } from '../lib/http/cors.ts';
import { tryModel } from '../lib/inference/smoke-test.ts';
import { parseFilter } from '../lib/pipeline/postprocess.ts';
import { QueueSender } from '../lib/queue/sender.ts';
import { RedisConnection } from '../lib/redis/connection.ts';
import { RecordStates } from '../lib/redis/record-states.ts';
import { liveReporter } from '../lib/redis/reporter.ts';
import { RunningNews } from '../lib/redis/running.ts';
import { readPointer } from '../lib/registry/download.ts';
import { publishModel } from '../lib/registry/publish.ts';
import { putText } from '../lib/s3/objects.ts';
import { PayloadStore } from '../lib/s3/payloads.ts';
import type { LocalAws } from './aws/aws.ts';
import type { LocalLog } from './aws/lambda.ts';
import { startPoller } from './event-source/poller.ts';
import { startGateway } from './gateway/gateway.ts';
import type { GatewayRoute } from './gateway/routes.ts';
import { servedModel } from './model.ts';
import { inPortions } from './portions.ts';
import { RunQueue } from './run-queue.ts';

export const LOCAL_BUCKET = 'cluster-serving';

export interface ServedJob {
  readonly job: JobConfig;
  /** Local model directory; uploaded to the local S3 and served from there. */
  readonly modelDirectory: string;
}

export interface JobServices {
  readonly aws: LocalAws;
  readonly redisUrl: string;
  readonly dataDir: string;
  /** Of the job's HTTP gateway; 0 takes any free port. */
  readonly port: number;
  /** How long a model that was never served may take to be ready, in ms. Default as lib/inference/smoke-test.ts. */
  readonly modelTrialMs?: number | undefined;
  readonly log: LocalLog;
}

/** Where one job is. */
export interface JobAddresses {
  readonly job: string;
  /** Version of the model. */
  readonly model: string;
  /** The HTTP gateway. */
  readonly url: string;
  readonly queueUrl: string;
  readonly deadLetterUrl: string;
  /** That the model was imported, and what to know of it. */
  readonly modelNotes?: readonly string[];
}

/**
 * Events of the queue at once. They share the model's thread: more of them would only wait, and hide their messages
 * meanwhile. Two, so that one runs while the other's records are behind the fence.
 */
const MOST_EVENTS = 2;

/** @param onClose is told of each part as it opens, also when a later one fails */
export async function openJob(
  { job, modelDirectory }: ServedJob,
  { aws, redisUrl, dataDir, port, modelTrialMs, log }: JobServices,
  onClose: (close: () => Promise<void>) => void,
): Promise<JobAddresses> {
  const { queue, deadLetterUrl } = await createResources(aws, job);
  const location = { bucket: LOCAL_BUCKET, prefix: modelPrefix(job.jobName) };
  const { directory, notes } = await servedModel(job, modelDirectory, dataDir);
  const settings = modelSettings(job, availableParallelism());
  const { version } = await publishModel(aws.s3, location, directory, {
    trial: (file) => tryModel(file, { settings, limitMs: modelTrialMs }),
  });

  const connection = new RedisConnection(redisUrl);
  const results = liveResults({ job, redisUrl }, connection);
  onClose(() => results.close());
  const model = jobModel({
    job,
    s3: aws.s3,
    bucket: LOCAL_BUCKET,
    directory: join(dataDir, 'models', job.jobName),
    defaultThreads: availableParallelism(),
  });
  onClose(() => model.close());
  await model.ready();

  const filter = parseFilter(job.postProcessing);
  const reporter = liveReporter(results);
  const payloads = new PayloadStore(aws.s3, LOCAL_BUCKET, job.jobName);
  const sender = new QueueSender(aws.sqs, { queueUrl: queue.url });
  const states = new RecordStates(connection, { job: job.jobName, now: Date.now });
  const accept = { queue: () => sender, payloads: async () => payloads, claims: () => states };
  const timeoutMs = job.function.timeoutSeconds * 1000;
  const running = new RunningNews(states, timeoutMs, Date.now);
  const pollers = { sqs: aws.direct, log, functionTimeoutMs: timeoutMs };
  const clock = () => performance.now();
  const runs = new RunQueue({ now: clock });
  const portions = inPortions(model, runs, clock);
  const batches = await startPoller({
    ...pollers,
    queueUrl: queue.url,
    functionName: 'batch',
    handler: batch({ model: portions.model, results, running, payloads, filter, reporter }),
    invoke: portions.invoke,
    functionClock: portions.functionClock,
    batchSize: job.queue.batchSize,
    windowSeconds: job.queue.windowSeconds,
    maximumConcurrency: MOST_EVENTS,
  });
  onClose(() => batches.close());
  const deadLetters = await startPoller({
    ...pollers,
    queueUrl: deadLetterUrl,
    functionName: 'dead-letter',
    handler: deadLetter({
      results,
      park: (id, message) =>
        putText(aws.s3, { bucket: LOCAL_BUCKET, key: `${parkedPrefix(job.jobName)}${id}.json` }, message),
      tries: job.queue.maxReceiveCount,
    }),
    batchSize: 10,
    windowSeconds: 0,
    maximumConcurrency: 2,
  });
  onClose(() => deadLetters.close());
  const gateway = await startGateway({
    port,
    portOption: '--port',
    log,
    cors: corsRules(job.http.corsOrigins),
    routes: routes(predictTimeoutSeconds(job) * 1000, () => runs.refuses(), {
      predict: predict({
        jobName: job.jobName,
        model: { use: (work) => runs.run(() => model.use(work)) },
        filter,
        reporter,
        limiter: liveLimiter(connection, { job }),
        accept,
      }),
      predictions: predictions({
        ...accept,
        reporter: () => reporter,
        results: () => results,
        states: () => states,
      }),
      status: status({
        results,
        reporter,
        modelVersion: async () => (await readPointer(aws.s3, location)).version,
      }),
    }),
  });
  onClose(() => gateway.close());
  return {
    job: job.jobName,
    model: version,
    url: gateway.url,
    queueUrl: queue.url,
    deadLetterUrl,
    ...(notes.length > 0 ? { modelNotes: notes } : {}),
  };
}

async function createResources(aws: LocalAws, job: JobConfig) {
  await aws.createBucket(LOCAL_BUCKET);
  const queue = await aws.createQueue({
    name: queueName(job.jobName),
    visibilitySeconds: visibilityTimeoutSeconds(job),
    maxReceiveCount: job.queue.maxReceiveCount,
  });
  const deadLetterUrl = queue.deadLetter?.url;
  if (deadLetterUrl === undefined) throw new Error('a queue with maxReceiveCount has a dead-letter queue');
  return { queue, deadLetterUrl };
}

type HttpHandler = (event: APIGatewayProxyEventV2) => ReturnType<GatewayRoute['handler']>;

/** The same routes as in serverless.yml. */
function routes(
  predictTimeoutMs: number,
  refusesPredict: () => boolean,
  handlers: Record<'predict' | 'predictions' | 'status', HttpHandler>,
): GatewayRoute[] {
  const route = (method: GatewayRoute['method'], path: string, functionName: keyof typeof handlers) => ({
    method,
    path,
    functionName,
    handler: handlers[functionName],
  });
  /** Whether the service works must be told also while a thousand requests wait. */
  const alwaysTold = ['/', '/metrics', '/ready'].flatMap((path) =>
    (['GET', 'HEAD'] as const).map((method) => ({ ...route(method, path, 'status'), ownPlaces: true })),
  );
  const asPredict = { timeoutMs: predictTimeoutMs, refuses: refusesPredict };
  return [
    { ...route('POST', '/predict', 'predict'), ...asPredict },
    { ...route('POST', '/v2/{path+}', 'predict'), ...asPredict },
    { ...route('GET', '/v2/{path+}', 'predict'), timeoutMs: predictTimeoutMs },
    { ...route('HEAD', '/v2/{path+}', 'predict'), timeoutMs: predictTimeoutMs },
    { ...route('GET', '/v2', 'predict'), timeoutMs: predictTimeoutMs },
    { ...route('HEAD', '/v2', 'predict'), timeoutMs: predictTimeoutMs },
    route('POST', '/predictions', 'predictions'),
    route('GET', '/predictions', 'predictions'),
    route('HEAD', '/predictions', 'predictions'),
    route('DELETE', '/predictions', 'predictions'),
    route('GET', '/predictions/{uri+}', 'predictions'),
    route('HEAD', '/predictions/{uri+}', 'predictions'),
    route('DELETE', '/predictions/{uri+}', 'predictions'),
    route('GET', '/status', 'predictions'),
    route('POST', '/cancel', 'predictions'),
    ...alwaysTold,
  ];
}
