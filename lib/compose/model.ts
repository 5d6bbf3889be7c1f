/**
 * Composes a job's model: found in S3, downloaded, opened, replaced by new versions. /tmp has 512 MB and lives as
 * long as an environment, so a version's files are removed once nothing uses them. They may not go earlier, because
 * the isolated process of a running event may still open them.
 */
import { quoteNames } from '../codecs/quote.ts';
import { axesOf, type JobConfig } from '../config/job.ts';
import { ServingError } from '../contract/errors.ts';
import { logError, logWarning } from '../contract/log.ts';
import type { Runner } from '../contract/values.ts';
import { isVerdictCurrent, type Runtime } from '../contract/verification.ts';
import { ModelManager } from '../inference/model-manager.ts';
import type { OnnxSettings } from '../inference/runner.ts';
import { threadsForMemory } from '../inference/threads.ts';
import { isByPosition } from '../pipeline/match-inputs.ts';
import { downloadModel, type ModelLocation, type ModelPointer, readPointer } from '../registry/download.ts';
import { makeFolder, removeOthers } from '../registry/download-folder.ts';
import { findModelFile } from '../registry/onnx-file.ts';
import type { S3Client } from '../s3/objects.ts';
import { CLOCK } from './clock.ts';
import type { OnnxRunner, openOnnx } from './onnx.ts';
import { modelLocation, s3Client } from './s3.ts';
import type { Scope } from './scope.ts';

interface VersionsOptions<R extends Runner> {
  readonly s3: S3Client;
  readonly location: ModelLocation;
  /** Where downloads go: one folder per version. */
  readonly directory: string;
  readonly refreshMs: number;
  readonly now: () => number;
  readonly onError: (error: ServingError) => void;
  /** The version of a job that needs no files. */
  readonly withoutFiles?: string | undefined;
  /** Opens a version that was downloaded. Its runner has the same version. */
  readonly open: (folder: string, pointer: ModelPointer) => Promise<R>;
  /** What opening needs, in two steps: each is taken while S3 is awaited. */
  readonly prepare?: { readonly load: () => Promise<unknown>; readonly start: () => Promise<unknown> };
}

/** Called after what is under way has asked S3. Failures are left to the opening. */
const meanwhile = (work: () => Promise<unknown>) => setImmediate(() => void work().catch(() => undefined));

/** onnxruntime is loaded and started in 25 ms, for which the first answers of S3 give time. */
const ONNX = {
  load: () => import('./onnx.ts'),
  start: async () => (await import('./onnx.ts')).startOnnx(),
};

type OpenModelOptions = Omit<VersionsOptions<OnnxRunner>, 'open'> & {
  readonly settings: OnnxSettings;
  /** Default: in this process. */
  readonly openRunner?: typeof openOnnx;
};

export function openModel({ settings, openRunner, ...options }: OpenModelOptions): ModelManager<OnnxRunner> {
  return openVersions({
    ...options,
    ...(openRunner ? {} : { prepare: ONNX }),
    async open(folder, pointer) {
      const { version, verification } = pointer;
      const { openOnnx, RUNTIME } = await ONNX.load();
      warnUnverified(pointer, settings, RUNTIME);
      const open = openRunner ?? openOnnx;
      return warnOfPositions(await open(await findModelFile(folder), version, { ...settings, verification }));
    },
  });
}

