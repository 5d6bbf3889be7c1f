/** Measurements as the command would make them, from a point and its time. */
import type { Door, MeasuredPoint } from '../../../cli/tune/points.ts';

export interface Extra {
  readonly p99?: number;
  readonly neededMB?: number;
}

export function measuredAt(
  door: Door,
  threads: number,
  records: number,
  ms: number,
  { p99 = ms, neededMB = 200 }: Extra = {},
): MeasuredPoint {
  const times = { median: ms, low: ms, high: ms, p99, calls: 100 };
  return {
    door,
    threads,
    records,
    model: times,
    call: times,
    cpuMs: ms,
    meanMs: ms,
    blocks: 5,
    peakBytes: 1,
    neededMB,
  };
}
