/** How a job's records run on this machine: in the processes of its model or of its worker. */
import { CLOCK } from '../../lib/compose/clock.ts';
import { model as modelPart, readyModel } from '../../lib/compose/model.ts';
import type { OnnxRunner, openOnnx } from '../../lib/compose/onnx.ts';
import type { BatchedOnnx, PooledOnnx } from '../../lib/compose/onnx-pool.ts';
import { modelLocation, s3Client } from '../../lib/compose/s3.ts';
import type { Scope } from '../../lib/compose/scope.ts';
import type { SharedProcesses } from '../../lib/compose/shared-processes.ts';
import type { JobConfig } from '../../lib/config/job.ts';
import { modelUnavailable } from '../../lib/contract/errors.ts';
import { logWarning } from '../../lib/contract/log.ts';
import type { Model } from '../../lib/contract/values.ts';
import type { LoadSource } from '../../lib/observe/history.ts';
import { parseFilter } from '../../lib/pipeline/answer/postprocess.ts';
import type { Observer } from '../../lib/pipeline/observer.ts';
import type { ModelProcess } from '../../onnx-import/process.ts';
import type { LocalAws } from '../aws/aws.ts';
import type { LocalLog } from '../aws/lambda.ts';
import type { ServedFacts } from '../console/local.ts';
import type { GrpcJob } from '../grpc/methods.ts';
import type { Access } from '../machine/access.ts';
import { type QueuedModel, withoutWaits } from './function-clock.ts';
import { servedModel } from './model.ts';
import { publishOwn } from './publish.ts';
import type { TrialOptions } from './trials.ts';

/**
 * Concurrent events of the queue for each process: while one runs, the next is read. More would only wait and keep their
 * messages hidden.
 */
const EVENTS_PER_PROCESS = 2;
/** Messages are hidden for six times the function's time, so an event may wait for five. */
const WAITED_TIMES = 5;

export interface ServedJob {
  readonly job: JobConfig;
  /**
   * The model directory, which is uploaded to the local S3 and served from there, or handed to the worker. One at
   * s3://… is copied first.
   */
  readonly modelDirectory: string;
  /** The folder of further models, each in a folder of its name. */
  readonly modelsDirectory?: string | undefined;
  /** Where a worker's code is: the folder of its config. */
  readonly directory?: string;
  /** True if a worker's processes are replaced when its files change. */
  readonly watch?: boolean | undefined;
  /** True: the golden requests of the version that served before are neither asked nor kept. */
  readonly dropGolden?: boolean | undefined;
  /** Another HTTP port with the same routes; 0 takes any free port. */
  readonly secondPort?: number;
}

export interface JobServices {
  readonly aws: LocalAws;
  readonly redisUrl: string;
  readonly dataDir: string;
  /** The port of the job's HTTP gateway; 0 takes any free port. */
  readonly port: number;
  readonly access: Access;
  /** Ends the service, when a caller with the token of its port asks for that; without it, none can. */
  readonly terminate?: ((how: string) => void) | undefined;
  /** How long a new model may take to become ready, in ms. Default as in release/version.ts. */
  readonly readyMs?: number | undefined;
  readonly trials?: TrialOptions | undefined;
  /** Where a new model is tried. Default: a process of its own. */
  readonly modelProcess?: ModelProcess | undefined;
  readonly log: LocalLog;
  /** Takes what serves the job's requests over another protocol too. */
  readonly offer?: ((job: GrpcJob) => void) | undefined;
}

export type OnClose = (close: () => Promise<void>) => void;

/** How a job's records run on this machine. */
export interface Runs {
  /** For requests. */
  readonly model: (scope: Scope) => Promise<Model>;
  /** For the events of the queue, with what their poller needs to know. */
  readonly queued: (model: Model) => Pick<QueuedModel, 'model'> & Partial<QueuedModel>;
  /** Sources of the statistics. */
  readonly load: LoadSource;
  /** Events of the queue at the same time. */
  readonly events: number;
  /** True while a request would be refused. */
  readonly refuses: () => boolean;
  /** Called when clients have left, or may have: what waits of them is not run. */
  readonly onLeave: () => void;
  /** The version that can run records now. @throws model_unavailable */
  readonly version?: () => Promise<string>;
  /** How long running requests may take when the service stops, in ms. */
  readonly stopMs?: number;
}

export interface ServedRuns extends ServedFacts {
  readonly runs: Runs;
}

export async function serveModel(
  served: ServedJob,
  services: JobServices,
  scope: Scope,
  onClose: OnClose,
  runs: Runs,
): Promise<ServedRuns> {
  // The model is opened with it. Before it is verified, because a missing package would look like a fault of the model there.
  await import('../../lib/compose/onnx-pool.ts');
  const place = { s3: scope.get(s3Client), location: scope.get(modelLocation) };
  const model = await servedModel(served.job, served.modelDirectory, services.dataDir);
  const { version, notes, verification, stored } = await publishOwn({ ...served, model }, services, place);
  onClose(() => scope.get(modelPart).close());
  await scope.get(modelPart).ready();
  // A version that was served before: the settings may be others now.
  if (stored !== undefined)
    await scope.get(modelPart).use((runner) => assertServable(stored, runner, served.job));
  if (served.modelsDirectory !== undefined) {
    const { publishNamed } = await import('./named.ts');
    notes.push(
      ...(await publishNamed(
        served.modelsDirectory,
        { ...services, ...served },
        { s3: place.s3, bucket: place.location.bucket },
      )),
    );
  }
  return { runs, model: version, modelNotes: notes, verification, importReport: model.importReport };
}

