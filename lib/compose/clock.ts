/** The time of this machine, for parts that take a clock. */
import type { Clock } from '../pipeline/batcher.ts';

export const CLOCK: Clock = {
  now: () => performance.now(),
  after(ms, call) {
    const timer = setTimeout(call, ms);
    return () => clearTimeout(timer);
  },
};
