/**
 * Runs one job on this machine: the deployed composition with a local Environment, behind its own HTTP gateway and
 * event sources. Parts close in the reverse order of opening: first the endpoints, then what they depend on.
 */
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { verificationNotes } from '../convert/verify/text.ts';
import { batch } from '../functions/batch.ts';
import { deadLetter } from '../functions/dead-letter.ts';
import { predict } from '../functions/predict.ts';
import { predictions } from '../functions/predictions.ts';
import { status } from '../functions/status.ts';
import { sqsClient } from '../lib/compose/accept.ts';
import { composeBatch } from '../lib/compose/batch.ts';
import { composeDeadLetter } from '../lib/compose/dead-letter.ts';
import { model, onnxSettings } from '../lib/compose/model.ts';
import { composePredict } from '../lib/compose/predict.ts';
import { composePredictions } from '../lib/compose/predictions.ts';
import { results } from '../lib/compose/redis.ts';
import { modelLocation, s3Client } from '../lib/compose/s3.ts';
import { Scope } from '../lib/compose/scope.ts';
import { composeStatus } from '../lib/compose/status.ts';
import type { Environment } from '../lib/config/environment.ts';
import { type JobConfig, predictTimeoutSeconds, visibilityTimeoutSeconds } from '../lib/config/job.ts';
import { queueName } from '../lib/contract/names.ts';
import { readVerification, type Verification } from '../lib/contract/verification.ts';
import { corsRules } from '../lib/http/cors.ts';
import { smokeTest } from '../lib/inference/smoke-test.ts';
import { publishModel } from '../lib/registry/publish.ts';
import type { Access } from './access.ts';
import type { LocalAws } from './aws/aws.ts';
import type { LocalLog } from './aws/lambda.ts';
import { startPoller } from './event-source/poller.ts';
import { type Gateway, startGateway } from './gateway/gateway.ts';
import { jobRoutes } from './job-routes.ts';
import { servedModel } from './model.ts';
import { RunQueue } from './run-queue.ts';
import { inTimeSlices } from './time-slices.ts';

export const LOCAL_BUCKET = 'cluster-serving';

export interface ServedJob {
  readonly job: JobConfig;
  /** The local model directory, which is uploaded to the local S3 and served from there. */
  readonly modelDirectory: string;
}

interface JobServices {
  readonly aws: LocalAws;
  readonly redisUrl: string;
  readonly dataDir: string;
  /** The port of the job's HTTP gateway; 0 takes any free port. */
  readonly port: number;
  readonly access: Access;
  /** How long a new model may take to become ready, in ms. Default as in lib/inference/smoke-test.ts. */
  readonly smokeTestMs?: number | undefined;
  readonly log: LocalLog;
}

/** The addresses of one job. */
export interface JobAddresses {
  readonly job: string;
  /** The version of the model. */
  readonly model: string;
  /** The HTTP gateway. */
  readonly url: string;
  readonly queueUrl: string;
  readonly deadLetterUrl: string;
  /** Notes about the import and the verification of the model. */
  readonly modelNotes: readonly string[];
  readonly verification: Verification | undefined;
}

/**
 * Concurrent events of the queue. They share the model's thread, so more would only wait and keep their messages
 * hidden. With two, one runs while the other's records are in an isolated process.
 */
const MOST_EVENTS = 2;

type OnClose = (close: () => Promise<void>) => void;

/** @param onClose receives the close function of each part as it opens, even if a later one fails */
export async function openJob(
  served: ServedJob,
  services: JobServices,
  onClose: OnClose,
): Promise<JobAddresses> {
  const { job } = served;
  const { queue, deadLetterUrl } = await createResources(services.aws, job);
  const scope = new Scope(environmentOf(job, queue.url, services));
  onClose(async () => {
    scope.get(s3Client).destroy();
    scope.get(sqsClient).destroy();
  });
  const { version, notes, verification } = await publish(served, services, scope);
  onClose(() => scope.get(results).close());
  onClose(() => scope.get(model).close());
  await scope.get(model).ready();
  const runs = new RunQueue({ now: clock });
  await openEventSources(scope, services, { runs, deadLetterUrl }, onClose);
  const gateway = await openGateway(scope, services, runs);
  onClose(() => gateway.close());
  return {
    job: job.jobName,
    model: version,
    url: gateway.url,
    queueUrl: queue.url,
    deadLetterUrl,
    modelNotes: notes,
    verification,
  };
}

