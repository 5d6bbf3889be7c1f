/** When requests arrive, as independent callers make them. Evenly spaced ones would never queue and flatter every server. */
import { randomNumbers } from '../models.ts';

/** More than that is a mistake in a unit. */
const MAX_ARRIVALS = 5_000_000;

export interface Arrivals {
  readonly ratePerSecond: number;
  readonly seconds: number;
  readonly seed: number;
}

export function poissonArrivals({ ratePerSecond, seconds, seed }: Arrivals): Float64Array {
  if (!(ratePerSecond > 0) || !(seconds > 0) || ratePerSecond * seconds > MAX_ARRIVALS) {
    throw new Error(`expected a rate and a length above 0, got ${ratePerSecond} a second for ${seconds} s`);
  }
  const random = randomNumbers(seed);
  const endMs = seconds * 1000;
  const meanMs = 1000 / ratePerSecond;
  const times: number[] = [];
  // 1 - random(): from above 0 to 1, so that the logarithm is finite.
  for (let ms = -Math.log(1 - random()) * meanMs; ms < endMs; ms -= Math.log(1 - random()) * meanMs) {
    times.push(ms);
  }
  return Float64Array.from(times);
}
