/**
 * Runs one job on this machine: the deployed composition with a local Environment. Parts close in the reverse order of opening.
 */
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import type { Context } from 'aws-lambda';
import { MOST_RECORDS } from '../console/api.ts';
import { deadLetter } from '../functions/dead-letter.ts';
import { predict } from '../functions/predict.ts';
import { predictions } from '../functions/predictions.ts';
import { status } from '../functions/status.ts';
import { sqsClient } from '../lib/compose/accept.ts';
import { composeBatch } from '../lib/compose/batch.ts';
import { composeDeadLetter } from '../lib/compose/dead-letter.ts';
import { observeHandler } from '../lib/compose/observe-handler.ts';
import { observers, openTracing } from '../lib/compose/observers.ts';
import { composePredict } from '../lib/compose/predict.ts';
import { composePredictions } from '../lib/compose/predictions.ts';
import { results } from '../lib/compose/results.ts';
import { s3Client } from '../lib/compose/s3.ts';
import { Scope } from '../lib/compose/scope.ts';
import { composeStatus } from '../lib/compose/status.ts';
import { type Environment, tracesOf } from '../lib/config/environment.ts';
import { hiddenSeconds, type JobConfig, predictTimeoutSeconds } from '../lib/config/job.ts';
import { logError } from '../lib/contract/log.ts';
import { variables } from '../lib/contract/variables.ts';
import { corsRules } from '../lib/http/cors.ts';
import { RecentRecords } from '../lib/observe/recent.ts';
import { MOST_DELIVERIES } from '../lib/pipeline/dead-letters.ts';
import { serveEvent } from '../lib/pipeline/event.ts';
import { queueName } from '../lib/queue/names.ts';
import { securityOf } from './access.ts';
import type { LocalAws } from './aws/aws.ts';
import { bridgeOfJob } from './bridge/own.ts';
import { type LocalConsole, openConsole } from './console/open.ts';
import { makeToken, newToken } from './decentral/token.ts';
import { serviceFamilies } from './description/figures.ts';
import { descriptionRoutes } from './description/routes.ts';
import { startPoller } from './event-source/poller.ts';
import { FLAGS_ADVICE } from './gateway/caller.ts';
import { type GatewayOptions, startGateway } from './gateway/gateway.ts';
import type { GrpcJob } from './grpc/methods.ts';
import { jobRoutes } from './job-routes.ts';
import { largeResultsRoute, localLocation, sweepLargeResults } from './large-results.ts';
import {
  type JobServices,
  processRuns,
  type Runs,
  type ServedJob,
  type ServedRuns,
  serveModel,
  serveWorker,
} from './runs.ts';
import { openServiceParts, type ServicePartOptions, type ServiceParts } from './worker/open.ts';

export const LOCAL_BUCKET = 'cluster-serving';
/** How long a message is delivered again before the queue gives it up. */
const LEAST_DELIVERED_SECONDS = 2 * 86_400;

/** The addresses of one job. */
export interface JobAddresses extends Omit<ServedRuns, 'runs'> {
  readonly job: string;
  /** The HTTP gateway. */
  readonly url: string;
  readonly queueUrl: string;
  readonly deadLetterUrl: string;
}

interface Opened {
  readonly runs: Runs;
  readonly parts: ServiceParts;
  readonly page: LocalConsole;
}

/** How long accepted requests may take when the service stops, in ms, where the job does not say. */
const STOP_MS = 10_000;

type OnClose = (close: () => Promise<void>) => void;

