/**
 * Makes the verification of a model: whether records may share a run, and which rewrites of onnxruntime stay off. The model
 * runs in a process that can be killed. What was verified before, by the same rules and onnxruntime, is not repeated.
 */
import { existsSync } from 'node:fs';
import { stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { badModel } from '../../lib/contract/errors.ts';
import { TEXT_FILE } from '../../lib/contract/texts.ts';
import { isCurrent, type Verification } from '../../lib/contract/verification.ts';
import { afterProbe, type ProofOptions, prove } from '../batching/verdict.ts';
import type { GivenShapes } from '../check/given-sizes.ts';
import { inModelProcess, type ModelProcess } from '../check/model-process.ts';
import { readOnnxFacts } from '../onnx/facts.ts';

export interface VerifyOptions extends ProofOptions {
  /** What is known of this model; returned as it is when it holds for this machine. */
  readonly known?: Verification | undefined;
  /** True: compares models above 1 GB, too, which takes memory for two of them. Default false. */
  readonly comparesLarge?: boolean | undefined;
  /** Of inputs, where the file leaves sizes free. */
  readonly sizes?: GivenShapes;
  /** About how long the search for wrong rewrites may take, in ms. Default 60,000. */
  readonly limitMs?: number | undefined;
  readonly signal?: AbortSignal | undefined;
  /** Where the model runs. Default: a process of its own. */
  readonly process?: ModelProcess | undefined;
}

/** Above it a second session may not fit into memory. */
const LARGE_BYTES = 1e9;
const SEARCH_MS = 60_000;
/** For a model that takes long to load, or never ends. */
const PROCESS_MS = 300_000;

/** @throws bad_model when the file is damaged, does not load, or takes its process down; the signal's reason */
export async function verifyModel(file: string, options: VerifyOptions = {}): Promise<Verification> {
  const { known, comparesLarge = false, limitMs = SEARCH_MS, signal, sizes } = options;
  signal?.throwIfAborted();
  if (known && (await isKnown(options))) return known;
  const { verdict, probe } = prove(file, options);
  const { externalFiles, shapelessInputs: shapeless } = await readOnnxFacts(file);
  const bytes = await sizeOf([file, ...externalFiles.map((name) => join(dirname(file), name))]);
  const isCompared = bytes <= LARGE_BYTES || comparesLarge;
  const verify = {
    padding: existsSync(join(dirname(file), TEXT_FILE)) ? file : undefined,
    probe: probe && { ...probe, sizes },
    rewrites: isCompared ? { file, shapeless, sizes, batchAxes: options.batchAxes, limitMs } : undefined,
  };
  const limits = { ms: PROCESS_MS, signal };
  const answer = await inModelProcess({ verify }, limits, options.process);
  signal?.throwIfAborted();
  if ('failed' in answer) throw badModel(answer.failed.message);
  if (!('verified' in answer)) throw badModel(`${file}: the verification gave no answer`);
  const { probe: report, rewrites, padding } = answer.verified;
  const batching = { ...afterProbe(verdict, report), ...padding };
  if (rewrites) {
    const { outputAxes, ...compared } = rewrites;
    // A proof of several rows knows the axes itself.
    const areAxesKnown = batching.verdict === 'proven' && probe !== undefined;
    if (areAxesKnown || Object.keys(outputAxes).length === 0) return { batching, ...compared };
    return { batching: { ...batching, outputAxes }, ...compared };
  }
  const { RUNTIME } = await import('../../lib/inference/session.ts');
  const runtime = { ...RUNTIME, level: 'all', disabledOptimizers: [] } as const;
  return { batching, runtime, comparison: 'skipped', reason: 'the model is larger than 1 GB' };
}

/** Whether what is known of the model holds for this machine and these settings. */
export async function isKnown(options: Pick<VerifyOptions, 'known' | keyof ProofOptions>): Promise<boolean> {
  // Loaded on demand, because it loads onnxruntime.
  const { RUNTIME } = await import('../../lib/inference/session.ts');
  return isCurrent(options.known, RUNTIME, options);
}

async function sizeOf(files: readonly string[]): Promise<number> {
  const stats = await Promise.all(files.map((path) => stat(path).catch(() => ({ size: 0 }))));
  return stats.reduce((sum, { size }) => sum + size, 0);
}