/** The environment that Lambda's variables describe for a deployed function, on this machine. */
function environmentOf(
  job: JobConfig,
  queueUrl: string,
  { aws, redisUrl, dataDir }: JobServices,
): Environment {
  return {
    job,
    bucket: LOCAL_BUCKET,
    queueUrl,
    hasQueue: true,
    redisUrl,
    hasRedis: true,
    redisSignIn: undefined,
    aws: { endpoint: aws.url, region: aws.region, credentials: aws.credentials },
    memoryMB: job.function.memoryMB,
    cpus: availableParallelism(),
    inLambda: false,
    hasMetrics: false,
    service: job.jobName,
    functionName: '',
    isProvisioned: false,
    traceId: undefined,
    modelDirectory: join(dataDir, 'models', job.jobName),
  };
}

/** Publishes the model directory, after an import if it is not ONNX, as the version that serves. */
async function publish(
  { job, modelDirectory }: ServedJob,
  { dataDir, smokeTestMs }: JobServices,
  scope: Scope,
) {
  const { directory, notes, importReport } = await servedModel(job, modelDirectory, dataDir);
  const known = readVerification(importReport?.verification);
  const settings = scope.get(onnxSettings);
  const { version, verification } = await publishModel(
    scope.get(s3Client),
    scope.get(modelLocation),
    directory,
    {
      smokeTest: (file) => smokeTest(file, { settings, limitMs: smokeTestMs }),
      verify: async (file, stored) => {
        // Loaded on demand: a start with a model that was verified before does not wait for the converters.
        const { verifyVersion } = await import('../convert/verify/version.ts');
        return verifyVersion(file, { known: stored ?? known, job });
      },
    },
  );
  return { version, verification, notes: [...notes, ...verificationNotes(verification, job.batching)] };
}

/** Opens the event sources. Their runs share a queue with the requests' (run-queue.ts). */
async function openEventSources(
  scope: Scope,
  { aws, log }: JobServices,
  { runs, deadLetterUrl }: { readonly runs: RunQueue; readonly deadLetterUrl: string },
  onClose: OnClose,
): Promise<void> {
  const { job, queueUrl } = scope.environment;
  const common = { sqs: aws.direct, log, functionTimeoutMs: job.function.timeoutSeconds * 1000 };
  const deps = await composeBatch(scope);
  const slices = inTimeSlices(deps.model, runs, clock);
  const batches = await startPoller({
    ...common,
    queueUrl,
    functionName: 'batch',
    handler: batch({ ...deps, model: slices.model }),
    invoke: slices.invoke,
    functionClock: slices.functionClock,
    batchSize: job.queue.batchSize,
    windowSeconds: job.queue.windowSeconds,
    maximumConcurrency: MOST_EVENTS,
  });
  onClose(() => batches.close());
  const deadLetters = await startPoller({
    ...common,
    queueUrl: deadLetterUrl,
    functionName: 'dead-letter',
    handler: deadLetter(await composeDeadLetter(scope)),
    batchSize: 10,
    windowSeconds: 0,
    maximumConcurrency: 2,
  });
  onClose(() => deadLetters.close());
}

async function openGateway(scope: Scope, services: JobServices, runs: RunQueue): Promise<Gateway> {
  const { port, log, access } = services;
  const { job } = scope.environment;
  const deps = await composePredict(scope);
  const handlers = {
    predict: predict({ ...deps, model: { use: (work) => runs.run(() => deps.model.use(work)) } }),
    predictions: predictions(await composePredictions(scope)),
    status: status(await composeStatus(scope)),
  };
  return startGateway({
    port,
    portOption: '--port',
    log,
    cors: corsRules(job.http.corsOrigins),
    ...access,
    allowedHosts: [...access.allowedHosts, ...job.http.allowedHosts],
    routes: jobRoutes(handlers, {
      timeoutMs: predictTimeoutSeconds(job) * 1000,
      refuses: () => runs.refuses(),
    }),
  });
}

function clock(): number {
  return performance.now();
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