/** @param onClose receives the close function of each part as it opens, even if a later one fails */
export async function openJob(
  served: ServedJob,
  services: JobServices,
  onClose: OnClose,
): Promise<JobAddresses> {
  const { job } = served;
  const { queue, deadLetterUrl } = await createResources(services.aws, job);
  const controlToken = services.terminate && (services.access.token ?? newToken());
  let serving: Runs | undefined;
  const parts = openServiceParts(partsOf(job, () => serving?.load, controlToken, services.terminate));
  const { statistics } = parts;
  const recent = new RecentRecords({ most: MOST_RECORDS, now: Date.now });
  const inProcesses = processRuns(job, (run) => scope.get(observers).runEnded?.(run));
  const environment = environmentOf(served, queue.url, services);
  const tracing = await openTracing(environment);
  const latestOrder = () => services.aws.latestOrder();
  const own = { ...inProcesses, tracing, latestOrder, observers: [...statistics.observers, recent] };
  const scope = new Scope(environment, own);
  onClose(async () => tracing?.spans.close());
  onClose(async () => {
    scope.get(s3Client).destroy();
    scope.get(sqsClient).destroy();
  });
  onClose(() => scope.get(results).close());
  const { jobName, resultTtlSeconds: ttlSeconds } = job;
  onClose(sweepLargeResults(scope.get(s3Client), { bucket: LOCAL_BUCKET, job: jobName, ttlSeconds }));
  const { runs, ...facts } = await (job.worker.class === undefined
    ? serveModel(served, services, scope, onClose, inProcesses.runs)
    : serveWorker(served, services, scope, onClose));
  serving = runs;
  const depth = () => {
    const { waiting, running } = services.aws.queueFigures(queue.url);
    return waiting + running;
  };
  statistics.follow({ ...runs.load, depth });
  onClose(() => parts.idle(runs.stopMs ?? STOP_MS));
  const where = { scope, served: facts, statistics, recent, hasToken: services.access.token !== undefined };
  const page = openConsole({ ...where, model: await runs.model(scope) }, onClose);
  await openEventSources(scope, services, { runs, deadLetterUrl }, onClose);
  const bridge = await bridgeOfJob(scope, services.log);
  onClose(() => bridge.close());
  const advice = services.terminate && FLAGS_ADVICE;
  const options = { ...(await gatewayOptions(scope, services, { runs, parts, page })), advice };
  const gateway = await startGateway(options);
  onClose(() => gateway.close());
  if (served.secondPort !== undefined) {
    const second = await startGateway({ ...options, port: served.secondPort, portOption: '-http_port' });
    onClose(() => second.close());
  }
  if (controlToken !== undefined) {
    const host = new URL(gateway.url).hostname.replace(/^\[(.*)\]$/, '$1');
    const { forget } = await makeToken(gateway.port, controlToken, host);
    onClose(forget);
  }
  onClose(async () => parts.close());
  return { ...facts, job: job.jobName, url: gateway.url, queueUrl: queue.url, deadLetterUrl };
}

/** What the HTTP API has on a single machine only. */
function partsOf(
  job: JobConfig,
  load: () => Runs['load'] | undefined,
  token: string | undefined,
  terminate: ((how: string) => void) | undefined,
): ServicePartOptions {
  const { batchSize, worker } = job;
  const workers = () => load()?.workers?.() ?? 1;
  const version = () => load()?.version?.();
  const end = async () => terminate?.('terminate');
  return {
    ttlMs: job.resultTtlSeconds * 1000,
    fetch: { allowedHosts: worker.allowImgHost },
    page: () => ({ job: job.jobName, workers: workers(), batchSize }),
    facts: () => ({
      ...worker,
      batchSize,
      jobName: job.jobName,
      modelVersion: version(),
    }),
    ...(token === undefined ? {} : { control: { token, verbs: { terminate: end } } }),
    log: logError,
  };
}

/** The environment that Lambda's variables describe for a deployed function, on this machine. */
function environmentOf(
  { job, modelDirectory, directory }: ServedJob,
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
    keyspace: job.jobName,
    role: { region: aws.region, credentials: { ...aws.credentials, sessionToken: undefined } },
    aws: { endpoint: aws.url, region: aws.region, credentials: aws.credentials },
    memoryMB: job.function.memoryMB,
    cpus: availableParallelism(),
    inLambda: false,
    hasMetrics: false,
    service: job.jobName,
    functionName: '',
    isProvisioned: false,
    traceId: undefined,
    traces: tracesOf(variables),
    modelDirectory: join(dataDir, 'models', job.jobName),
    workerFolders: directory === undefined ? undefined : { directory, modelDir: modelDirectory },
  };
}

