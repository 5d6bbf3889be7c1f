/**
 * Makes the verification of a model: whether records may share a run, and which rewrites of onnxruntime stay off. The model
 * runs in a process that can be killed. What was verified before, by the same rules and onnxruntime, is not repeated.
 */
import { stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { badModel } from '../../lib/contract/errors.ts';
import { isCurrent, type Verification } from '../../lib/contract/verification.ts';
import { batchingVerdict } from '../batching/verdict.ts';
import { inModelProcess } from '../check/check.ts';
import { readOnnxFacts } from '../onnx/facts.ts';
import type { RewritesReport } from './rewrites.ts';

export interface VerifyOptions {
  /** What is known of this model; returned as it is when it holds for this machine. */
  readonly known?: Verification | undefined;
  /** Most rows of a run in service. Default 32. */
  readonly maxRows?: number | undefined;
  /** True: compares models above 1 GB, too, which takes memory for two of them. Default false. */
  readonly comparesLarge?: boolean | undefined;
  /** About how long the search for wrong rewrites may take, in ms. Default 60,000. */
  readonly limitMs?: number | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** Above it a second session may not fit into memory. */
const LARGE_BYTES = 1e9;
const SEARCH_MS = 60_000;
/** For a model that takes long to load, or never ends. */
const PROCESS_MS = 300_000;

/** @throws bad_model when the file is damaged, does not load, or takes its process down; the signal's reason */
export async function verifyModel(file: string, options: VerifyOptions = {}): Promise<Verification> {
  const { known, maxRows, signal } = options;
  // Loaded on demand, because it loads onnxruntime.
  const { RUNTIME } = await import('../../lib/inference/session.ts');
  if (isCurrent(known, RUNTIME)) return known;
  const batching = await batchingVerdict(file, { maxRows, signal });
  const { externalFiles, shapelessInputs: shapeless } = await readOnnxFacts(file);
  const bytes = await sizeOf([file, ...externalFiles.map((name) => join(dirname(file), name))]);
  if (bytes > LARGE_BYTES && options.comparesLarge !== true) {
    const runtime = { ...RUNTIME, level: 'all', disabledOptimizers: [] } as const;
    return { batching, runtime, comparison: 'skipped', reason: 'the model is larger than 1 GB' };
  }
  const limitMs = options.limitMs ?? SEARCH_MS;
  return { batching, ...(await reportOf(file, shapeless, limitMs, signal)) };
}

async function sizeOf(files: readonly string[]): Promise<number> {
  const stats = await Promise.all(files.map((path) => stat(path).catch(() => ({ size: 0 }))));
  return stats.reduce((sum, { size }) => sum + size, 0);
}

async function reportOf(
  file: string,
  shapeless: readonly string[],
  limitMs: number,
  signal: AbortSignal | undefined,
): Promise<RewritesReport> {
  const answer = await inModelProcess({ rewrites: { file, shapeless, limitMs } }, PROCESS_MS, signal);
  signal?.throwIfAborted();
  if ('rewrites' in answer) return answer.rewrites;
  throw badModel('failed' in answer ? answer.failed.message : `${file}: the comparison gave no answer`);
}
