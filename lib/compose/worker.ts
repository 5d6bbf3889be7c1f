/** Composes a worker: its processes, the batcher in front of them, and how their number follows the load. */

import { tmpdir } from 'node:os';
import { resolve } from 'node:path';
import type { JobConfig } from '../config/job.ts';
import { badConfig, modelUnavailable, ServingError } from '../contract/errors.ts';
import { logWarning } from '../contract/log.ts';
import { elementAt } from '../contract/present.ts';
import type { Model } from '../contract/values.ts';
import { type Variables, variables } from '../contract/variables.ts';
import { Batcher } from '../pipeline/batch/batcher.ts';
import { FixedScheduler } from '../pipeline/batch/scheduler.ts';
import { type Load, nextSize } from '../workers/autoscale.ts';
import { assertDevices, languageOf, loopCommand, loopEnvironment } from '../workers/command.ts';
import { stackKey } from '../workers/items.ts';
import { FileLog, type ServiceLog, STDERR_LOG } from '../workers/log.ts';
import { assertMemoryLimit, limitMemory } from '../workers/memory.ts';
import type { Open } from '../workers/messages.ts';
import { Pool } from '../workers/pool.ts';
import { WorkerProcess, WorkerStartError } from '../workers/process.ts';
import { type WorkerFacts, WorkerRunner, type WorkerRunnerOptions } from '../workers/worker-runner.ts';
import { CLOCK } from './clock.ts';
import { observers } from './observers.ts';
import type { Scope } from './scope.ts';

/** How often the load is measured. */
const LOAD_EVERY_MS = 5_000;

export interface OpenWorkerOptions extends Pick<WorkerRunnerOptions, 'runEnded'> {
  /** Takes what the processes print. Default: the files of `worker.logDir`, else stderr. */
  readonly log?: ServiceLog;
  /** Default: logs it. */
  readonly onCrash?: (reason: string, place: number) => void;
  /** For a worker whose files are watched: their version, and what calls the start off. */
  readonly watched?: { readonly version: string; readonly signal: AbortSignal };
}

export interface ServedWorker extends Model {
  readonly runner: Batcher;
  readonly pool: Pool<WorkerProcess>;
  readonly version: string;
  /** True if a process can run a batch. */
  isReady(): boolean;
  close(): Promise<void>;
}

/** The job's worker, with all of its first processes ready. @throws bad_config, model_unavailable with its traceback */
export async function openWorker(scope: Scope, options: OpenWorkerOptions = {}): Promise<ServedWorker> {
  const { job, workerFolders } = scope.environment;
  const { class: name, batchGroupTimeout: timeoutMs, stopTimeout } = job.worker;
  if (name === undefined || workerFolders === undefined) {
    throw badConfig('worker.class: a worker is served by the single machine');
  }
  const version = options.watched?.version ?? name;
  const told = scope.get(observers);
  const runEnded: OpenWorkerOptions['runEnded'] = (run) => told.runEnded?.(run);
  const code = { ...workerFolders, version };
  const { pool, batches, batching } = await openBatches(job, code, { ...options, runEnded });
  told.modelChanged?.(version);
  const stop = followLoad(pool, job.worker);
  const { batchSize, ...shared } = batching;
  const runner = new Batcher(batches, { ...shared, scheduler: new FixedScheduler(batchSize), timeoutMs });
  return {
    version,
    runner,
    pool,
    isReady: () => pool.ready > 0,
    use: (work) => work(runner),
    async close() {
      stop();
      await pool.close(stopTimeout);
    },
  };
}

/** The processes of the job's worker, all of them ready, and how batches for them are made. @throws as openWorker */
export async function openBatches(
  { worker, batchSize }: WorkerJob,
  { version, ...folders }: WorkerCode,
  { watched, log = logOf(worker, folders), onCrash = logCrash, ...hooks }: OpenWorkerOptions = {},
) {
  // Bytecode counts as current when the file has the second and the size that it had: two quick saves share them.
  const own = watched ? { PYTHONDONTWRITEBYTECODE: '1' } : {};
  const { pool, facts } = poolOf(
    worker,
    { ...folders, batchSize },
    { ...variables, ...own },
    { log, onCrash },
  );
  const callOff = () => void pool.close(0);
  watched?.signal.addEventListener('abort', callOff);
  try {
    await pool.open(watched !== undefined);
    watched?.signal.throwIfAborted();
  } catch (error) {
    throw startError(error);
  } finally {
    watched?.signal.removeEventListener('abort', callOff);
  }
  const { predictTimeout: predictTimeoutMs, protocol } = worker;
  return {
    pool,
    batches: new WorkerRunner({ version, pool, facts, predictTimeoutMs, clock: CLOCK, ...hooks }),
    batching: { batchSize, clock: CLOCK, ...(protocol === 'obj' ? {} : { keyOf: stackKey }) },
  };
}

