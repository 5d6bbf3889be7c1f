/** The rows of what something adds to a request: its time at two percentiles, and processor time. */
import { type Measured, pairwise, quantile, spreadOf } from './measure.ts';
import type { Row } from './report.ts';

export interface AddedTo {
  readonly off: Measured;
  readonly on: Measured;
  /** `off` once more, for the noise. */
  readonly control: Measured;
}

/** @param note of the row about processor time */
export function addedRows(
  scenario: string,
  name: string,
  { off, on, control }: AddedTo,
  note: string,
): Row[] {
  const minus = (a: number, b: number) => a - b;
  const latencies = [0.5, 0.99].map((part): Row => {
    const at = (of: Measured) => of.repeats.map((sorted) => quantile(sorted, part));
    const noise = pairwise(at(control), at(off), minus).median;
    return {
      scenario,
      name,
      metric: `added p${part * 100}`,
      unit: 'ms',
      raw: spreadOf(at(off)).median,
      ours: spreadOf(at(on)).median,
      baseUnit: 'ms',
      value: pairwise(at(on), at(off), minus),
      note: `off against itself ${noise.toFixed(3)}`,
    };
  });
  const value = pairwise(on.cpuMs, off.cpuMs, minus);
  const cpu = { raw: spreadOf(off.cpuMs).median, ours: spreadOf(on.cpuMs).median, baseUnit: 'ms' };
  const processor: Row = {
    scenario,
    name,
    metric: 'added processor time',
    unit: 'ms',
    ...cpu,
    value,
    note,
  };
  return [...latencies, processor];
}
