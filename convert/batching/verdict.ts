/**
 * Whether records may share a run of a model: proven on its graph, and then shown by runs. One verdict for every part of
 * the product; it is stored with the version of the model, and functions only read it.
 */
import { badModel } from '../../lib/contract/errors.ts';
import { inModelProcess } from '../check/check.ts';
import { readModel } from './model.ts';
import type { ProbeRequest } from './probe.ts';
import { type BatchAxes, proofOf } from './proof.ts';

/** Of the rules and of the probe: a verdict of another version is not used, and is made again. */
export const ANALYSER_VERSION = 1;

export interface BatchingVerdict {
  readonly verdict: 'proven' | 'not proven';
  /** Why not, as a part of a sentence about the operator; undefined when proven. */
  readonly reason?: string;
  /** Where the proof ended; the probe names none. */
  readonly operator?: string;
  /** Name of the node; may be empty. */
  readonly node?: string;
  /** The axis of each output's rows, where it is not 0 for all of them; only with `outputsOnAnyAxis`. */
  readonly outputAxes?: Readonly<Record<string, number>>;
  /** Version of the rules that it was made with. */
  readonly analyser: number;
}

export interface VerdictOptions {
  readonly batchAxes?: BatchAxes | undefined;
  /** True: an output may have its rows on any axis, along which the caller takes them apart. Default false: on axis 0. */
  readonly outputsOnAnyAxis?: boolean | undefined;
  /** Most rows of a run in service. Default 32. */
  readonly maxRows?: number | undefined;
  /** About how long the probe runs, in ms; 0: only the proof. Default 10,000. */
  readonly probeMs?: number | undefined;
  readonly signal?: AbortSignal | undefined;
}

const MAX_ROWS = 32;
const PROBE_MS = 10_000;
/** For a model that takes long to load, or never ends. */
const PROCESS_MS = 300_000;

/** @throws bad_model when the file is damaged, does not load, or takes its process down; the signal's reason */
export async function batchingVerdict(file: string, options: VerdictOptions = {}): Promise<BatchingVerdict> {
  const { batchAxes = new Map(), maxRows = MAX_ROWS, probeMs = PROBE_MS, signal } = options;
  signal?.throwIfAborted();
  const { end, fixedRows, outputAxes } = proofOf(readModel(file), batchAxes, options.outputsOnAnyAxis);
  if (end) return { ...notProven(end.message), operator: end.operator, node: end.node };
  const isElsewhere = [...outputAxes.values()].some((axis) => axis !== 0);
  const proven: BatchingVerdict = {
    verdict: 'proven',
    ...(isElsewhere ? { outputAxes: Object.fromEntries(outputAxes) } : {}),
    analyser: ANALYSER_VERSION,
  };
  if (fixedRows === 1 || maxRows < 2 || probeMs === 0) return proven;
  const request: ProbeRequest = {
    file,
    inputAxes: [...batchAxes],
    outputAxes: [...outputAxes],
    fixedRows,
    maxRows,
    limitMs: probeMs,
  };
  const answer = await inModelProcess({ probe: request }, PROCESS_MS, signal);
  signal?.throwIfAborted();
  if ('failed' in answer) throw badModel(answer.failed.message);
  if (!('probe' in answer)) throw badModel(`the probe of ${file} gave no answer`);
  return answer.probe.kind === 'differs' ? notProven(answer.probe.reason) : proven;
}

function notProven(reason: string): BatchingVerdict {
  return { verdict: 'not proven', reason, analyser: ANALYSER_VERSION };
}

/** One line for a person. */
export function verdictText({ verdict, reason, operator, node }: BatchingVerdict): string {
  if (verdict === 'proven') return 'records share runs: proven on the graph';
  const where = operator === undefined ? '' : `${operator}${node ? ` (node "${node}")` : ''}: `;
  return `records run one by one: ${where}${reason}`;
}
