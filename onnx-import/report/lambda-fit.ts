/**
 * Decides whether a Lambda function can serve a model, limit by limit, and which settings that needs. A function runs
 * up to batchSize rows at once, so their memory counts. A model that was not run is never reported to fit.
 */
import { DEFAULTS } from '../../lib/config/defaults.ts';
import type { MemoryPoint, MemoryReport } from '../check/memory.ts';

export interface LambdaFit {
  /** With memoryMB and, if set, batchSize. Null: nothing was run, and no other limit excludes the model. */
  readonly fits: boolean | null;
  readonly limits: readonly LimitFact[];
  /** The smallest function.memoryMB that holds runs of `rows` rows, in steps of 64. */
  readonly memoryMB: number | null;
  /** The rows that memoryMB is for: those of a run with the default settings, or batchSize. */
  readonly rows: number | null;
  /**
   * The batchSize that config.yaml must set, because the largest function holds no more rows; null when the default
   * works.
   */
  readonly batchSize: number | null;
  /** Whether the default memory and batchSize are enough. */
  readonly fitsDefault: boolean | null;
  /** The batchSize that fits the default memory when the default batchSize does not; else null. */
  readonly batchSizeAtDefault: number | null;
  /** True: so many rows exceeded this machine, so their memory is extrapolated. */
  readonly extrapolated: boolean;
}

interface LimitFact {
  readonly limit: string;
  readonly mostMB: number;
  /** Null: unknown. */
  readonly needsMB: number | null;
  readonly fits: boolean | null;
  /** False for information only. */
  readonly required: boolean;
}

const MB = 1024 * 1024;
/** Resident memory of the predict function without a model: 116 MiB (Node 24, Linux), rounded up. */
const FUNCTION_MB = 128;
/** onnxruntime and the function's code. */
const BUNDLE_MB = 47;
const TMP_MB = 512;
const MOST_MEMORY_MB = 10_240;
const DEFAULT_MEMORY_MB = DEFAULTS.function.memoryMB;
/** A factor for what generated rows do not show: events of up to 6 MB, decoding images. */
const RESERVE = 1.25;

/** @param memory undefined when nothing was run */
export function lambdaFit(modelBytes: number, memory: MemoryReport | undefined): LambdaFit {
  const model = Math.ceil(modelBytes / MB);
  const within = memory && rowsWithin(memory, MOST_MEMORY_MB);
  const rows = within ?? memory?.points[0]?.rows ?? null;
  const needed = memory && rows !== null ? neededMB(memory, rows) : null;
  const isCut = memory !== undefined && rows !== memory.rows;
  const fact = (limit: string, mostMB: number, needsMB: number | null, required = true): LimitFact => ({
    limit,
    mostMB,
    needsMB,
    fits: needsMB === null ? null : needsMB <= mostMB,
    required,
  });
  const limits = [
    fact('memory of a function', MOST_MEMORY_MB, needed),
    fact('/tmp, where the model is downloaded to', TMP_MB, model),
    fact('/tmp while a new version takes over', TMP_MB, 2 * model, false),
    fact('unzipped deployment package, if the model were inside', 250, BUNDLE_MB + model, false),
  ];
  const required = limits.filter((limit) => limit.required).map(({ fits }) => fits);
  const fitsDefault = needed === null ? null : !isCut && needed <= DEFAULT_MEMORY_MB;
  return {
    fits: required.includes(false) ? false : required.includes(null) ? null : true,
    limits,
    memoryMB: needed === null ? null : Math.ceil(needed / 64) * 64,
    rows,
    batchSize: isCut && within !== undefined ? within : null,
    fitsDefault,
    batchSizeAtDefault:
      memory && fitsDefault === false ? (rowsWithin(memory, DEFAULT_MEMORY_MB) ?? null) : null,
    extrapolated: memory !== undefined && rows !== null && rows > (memory.points.at(-1)?.rows ?? 0),
  };
}

/** The memory of a function that runs so many rows at once, in MiB. */
export function neededMB({ points }: Pick<MemoryReport, 'points'>, rows: number): number {
  return Math.ceil(FUNCTION_MB + (peakBytes(points, rows) / MB) * RESERVE);
}

/** Interpolates between the neighboring points; beyond the last one, follows the steeper of two lines. */
function peakBytes(points: readonly MemoryPoint[], rows: number): number {
  const [first, last] = [points[0] as MemoryPoint, points.at(-1) as MemoryPoint];
  const above = points.findIndex((point) => point.rows >= rows);
  if (above === 0) return first.peakBytes;
  const line = (low: MemoryPoint, high: MemoryPoint) =>
    high.peakBytes + ((high.peakBytes - low.peakBytes) / (high.rows - low.rows)) * (rows - high.rows);
  if (above > 0) return line(points[above - 1] as MemoryPoint, points[above] as MemoryPoint);
  // One point has no slope, so all its memory is assumed to grow.
  if (first === last) return (last.peakBytes * rows) / last.rows;
  // If loading peaks above the first runs, these seem to need nothing; the last step alone may hide growth too.
  return Math.max(line(first, last), line(points.at(-2) as MemoryPoint, last));
}

/** The most rows, up to those of a run, that fit this memory; undefined when one is too many. */
function rowsWithin(memory: MemoryReport, memoryMB: number): number | undefined {
  const least = memory.points[0]?.rows ?? 1;
  for (let rows = memory.rows; rows >= least; rows--) {
    if (neededMB(memory, rows) <= memoryMB) return rows;
  }
  return undefined;
}

export function lambdaText(fit: LambdaFit): string {
  const exceeded = fit.limits.filter((limit) => limit.fits === false);
  const over = exceeded.map(({ limit, mostMB, needsMB }) => `${limit}: ${needsMB} of ${mostMB} MB`);
  const tail = over.length > 0 ? `; over the limit: ${over.join(', ')}` : '';
  const fits = fit.fits === null ? 'unknown' : fit.fits ? 'fits' : 'DOES NOT FIT';
  if (fit.memoryMB === null)
    return `${fits}; how much memory it needs is not known, for nothing was run${tail}`;
  const rows = fit.rows === 1 ? 'runs of one row' : `runs of ${fit.rows} rows`;
  const how = fit.extrapolated ? 'extrapolated from fewer, which this machine could run' : 'as measured here';
  const only =
    fit.batchSize === null ? '' : `; more than batchSize: ${fit.batchSize} is too much for any function`;
  const other =
    fit.batchSizeAtDefault === null
      ? ''
      : `, or batchSize: ${fit.batchSizeAtDefault} with the default of ${DEFAULT_MEMORY_MB} MB`;
  return `${fits}, needs ${fit.memoryMB} MB of memory for ${rows}, ${how}${other}${only}${tail}`;
}
