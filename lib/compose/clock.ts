/** The time of this machine, for parts that take a clock. Node loads `performance` at its first use, in 1 ms of a cold start. */
import type { Clock } from '../pipeline/batch/batcher.ts';

/** A process that was frozen finds its timers over. Of a long one this much is over then, and the rest is left. */
const STEP_MS = 1_000;

export const CLOCK: Clock = {
  now: () => process.uptime() * 1000,
  after(ms, call) {
    let leftMs = ms;
    let timer: NodeJS.Timeout | undefined;
    const next = () => {
      const stepMs = Math.min(leftMs, STEP_MS);
      leftMs -= stepMs;
      timer = setTimeout(leftMs > 0 ? next : call, stepMs);
    };
    next();
    return () => clearTimeout(timer);
  },
};
