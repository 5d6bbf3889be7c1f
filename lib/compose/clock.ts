/** The time of this machine, for parts that take a clock. Node loads `performance` at its first use, in 1 ms of a cold start. */
import type { Clock } from '../pipeline/batcher.ts';

export const CLOCK: Clock = {
  now: () => process.uptime() * 1000,
  after(ms, call) {
    const timer = setTimeout(call, ms);
    return () => clearTimeout(timer);
  },
};
