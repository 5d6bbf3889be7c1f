/** Measurements as the command would make them, from a point and its time. */
import type { Endpoint, MeasuredPoint } from '../../../cli/tune/points.ts';

export interface Extra {
  readonly p99?: number;
  readonly neededMB?: number;
}

export function measuredAt(
  endpoint: Endpoint,
  threads: number,
  records: number,
  ms: number,
  { p99 = ms, neededMB = 200 }: Extra = {},
): MeasuredPoint {
  const times = { median: ms, low: ms, high: ms, p99, calls: 100 };
  return {
    endpoint,
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
