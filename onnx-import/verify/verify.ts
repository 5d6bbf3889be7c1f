/**
 * Makes the verification of a model: which rewrites of onnxruntime stay off, and without them, whether records may share a
 * run. The model runs in a process that can be killed. What was verified before, by the same rules and onnxruntime, is not
 * repeated.
 */
import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { TEXT_FILE } from '../../lib/contract/texts.ts';
import { isCurrent, type Verification } from '../../lib/contract/verification.ts';
import { type Model, readModel } from '../batching/model.ts';
import { afterProbe, type ProofOptions, prove } from '../batching/verdict.ts';
import { type OnnxFacts, readOnnxFacts } from '../onnx/facts.ts';
import { inModelProcess, type ModelProcess, withModelProcess } from '../process/model-process.ts';
import type { Task } from '../process/task.ts';
import type { GivenShapes } from '../samples/given-sizes.ts';
import { modelBytes } from '../samples/work.ts';
import { isSameOnEveryProcessor } from './kernels.ts';
import type { RewritesReport } from './rewrites.ts';
import { PADDING, PROBE, REWRITES } from './tasks.ts';

export interface RewritesOptions extends Pick<ProofOptions, 'batchAxes'> {
  /** Of inputs, where the file leaves sizes free. */
  readonly sizes?: GivenShapes;
  readonly signal?: AbortSignal | undefined;
  /** Where the model runs. Default: a process of its own. */
  readonly process?: ModelProcess | undefined;
}

export interface VerifyOptions extends ProofOptions, RewritesOptions {
  /** What is known of this model; returned as it is when it holds for this machine. */
  readonly known?: Verification | undefined;
  /** What was found of this model on this machine. */
  readonly rewrites?: RewritesReport | undefined;
}

/** Above it a second session may not fit into memory. */
const LARGE_BYTES = 1e9;
/** For a model that takes long to load, or never ends. */
const PROCESS_MS = 300_000;

/**
 * Finds the rewrites that change the answers of a model, which stay off wherever it runs from then on.
 * @throws bad_model when it does not load, or takes its process down; the signal's reason
 */
export async function findRewrites(file: string, options: RewritesOptions = {}): Promise<RewritesReport> {
  return rewritesOf(file, await readOnnxFacts(file), readModel(file), options);
}

async function rewritesOf(
  file: string,
  { scalars, shapelessInputs: shapeless, externalFiles }: OnnxFacts,
  model: Model,
  options: RewritesOptions,
): Promise<RewritesReport> {
  const { batchAxes, sizes } = options;
  if ((await modelBytes(file, externalFiles)) > LARGE_BYTES) {
    // Loaded on demand, because it loads onnxruntime.
    const { notCompared } = await import('./rewrites.ts');
    return notCompared('the model is larger than 1 GB');
  }
  const report = await ask(REWRITES, { file, shapeless, scalars, sizes, batchAxes }, options);
  const { runtime } = report;
  const anyFeatures = isSameOnEveryProcessor(model, runtime.architecture);
  return anyFeatures ? { ...report, runtime: { ...runtime, anyFeatures } } : report;
}

/** @throws bad_model when the file is damaged, does not load, or takes its process down; the signal's reason */
export async function verifyModel(file: string, options: VerifyOptions = {}): Promise<Verification> {
  const { known, signal, sizes } = options;
  signal?.throwIfAborted();
  if (known && (await isKnown(options))) return known;
  const model = readModel(file);
  const { verdict, probe } = prove(file, options, model);
  const facts = await readOnnxFacts(file);
  const { scalars } = facts;
  return withModelProcess(options.process, async (process) => {
    const given = { ...options, process };
    const {
      outputAxes,
      open: _open,
      ...compared
    } = options.rewrites ?? (await rewritesOf(file, facts, model, given));
    const optimization = compared.runtime;
    const report = probe && (await ask(PROBE, { ...probe, sizes, optimization }, given));
    const isText = existsSync(join(dirname(file), TEXT_FILE));
    const padding = isText ? await ask(PADDING, { file, optimization }, given) : {};
    const batching = { ...afterProbe(verdict, report), ...padding };
    // A proof of several rows knows the axes itself.
    const areAxesKnown = batching.verdict === 'proven' && probe !== undefined;
    if (areAxesKnown || Object.keys(outputAxes).length === 0) return { batching, ...compared, scalars };
    return { batching: { ...batching, outputAxes }, ...compared, scalars };
  });
}

function ask<Request extends object, Answer>(
  task: Task<Request, Answer>,
  request: Request,
  { signal, process }: RewritesOptions,
) {
  return inModelProcess(task, request, { ms: PROCESS_MS, signal }, process);
}

/** Whether what is known of the model holds for this machine and these settings. */
export async function isKnown(options: Pick<VerifyOptions, 'known' | keyof ProofOptions>): Promise<boolean> {
  // Loaded on demand, because it loads onnxruntime.
  const { RUNTIME } = await import('../../lib/inference/session.ts');
  return isCurrent(options.known, RUNTIME, options);
}
