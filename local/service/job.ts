/**
 * Runs one job on this machine: the deployed composition with a local Environment. Parts close in the reverse order of opening.
 */
import { MOST_RECORDS } from '../../console/api.ts';
import { sqsClient } from '../../lib/compose/accept.ts';
import { captureSlot } from '../../lib/compose/capture-slot.ts';
import { loadBudget } from '../../lib/compose/load-budget.ts';
import { namedModels } from '../../lib/compose/named.ts';
import { openTracing } from '../../lib/compose/observers.ts';
import { results } from '../../lib/compose/results.ts';
import { s3Client } from '../../lib/compose/s3.ts';
import { Scope } from '../../lib/compose/scope.ts';
import type { JobConfig } from '../../lib/config/job.ts';
import { isCapturing } from '../../lib/contract/capture.ts';
import { logError } from '../../lib/contract/log.ts';
import { RecentRecords } from '../../lib/observe/recent.ts';
import type { LocalAws } from '../aws/aws.ts';
import { bridgeOfJob } from '../bridge/own.ts';
import type { ServedFacts } from '../console/local.ts';
import { openConsole } from '../console/open.ts';
import { type GatewayOptions, startGateway } from '../gateway/gateway.ts';
import { makeToken, newToken } from '../machine/token.ts';
import { openServiceParts, type ServicePartOptions } from '../worker/open.ts';
import { ServiceStatistics } from '../worker/statistics.ts';
import { localDeclarations } from './declarations.ts';
import { createQueues, environmentOf, LOCAL_BUCKET, recordFigures } from './environment.ts';
import { openEventSources } from './events.ts';
import { gatewayOptions } from './http.ts';
import { sweepLargeResults } from './large-results.ts';
import {
  type JobServices,
  type OnClose,
  processRuns,
  type Runs,
  type ServedJob,
  serveModel,
  serveWorker,
} from './runs.ts';
import { watchTrialsHere } from './trials.ts';

/** The addresses of one job. */
export interface JobAddresses extends ServedFacts {
  readonly job: string;
  /** The HTTP gateway. */
  readonly url: string;
  readonly queueUrl: string;
  readonly deadLetterUrl: string;
}

/** How long accepted requests may take when the service stops, in ms, where the job does not say. */
const STOP_MS = 10_000;

/** @param onClose receives the close function of each part as it opens, even if a later one fails */
export async function openJob(
  served: ServedJob,
  services: JobServices,
  onClose: OnClose,
): Promise<JobAddresses> {
  const { job, secondPort } = served;
  const { aws, access, log, terminate } = services;
  const { queue, deadLetterUrl, ...others } = await createQueues(aws, job);

  // The observers of the job.
  const statistics = new ServiceStatistics(() => performance.now());
  const recent = new RecentRecords({ most: MOST_RECORDS, now: Date.now });
  const environment = environmentOf(served, { queue, ...others }, services);
  const tracing = await openTracing(environment);
  onClose(async () => tracing?.spans.close());

  // Its dependencies, as a deployed function has them.
  const { openRunner, openNamed, closeShared, runs: inProcesses } = processRuns(job);
  onClose(closeShared);
  const scope = new Scope(environment, {
    openRunner,
    openNamed,
    tracing,
    budget: await loadBudget(environment),
    latestOrder: () => aws.latestOrder(),
    observers: [...statistics.observers, recent],
  });
  openStores(scope, onClose);
  onClose(() => scope.get(namedModels).close());

  // The runner of its records.
  const { runs, ...facts } = await (job.worker.class === undefined
    ? serveModel(served, services, scope, onClose, inProcesses)
    : serveWorker(served, services, scope, onClose));
  statistics.follow({ ...runs.load, depth: () => depthOf(recordFigures(aws, queue.url, job)) });

  // Routes that a single machine adds to the API.
  const controlToken = terminate && (access.token ?? newToken());
  const parts = openServiceParts({ statistics, ...partsOf(job, runs.load, controlToken, terminate) });
  onClose(() => parts.idle(runs.stopMs ?? STOP_MS));
  const model = await runs.model(scope);
  const shown = { scope, model, served: facts, statistics, recent, hasToken: access.token !== undefined };
  const page = openConsole(shown, onClose);

  // The ways in: the queue, the stream and HTTP.
  await openEventSources(scope, services, { runs, deadLetterUrl }, onClose);
  const bridge = await bridgeOfJob(scope, log);
  onClose(() => bridge.close());
  const declarations = localDeclarations(services.terminate !== undefined);
  const options = await gatewayOptions(scope, services, { runs, statistics, parts, page, declarations });
  const gateway = await openGateways(options, secondPort, onClose);
  if (controlToken !== undefined) {
    const host = new URL(gateway.url).hostname.replace(/^\[(.*)\]$/, '$1');
    const { forget } = await makeToken(gateway.port, controlToken, host);
    onClose(forget);
  }
  onClose(async () => parts.close());
  if (job.worker.class === undefined) onClose(watchTrialsHere(scope, services.trials));
  return { ...facts, job: job.jobName, url: gateway.url, queueUrl: queue.url, deadLetterUrl };
}

/** The clients of what keeps records, results and captures. */
function openStores(scope: Scope, onClose: OnClose): void {
  const { job } = scope.environment;
  const [s3, sqs, store] = [scope.get(s3Client), scope.get(sqsClient), scope.get(results)];
  onClose(async () => s3.destroy());
  onClose(async () => sqs.destroy());
  onClose(() => store.close());
  if (isCapturing(job.capture)) onClose(() => scope.get(captureSlot).close());
  const sweeping = { bucket: LOCAL_BUCKET, job: job.jobName, ttlSeconds: job.resultTtlSeconds };
  onClose(sweepLargeResults(s3, sweeping));
}

/** @param secondPort another port with the same routes */
async function openGateways(options: GatewayOptions, secondPort: number | undefined, onClose: OnClose) {
  const gateway = await startGateway(options);
  onClose(() => gateway.close());
  if (secondPort === undefined) return gateway;
  const second = await startGateway({ ...options, port: secondPort, portOption: '-http_port' });
  onClose(() => second.close());
  return gateway;
}

const depthOf = ({ waiting, running }: ReturnType<LocalAws['queueFigures']>) => waiting + running;

/** Parts of the HTTP API that only a single machine has. */
function partsOf(
  job: JobConfig,
  { workers, version }: Runs['load'],
  token: string | undefined,
  terminate: ((how: string) => void) | undefined,
): Omit<ServicePartOptions, 'statistics'> {
  const { batchSize, worker } = job;
  const end = async () => terminate?.('terminate');
  return {
    ttlMs: job.resultTtlSeconds * 1000,
    fetch: { allowedHosts: worker.allowImgHost },
    page: () => ({ job: job.jobName, workers: workers?.() ?? 1, batchSize }),
    facts: () => ({
      ...worker,
      batchSize,
      jobName: job.jobName,
      modelVersion: version?.(),
    }),
    ...(token === undefined ? {} : { control: { token, verbs: { terminate: end } } }),
    log: logError,
  };
}
