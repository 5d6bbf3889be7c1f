/**
 * In: a model that has run one row. Out: how much memory its process takes with the rows the default settings run.
 * Trap: 32 rows of a model that is at home in pictures may be more than this machine has, and take minutes. So rows are
 * added step by step, and a step that would not fit here is not tried: the rest is a straight line (lambda-fit.ts).
 */
import { DEFAULT_JOB } from '../../lib/config/job.ts';
import type { Tensor, TypedArray } from '../../lib/contract/tensor.ts';
import type { Session } from '../../lib/inference/session.ts';
import { RUN_BYTES } from '../../lib/inference/warm-up.ts';

export interface MemoryPoint {
  readonly rows: number;
  /** The largest the process was above its beginning, with runs of up to so many rows; it never falls. */
  readonly peakBytes: number;
}

export interface MemoryReport {
  /** Of a run with the default settings: batchSize, or less where the rows are too many bytes or run one by one. */
  readonly rows: number;
  /** What was measured, fewest rows first; the last has `rows`, unless that was too much for this machine. */
  readonly points: readonly MemoryPoint[];
  /** Of the inputs that were made up, by input. */
  readonly shapes: readonly (readonly number[])[];
}

interface Ran {
  /** One row of each input, or as many as the model is fixed to. */
  readonly feeds: readonly Tensor[];
  readonly inputsOf: (rows: readonly number[]) => Tensor[];
  /** Whether the first dimension is free. */
  readonly isFree: boolean;
  /** Whether the service runs rows of several records together. */
  readonly isShared: boolean;
  /** Resident bytes at the beginning. */
  readonly before: number;
  /** After the first run. */
  readonly peakBytes: number;
}

/** Together. A run cannot be interrupted, so it is guessed from the last one how long it takes. */
const LIMIT_MS = 20_000;
/** Of the memory that is free here. */
const MOST_OF_FREE = 0.7;
/** What a run put out is not collected before the next one begins. */
const RUNS = 2;
/** The queue's own rows are a step, for the import report to tell. Steps close together would fragment the memory. */
const STEPS = [2, 4, DEFAULT_JOB.queue.batchSize];

export async function measureMemory(session: Session, ran: Ran): Promise<MemoryReport> {
  const { feeds, inputsOf, isFree, isShared, before } = ran;
  const shapes = feeds.map(({ shape }) => [...shape]);
  const one = (rows: number, peakBytes: number) => ({ rows, points: [{ rows, peakBytes }], shapes });
  if (!isFree) return one(feeds[0]?.shape[0] ?? 1, ran.peakBytes);
  // The service's warm-up runs two rows all the same, to learn that it must not.
  if (!isShared) return one(1, peakNow(before));
  const rows = rowsOfARun(feeds);
  const points: MemoryPoint[] = [{ rows: 1, peakBytes: ran.peakBytes }];
  const until = performance.now() + LIMIT_MS;
  let lastMs = 0;
  for (const count of [...STEPS.filter((step) => 2 * step <= rows), rows]) {
    const last = points.at(-1) as MemoryPoint;
    if (count === last.rows) break;
    const growth = count / last.rows;
    const isSlow = performance.now() + lastMs * growth > until;
    if (isSlow || !hasRoom(last.peakBytes * (growth - 1))) break;
    const at = performance.now();
    try {
      const inputs = inputsOf(Array.from({ length: count }, (_, row) => row));
      for (let run = 0; run < RUNS; run++) await session.run(inputs);
    } catch {
      // Two rows it ran; how many more it takes is no question of memory. The line tells the rest.
      break;
    }
    lastMs = performance.now() - at;
    points.push({ rows: count, peakBytes: peakNow(before) });
  }
  return { rows, points, shapes };
}

/** As lib/pipeline/batch.ts makes runs of records, with the default settings. */
function rowsOfARun(feeds: readonly Tensor[]): number {
  const rowBytes = feeds.reduce((sum, tensor) => sum + bytesOf(tensor), 0);
  return Math.max(1, Math.min(DEFAULT_JOB.batchSize, Math.floor(RUN_BYTES / Math.max(1, rowBytes))));
}

/** As boundBytes of lib/pipeline/batch.ts: texts are guessed at 16 each. */
function bytesOf({ dtype, data }: Tensor): number {
  return dtype === 'string' ? data.length * 16 : (data as TypedArray).byteLength;
}

function hasRoom(bytes: number): boolean {
  return bytes <= process.availableMemory() * MOST_OF_FREE;
}

export function peakNow(before: number): number {
  return Math.max(0, process.resourceUsage().maxRSS * 1024 - before);
}
