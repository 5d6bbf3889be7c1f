/** Decides how many processes a pool has, from how busy they were. */

export interface Load {
  /** When it was measured, in ms. */
  readonly atMs: number;
  /** Processes at that time. */
  readonly size: number;
  /** Share of the time since the measurement before that they worked, from 0 to 1. */
  readonly share: number;
}

export interface Scaling {
  readonly least: number;
  readonly most: number;
  /** Share of time from which on the processes are busy. */
  readonly threshold: number;
  readonly expandMs: number;
  readonly squeezeMs: number;
}

/**
 * One more when the processes were busy for all of `expandMs`, one fewer when the others could have done the work of all
 * of `squeezeMs` without being busy. Under a constant load the second is never true after the first.
 * @param loads the oldest first; those of another size than the last do not count
 */
export function nextSize(loads: readonly Load[], scaling: Scaling): number {
  const now = loads.at(-1);
  if (!now) return scaling.least;
  const { size } = now;
  const since = loads.slice(loads.findLastIndex((load) => load.size !== size) + 1);
  const over = (durationMs: number) => mean(since, now.atMs - durationMs);
  const expand = over(scaling.expandMs);
  if (size < scaling.most && expand !== undefined && expand >= scaling.threshold) return size + 1;
  const squeeze = over(scaling.squeezeMs);
  if (size <= scaling.least || squeeze === undefined) return size;
  return (squeeze * size) / (size - 1) < scaling.threshold ? size - 1 : size;
}

/** @returns undefined when the measurements do not reach back to `fromMs` */
function mean(loads: readonly Load[], fromMs: number): number | undefined {
  if (loads[0] === undefined || loads[0].atMs > fromMs) return undefined;
  // A measurement says what was before it.
  const counted = loads.filter(({ atMs }) => atMs > fromMs);
  return counted.reduce((sum, { share }) => sum + share, 0) / counted.length;
}
