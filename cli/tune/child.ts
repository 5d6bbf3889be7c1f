/**
 * The process of one point. In: what to open, then how long to measure. Out: what was opened, then the times.
 * Trap: onnxruntime holds the thread, so a model with an endless loop hears of nothing, also not that its parent has
 * gone; a thread of its own watches for that. In the installed package this file is a part of a chunk, so only it can
 * say where it is.
 */
import { type ErrorRecord, ServingError } from '../../lib/contract/errors.ts';
import { endWithParent } from '../../lib/inference/end-with-parent.ts';
import type { Block, ModelFacts } from './points.ts';
import type { OpenPoint, OpenRequest } from './run.ts';

export type ChildQuestion =
  | { readonly open: OpenRequest }
  /** Calls for about so long, some at least. */
  | { readonly measureMs: number };

export interface Measured {
  readonly block: Block;
  /** What the process grew by, at most, and what it takes now. */
  readonly peakBytes: number;
  readonly residentBytes: number;
}

export type ChildAnswer =
  | { readonly facts: ModelFacts }
  | { readonly measured: Measured }
  | { readonly failed: ErrorRecord };

/** What to start, and the argument that makes it this process. */
export const SCRIPT = import.meta.url;
export const ROLE = 'cluster-serving-tune-point';

const LEAST_CALLS = 2;
const MOST_CALLS = 2_000;
let point: OpenPoint | undefined;
let before = 0;

async function answer(question: ChildQuestion): Promise<ChildAnswer> {
  try {
    if ('measureMs' in question) return { measured: await measure(question.measureMs) };
    // On demand: who starts this process needs no onnxruntime.
    const { openPoint } = await import('./run.ts');
    before = process.memoryUsage.rss();
    point = await openPoint(question.open);
    return { facts: point.facts };
  } catch (error) {
    const { code, message } = ServingError.from(error);
    return { failed: { code, message } };
  }
}

async function measure(forMs: number): Promise<Measured> {
  if (!point) throw new ServingError('internal', 'no model was opened');
  return {
    block: await calls(point, forMs),
    peakBytes: Math.max(0, process.resourceUsage().maxRSS * 1024 - before),
    residentBytes: process.memoryUsage.rss(),
  };
}

async function calls(opened: OpenPoint, forMs: number): Promise<Block> {
  const block = { modelMs: [] as number[], callMs: [] as number[] };
  const cpu = process.cpuUsage();
  const begin = performance.now();
  const until = begin + forMs;
  do {
    const { callMs, modelMs } = await opened.call();
    block.callMs.push(callMs);
    block.modelMs.push(modelMs);
  } while (
    block.callMs.length < LEAST_CALLS ||
    (performance.now() < until && block.callMs.length < MOST_CALLS)
  );
  const { user, system } = process.cpuUsage(cpu);
  return { ...block, cpuMs: (user + system) / 1000, wallMs: performance.now() - begin };
}

if (import.meta.main && process.send && process.argv[2] === ROLE) {
  endWithParent();
  // Ctrl-C goes to all of a terminal's processes; who started us tells what it means, and ends us.
  process.on('SIGINT', () => undefined);
  process.on('disconnect', () => process.exit());
  process.on('message', (question) => {
    void answer(question as ChildQuestion).then((told) => process.send?.(told));
  });
}