export type WorkerJob = Pick<JobConfig, 'worker' | 'batchSize'>;
type WorkerSettings = WorkerJob['worker'];

interface Folders {
  /** The folder of the code. */
  readonly directory: string;
  readonly modelDir: string;
}

export interface WorkerCode extends Folders {
  readonly version: string;
}

/** @throws bad_config for code or devices that are not there */
function poolOf(
  worker: WorkerSettings,
  { directory, modelDir, batchSize }: Folders & { readonly batchSize: number },
  inherited: Variables,
  { log, onCrash }: Required<Pick<OpenWorkerOptions, 'log' | 'onCrash'>>,
): { readonly pool: Pool<WorkerProcess>; readonly facts: () => WorkerFacts } {
  if (worker.class === undefined) throw badConfig('worker.class: the job has no worker');
  const grows = worker.numWorkerExpanded > worker.numWorker;
  assertDevices([...worker.deviceMap, ...(grows ? [worker.deviceToExpand] : [])]);
  assertMemoryLimit(worker.memoryMB);
  const command = loopCommand(languageOf(worker.class, directory), worker.python);
  const transferProto: Open['transferProto'] = worker.protocol === 'obj' ? 'obj' : 'npy';
  const { gpuMemoryFraction, verbose, logName, modelName } = worker;
  const tmpFolder = resolve(directory, worker.tmpFolder ?? resolve(tmpdir(), 'tmp_wkr'));
  const code = { worker: worker.class, directory, tmpFolder, transferProto, verbose, logName };
  const open = { ...code, modelDir, modelName, batchSize, gpuMemoryFraction };
  const { length } = worker.deviceMap;
  const deviceOf = (place: number) =>
    place < worker.numWorker
      ? elementAt(worker.deviceMap, place % length, 'worker.deviceMap')
      : worker.deviceToExpand;
  let facts: WorkerFacts = { transferProto, imageAs: 'bytes', retryAlone: true };
  const pool = new Pool<WorkerProcess>({
    size: worker.numWorker,
    start(place) {
      const environment = loopEnvironment(inherited, deviceOf(place));
      const source = { name: `${logName} worker ${place}`, worker: place };
      const process = new WorkerProcess({ command, environment, directory, log, source });
      limitMemory(process, worker.memoryMB, CLOCK);
      return process;
    },
    async ready(process, workerId) {
      const deviceId = deviceOf(workerId);
      const { retryAlone, imageAs } = await process.open({ ...open, workerId, deviceId });
      facts = { transferProto, retryAlone, imageAs };
    },
    startTimeoutMs: worker.startTimeout,
    maxBatches: worker.maxBatches,
    clock: CLOCK,
    onCrash,
  });
  return { pool, facts: () => facts };
}

function logOf({ logDir, logName }: WorkerSettings, { directory }: Folders): ServiceLog {
  return logDir ? new FileLog(resolve(directory, logDir), logName, () => new Date()) : STDERR_LOG;
}

function logCrash(reason: string, place: number): void {
  logWarning(`worker ${place} ended: ${reason}`, { worker: place });
}

function startError(error: unknown): ServingError {
  const known = ServingError.from(error);
  if (known.code !== 'internal') return known;
  const traceback =
    error instanceof WorkerStartError && error.traceback ? `\n${error.traceback.trimEnd()}` : '';
  return modelUnavailable(`the worker did not start: ${known.message}${traceback}`, { cause: error });
}

/** Adds and takes away processes. @returns a function that ends it */
function followLoad(pool: Pool<WorkerProcess>, worker: WorkerSettings): () => void {
  const scaling = {
    least: worker.numWorker,
    most: Math.max(worker.numWorker, worker.numWorkerExpanded),
    threshold: worker.busyUtilThreshold,
    expandMs: worker.durationExpand,
    squeezeMs: worker.durationSqueeze,
  };
  if (scaling.most === scaling.least) return () => undefined;
  const longest = Math.max(scaling.expandMs, scaling.squeezeMs) + 2 * LOAD_EVERY_MS;
  let loads: Load[] = [];
  let before = { atMs: CLOCK.now(), busyMs: pool.busyMs };
  const timer = setInterval(() => {
    const now = { atMs: CLOCK.now(), busyMs: pool.busyMs };
    const share = (now.busyMs - before.busyMs) / ((now.atMs - before.atMs) * pool.size);
    before = now;
    loads = [...loads.filter(({ atMs }) => atMs >= now.atMs - longest), { ...now, size: pool.size, share }];
    pool.resize(nextSize(loads, scaling));
  }, LOAD_EVERY_MS);
  timer.unref();
  return () => clearInterval(timer);
}
