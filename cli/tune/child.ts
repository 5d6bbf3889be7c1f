/**
 * The process that measures one point: opens the model, then measures calls for as long as requested. onnxruntime
 * blocks the thread, so a separate thread watches for the parent's end. In the installed package this file is part of
 * a chunk, so it exports its own URL.
 */
import { type ErrorRecord, ServingError } from '../../lib/contract/errors.ts';
import { endWithParent } from '../../lib/inference/end-with-parent.ts';
import { peakMemory } from '../../lib/inference/peak-memory.ts';
import type { Block, ModelFacts } from './points.ts';
import type { OpenPoint, OpenRequest } from './run.ts';

export type ChildQuestion =
  | { readonly open: OpenRequest }
  /** Measures for about this long, at least a few calls. */
  | { readonly measureMs: number };

export interface Measured {
  readonly block: Block;
  /** The peak growth of the process, and its current size. */
  readonly peakBytes: number;
  readonly residentBytes: number;
}

export type ChildAnswer =
  | { readonly facts: ModelFacts }
  | { readonly measured: Measured }
  | { readonly failed: ErrorRecord };

/** The script to start, and the argument that selects this role. */
export const SCRIPT = import.meta.url;
export const ROLE = 'cluster-serving-tune-point';

const LEAST_CALLS = 2;
const MOST_CALLS = 2_000;
let point: OpenPoint | undefined;
let before = 0;

async function answer(question: ChildQuestion): Promise<ChildAnswer> {
  try {
    if ('measureMs' in question) return { measured: await measure(question.measureMs) };
    // Loaded on demand, because the parent imports this file too and needs no onnxruntime.
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
  const [modelMs, callMs]: [number[], number[]] = [[], []];
  const cpu = process.cpuUsage();
  const begin = performance.now();
  while (callMs.length < LEAST_CALLS || (performance.now() < begin + forMs && callMs.length < MOST_CALLS)) {
    const call = await point.call();
    callMs.push(call.callMs);
    modelMs.push(call.modelMs);
  }
  const { user, system } = process.cpuUsage(cpu);
  return {
    block: { modelMs, callMs, cpuMs: (user + system) / 1000, wallMs: performance.now() - begin },
    peakBytes: Math.max(0, peakMemory() - before),
    residentBytes: process.memoryUsage.rss(),
  };
}

if (import.meta.main && process.send && process.argv[2] === ROLE) {
  endWithParent();
  // Ctrl-C reaches every process of a terminal; the parent decides what it means and ends this one.
  process.on('SIGINT', () => undefined);
  process.on('disconnect', () => process.exit());
  process.on('message', (question) => {
    void answer(question as ChildQuestion).then((found) => process.send?.(found));
  });
}
