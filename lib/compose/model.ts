/** Composes a job's model: an ONNX file in front of onnxruntime, with the settings of the job and the memory of the function. */
import { quoteNames } from '../codecs/quote.ts';
import { axesOf, type JobConfig } from '../config/job.ts';
import type { ServingError } from '../contract/errors.ts';
import { logError, logWarning } from '../contract/log.ts';
import { isVerdictCurrent, optimizationFor, type Runtime } from '../contract/verification.ts';
import type { ModelManager } from '../inference/model-manager.ts';
import type { OnnxSettings } from '../inference/runner.ts';
import { threadsForMemory } from '../inference/threads.ts';
import { isByPosition } from '../pipeline/bind/match-inputs.ts';
import type { ModelPointer } from '../registry/download.ts';
import { findModelFile } from '../registry/onnx-file.ts';
import { CLOCK } from './clock.ts';
import { observers, trialWatch } from './observers.ts';
import type { OnnxRunner, openOnnx } from './onnx.ts';
import { modelLocation, s3Client } from './s3.ts';
import type { Scope } from './scope.ts';
import { openVersions, type VersionsOptions } from './versions.ts';

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
  // A further model is closed and opened again.
  const opened = new Set<string>();
  return openVersions({
    ...options,
    ...(openRunner ? {} : { prepare: ONNX }),
    async open(folder, pointer) {
      const { version, verification } = pointer;
      const { openOnnx, RUNTIME } = await ONNX.load();
      if (!opened.has(version)) {
        warnUnverified(pointer, settings, RUNTIME);
        warnElsewhere(pointer, RUNTIME);
      }
      opened.add(version);
      const open = openRunner ?? openOnnx;
      return warnOfPositions(await open(await findModelFile(folder), version, { ...settings, verification }));
    },
  });
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

function warnElsewhere({ version, verification }: ModelPointer, runtime: Runtime): void {
  if (!verification || !optimizationFor(verification, runtime)?.isElsewhere) return;
  const of = ({ onnxruntime, architecture, features = [] }: Runtime) =>
    `onnxruntime ${onnxruntime} on ${architecture}${features.length === 0 ? '' : ` with ${features.join(', ')}`}`;
  logWarning(
    `quantized nodes run without onnxruntime's rewrites: the model was verified with ${of(verification.runtime)}, and this is ${of(runtime)}`,
    { version },
  );
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
  const { openRunner } = scope.own;
  return openModel({
    ...versionsOf(scope),
    settings: scope.get(onnxSettings),
    ...(openRunner && { openRunner: (...version) => openRunner(scope.get(observers), ...version) }),
  });
}

/** Where the environment finds versions, and where they go. */
export function versionsOf(scope: Scope) {
  const { job, modelDirectory, inLambda, hasResults } = scope.environment;
  return {
    s3: scope.get(s3Client),
    location: scope.get(modelLocation),
    directory: modelDirectory,
    refreshMs: job.modelRefreshSeconds * 1000,
    // Lambda stops a process between its calls, and its other clocks with it. On a single machine the wall clock may be set.
    now: inLambda ? Date.now : CLOCK.now,
    onError: (error: ServingError) => logError(error, { phase: 'model' }),
    onChange: (version: string) => scope.get(observers).modelChanged?.(version),
    ...(hasResults && { canaries: scope.get(trialWatch) }),
    ...(inLambda ? { leftMs: () => scope.leftMs(), random: Math.random } : {}),
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