async function openEventSources(
  scope: Scope,
  { aws, log }: JobServices,
  { runs, deadLetterUrl }: Pick<Opened, 'runs'> & { readonly deadLetterUrl: string },
  onClose: OnClose,
): Promise<void> {
  const { job, queueUrl } = scope.environment;
  const common = { sqs: aws.direct, log, functionTimeoutMs: job.function.timeoutSeconds * 1000 };
  const deps = await composeBatch(scope, runs.model);
  const { model, ...timing } = runs.queued(deps.model);
  const batches = await startPoller({
    ...common,
    queueUrl,
    functionName: 'batch',
    handler: observeHandler(scope, 'sqs', serveEvent({ ...deps, model })),
    ...timing,
    batchSize: job.queue.batchSize,
    windowSeconds: job.queue.windowSeconds,
    maximumConcurrency: runs.events,
  });
  onClose(() => batches.close());
  const deadLetters = await startPoller({
    ...common,
    queueUrl: deadLetterUrl,
    functionName: 'dead-letter',
    handler: observeHandler(scope, 'sqs', deadLetter(await composeDeadLetter(scope))),
    batchSize: 10,
    windowSeconds: 0,
    maximumConcurrency: 2,
  });
  onClose(() => deadLetters.close());
}

async function gatewayOptions(
  scope: Scope,
  services: JobServices,
  { runs, parts, page }: Opened,
): Promise<GatewayOptions> {
  const { port, log, access } = services;
  const { job, queueUrl } = scope.environment;
  const { inputAlreadyBatched } = job;
  const live = { load: runs.load, queue: () => services.aws.queueFigures(queueUrl) };
  const deps = await composePredict(scope, runs.model);
  const { version } = runs;
  const reading = await composePredictions(scope);
  const timeoutMs = predictTimeoutSeconds(job) * 1000;
  const limits = { timeoutMs, refuses: () => runs.refuses(), onLeave: () => runs.onLeave() };
  const { counts } = parts.statistics;
  const trace: GrpcJob['trace'] = ({ headers, routeKey, clock }, work) => {
    const event = { headers, routeKey, requestContext: { http: { method: 'POST' } } };
    return observeHandler(scope, 'http', work)(event, clock as Context);
  };
  services.offer?.({ deps, ...limits, trace, stopMs: runs.stopMs });
  const handlers = {
    predict: observeHandler(scope, 'http', predict({ ...deps, encode: parts.encode })),
    predictions: observeHandler(scope, 'http', predictions({ ...reading, locate: localLocation })),
    status: observeHandler(
      scope,
      'http',
      status({
        ...(await composeStatus(scope)),
        ...(version ? { modelVersion: version } : {}),
        own: () => serviceFamilies(counts, live),
      }),
      false,
    ),
  };
  const allowedHosts = [...access.allowedHosts, ...job.http.allowedHosts];
  return {
    ...(runs.stopMs === undefined ? {} : { closeTimeoutMs: runs.stopMs }),
    port,
    portOption: '--port',
    observer: deps.observers,
    log,
    cors: corsRules(job.http.corsOrigins),
    ...access,
    allowedHosts,
    routes: jobRoutes(handlers, limits, [
      ...parts.routes,
      ...descriptionRoutes({
        job: job.jobName,
        model: deps.model,
        filter: deps.filter,
        inputAlreadyBatched,
        security: securityOf(access),
        hasControl: services.terminate !== undefined,
      }),
      ...page.routes(allowedHosts, handlers.status),
      largeResultsRoute(scope.get(s3Client), { bucket: LOCAL_BUCKET, job: job.jobName }),
    ]),
  };
}

async function createResources(aws: LocalAws, job: JobConfig) {
  await aws.createBucket(LOCAL_BUCKET);
  const queue = await aws.createQueue({
    name: queueName(job.jobName),
    visibilitySeconds: hiddenSeconds(job),
    // Here a message may come again after seconds, so a day takes more deliveries than on SQS.
    maxReceiveCount: Math.max(MOST_DELIVERIES, Math.ceil(LEAST_DELIVERED_SECONDS / hiddenSeconds(job))),
  });
  const deadLetterUrl = queue.deadLetter?.url;
  if (deadLetterUrl === undefined) throw new Error('a queue with maxReceiveCount has a dead-letter queue');
  return { queue, deadLetterUrl };
}