type OpenRunner = NonNullable<Scope['own']['openNamed']>;

/**
 * Opens models in processes of their own, and knows those that are open: the oldest serves, beside a canary for one. Further models
 * share processes.
 */
export function processRuns(job: JobConfig) {
  const open = new Set<PooledOnnx>();
  const named = new Set<BatchedOnnx>();
  let shared: SharedProcesses | undefined;
  const sum = (figure: (one: PooledOnnx) => number) => [...open].reduce((all, one) => all + figure(one), 0);
  const options = {
    processes: job.processes,
    // Before the function's own time is over, so that the other records of an event are returned by it.
    limitMs: job.function.timeoutSeconds * 850,
    clock: CLOCK,
    onCrash: (reason: string) => logWarning(`a process of the model ended: ${reason}`),
  };
  const runs: Runs = {
    model: readyModel,
    queued: (model) => withoutWaits(model, CLOCK.now, WAITED_TIMES * job.function.timeoutSeconds * 1000),
    load: {
      workers: () => sum(({ pool }) => pool.size) || 1,
      waiting: () => [...open, ...named].reduce((all, { batcher }) => all + batcher.waiting, 0),
      busyMs: () => sum(({ pool }) => pool.busyMs) + (shared?.busyMs ?? 0),
    },
    events: EVENTS_PER_PROCESS * job.processes,
    // A canary that is stuck refuses nobody.
    refuses: () => [...open][0]?.batcher.refuses() ?? false,
    onLeave: () => {
      for (const { batcher } of [...open, ...named]) batcher.review();
    },
  };
  const openNamed: OpenRunner = async (told, file, version, settings) => {
    const { SharedProcesses } = await import('../../lib/compose/shared-processes.ts');
    shared ??= new SharedProcesses(options);
    const opened = await shared.open({ file, version, settings }, (run) => told.runEnded?.(run));
    named.add(opened);
    const close = () => opened.close().finally(() => named.delete(opened));
    return { ...opened, close };
  };
  return {
    runs,
    openNamed,
    closeShared: async () => shared?.close(),
    openRunner: async (told: Observer, ...[file, version, settings]: Parameters<typeof openOnnx>) => {
      const { openPooledOnnx } = await import('../../lib/compose/onnx-pool.ts');
      const runEnded: Observer['runEnded'] = (run) => told.runEnded?.(run);
      const opened = await openPooledOnnx(file, version, settings, { ...options, runEnded });
      open.add(opened);
      const close = () => opened.close().finally(() => open.delete(opened));
      return { ...opened, close };
    },
  };
}

/** A worker is not published: it runs from its folder. */
export async function serveWorker(
  { watch = false }: ServedJob,
  { log, dataDir }: JobServices,
  scope: Scope,
  onClose: OnClose,
): Promise<ServedRuns> {
  const { worker } = scope.environment.job;
  const { openWorker } = await import('../../lib/compose/worker.ts');
  const reload = watch ? (await import('../worker/reload.ts')).ReloadingWorker : undefined;
  const tell = (line: string) => log.warn(line);
  const opened = await (reload?.open(scope, { tell, dataDir }) ?? openWorker(scope));
  onClose(() => opened.close());
  const runs: Runs = {
    model: () => Promise.resolve(opened),
    queued: (model) => ({ model }),
    load: {
      workers: () => opened.pool.size,
      waiting: () => opened.runner.waiting,
      busyMs: () => opened.pool.busyMs,
      version: () => opened.version,
    },
    events: EVENTS_PER_PROCESS * worker.numWorker,
    refuses: () => opened.runner.refuses(),
    onLeave: () => opened.runner.review(),
    async version() {
      if (opened.isReady()) return opened.version;
      throw modelUnavailable('no process of the worker is ready');
    },
    stopMs: worker.stopTimeout,
  };
  return { runs, model: opened.version, modelNotes: [], verification: undefined };
}

/** @throws bad_model when no request reaches the model under the settings of the job */
async function assertServable(file: string, runner: OnnxRunner, job: JobConfig): Promise<void> {
  const [{ assertReachable }, { readFacts }] = await Promise.all([
    import('../../release/gate/gate.ts'),
    import('../../onnx-import/index.ts'),
  ]);
  const { shapelessInputs: shapeless } = await readFacts(file);
  const { inputAlreadyBatched } = job;
  const filter = parseFilter(job.postProcessing);
  await assertReachable(file, runner, { shapeless, inputAlreadyBatched, filter, image: runner.image });
}
