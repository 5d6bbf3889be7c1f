/**
 * Measures the memory of a model's process with as many rows as the default settings run. That may exceed this
 * machine, so rows are added step by step until a step would not fit; lambda-fit.ts extrapolates the rest as a
 * straight line.
 */
import { DEFAULTS } from '../../lib/config/defaults.ts';
import type { Tensor } from '../../lib/contract/tensor.ts';
import { peakMemory } from '../../lib/inference/peak-memory.ts';
import type { Session } from '../../lib/inference/session.ts';
import { RUN_BYTES } from '../../lib/inference/warm-up.ts';
import { feedBytes } from '../../lib/pipeline/batch/batch.ts';

export interface MemoryPoint {
  readonly rows: number;
  /** The peak growth of the process, with runs of up to `rows` rows; it never falls. */
  readonly peakBytes: number;
}

export interface MemoryReport {
  /** The rows of a run with the default settings: batchSize, or fewer if the rows are large or run one by one. */
  readonly rows: number;
  /** The measured points, fewest rows first. The last has `rows`, unless that exceeded this machine. */
  readonly points: readonly MemoryPoint[];
  /** The shapes of the generated inputs, in order. */
  readonly shapes: readonly (readonly number[])[];
}

interface Ran {
  /** One row of each input, or the number of rows that the model fixes. */
  readonly feeds: readonly Tensor[];
  readonly inputsOf: (rows: readonly number[]) => Tensor[];
  /** Whether the first dimension is free. */
  readonly isFree: boolean;
  /** Whether the service runs rows of several records together. */
  readonly isShared: boolean;
  /** Resident bytes at the start. */
  readonly before: number;
  /** The peak growth after the first run. */
  readonly peakBytes: number;
}

/** The limit for all steps. A run cannot be interrupted, so its time is estimated from the last one. */
const LIMIT_MS = 20_000;
/** The share of free memory that a step may use. */
const MOST_OF_FREE = 0.7;
/** Twice, because the outputs of a run are still in memory when the next one begins. */
const RUNS = 2;
/** The queue's own rows are a step, for the import report to tell. Steps close together would fragment the memory. */
const STEPS = [2, 4, DEFAULTS.queue.batchSize];

export async function measureMemory(session: Session, ran: Ran): Promise<MemoryReport> {
  const { feeds, inputsOf, isFree, isShared, before } = ran;
  const shapes = feeds.map(({ shape }) => [...shape]);
  const one = (rows: number, peakBytes: number) => ({ rows, points: [{ rows, peakBytes }], shapes });
  if (!isFree) return one(feeds[0]?.shape[0] ?? 1, ran.peakBytes);
  if (!isShared) return one(1, ran.peakBytes);
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
      // The model may not take this many rows. The line extrapolates the rest.
      break;
    }
    lastMs = performance.now() - at;
    points.push({ rows: count, peakBytes: peakNow(before) });
  }
  return { rows, points, shapes };
}

/** The rows of a run in lib/pipeline/batch/batch.ts with the default settings. */
function rowsOfARun(feeds: readonly Tensor[]): number {
  const rowBytes = Math.max(1, feedBytes({ tensors: feeds }));
  return Math.max(1, Math.min(DEFAULTS.batchSize, Math.floor(RUN_BYTES / rowBytes)));
}

function hasRoom(bytes: number): boolean {
  return bytes <= process.availableMemory() * MOST_OF_FREE;
}

export function peakNow(before: number): number {
  return Math.max(0, peakMemory() - before);
}