export function openVersions<R extends Runner>(options: VersionsOptions<R>): ModelManager<R> {
  const { s3, location, directory, withoutFiles, prepare } = options;
  const read = () => readPointer(s3, location, withoutFiles);
  let pointer: ModelPointer | undefined;
  const open: R[] = [];
  /**
   * The version that serves or is being opened. It is kept when the model manager closes, so that the next process
   * finds it.
   */
  let latest: readonly string[] = [];
  /** Failing to remove an old version is logged and never blocks a load. */
  const tidy = () =>
    removeOthers(directory, new Set([...open.map(({ version }) => version), ...latest])).catch(
      (error: unknown) => options.onError(ServingError.from(error)),
    );
  return new ModelManager(
    {
      async version() {
        if (prepare) meanwhile(prepare.load);
        pointer = await read();
        return pointer.version;
      },
      async open(version) {
        const wanted = pointer?.version === version ? pointer : await read();
        const before = latest;
        latest = [...before, wanted.version];
        try {
          await makeFolder(directory);
          // Removes first to make room: at most the versions in use and this one exist together.
          await tidy();
          if (prepare) meanwhile(prepare.start);
          const folder = await downloadModel(s3, location, wanted, directory);
          const runner = await options.open(folder, wanted);
          latest = [wanted.version];
          open.push(runner);
          return tidyAfter(runner, async () => {
            open.splice(open.indexOf(runner), 1);
            await tidy();
          });
        } catch (error) {
          latest = before;
          throw error;
        }
      },
    },
    options,
  );
}

function warnUnverified(
  { version, verification }: ModelPointer,
  settings: OnnxSettings,
  runtime: Runtime,
): void {
  const isProven = settings.batchSize > 1 && (settings.batching ?? 'proven') === 'proven';
  if (!isProven || isVerdictCurrent(verification, runtime, settings)) return;
  const why = 'this version of the model was not verified for this release and these settings';
  logWarning(`records run one by one: ${why}; \`cluster-serving model push\` verifies it`, { version });
}

/** The same runner, which logs once that records of the queue have names that are not the model's. */
function warnOfPositions(runner: OnnxRunner): OnnxRunner {
  const { inputs, version } = runner;
  if (inputs.length < 2) return runner;
  let hasWarned = false;
  return {
    ...runner,
    run(records, policy) {
      // A request says itself that its inputs bind by position.
      if (!hasWarned && !policy?.failFast && records.some((record) => isByPosition(record, inputs))) {
        hasWarned = true;
        const names = quoteNames(inputs.map(({ name }) => name));
        logWarning(
          `records of several inputs bind in their order, because none of their names is an input of the model; send them as ${names}`,
          { version },
        );
      }
      return runner.run(records, policy);
    },
  };
}

/** The same runner; once it is closed, `then` is called. */
function tidyAfter<R extends Runner>(runner: R, then: () => Promise<void>): R {
  let closing: Promise<void> | undefined;
  return { ...runner, close: () => (closing ??= runner.close().then(then)) };
}

export function modelSettings(job: JobConfig, defaultThreads: number): OnnxSettings {
  return {
    threads: job.threadPerModel || defaultThreads,
    batchSize: job.batchSize,
    inputAlreadyBatched: job.inputAlreadyBatched,
    image: job.image,
    batching: job.batching,
    ...axesOf(job),
  };
}

/** The settings with which the environment opens models. */
export function onnxSettings({ environment: { job, cpus, memoryMB } }: Scope): OnnxSettings {
  return modelSettings(job, cpus ?? threadsForMemory(memoryMB));
}

/** The job's model, opened at its first use. */
export function model(scope: Scope): ModelManager<OnnxRunner> {
  return openModel({ ...versionsOf(scope), settings: scope.get(onnxSettings), ...scope.own });
}

/** Where the environment finds versions, and where they go. */
export function versionsOf(scope: Scope) {
  const { job, modelDirectory, inLambda } = scope.environment;
  return {
    s3: scope.get(s3Client),
    location: scope.get(modelLocation),
    directory: modelDirectory,
    refreshMs: job.modelRefreshSeconds * 1000,
    // Lambda stops a process between its calls, and its other clocks with it. On a single machine the wall clock may be set.
    now: inLambda ? Date.now : CLOCK.now,
    onError: (error: ServingError) => logError(error, { phase: 'model' }),
  };
}

/**
 * The job's model, opened and warmed up. If it cannot load now, the function still starts: requests are answered with
 * 503, and each tries again.
 */
export async function readyModel(scope: Scope): Promise<ModelManager<OnnxRunner>> {
  const host = scope.get(model);
  await host.ready().catch((error: unknown) => logError(error, { phase: 'model' }));
  return host;
}
