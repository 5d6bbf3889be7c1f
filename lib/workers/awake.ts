/** Waits in the time in which this process runs. */
import type { Clock } from '../pipeline/batch/batcher.ts';

const STEP_MS = 1_000;

/**
 * Calls after so much time, in steps. A function may be frozen while a process starts, and so is the process: that costs one
 * step, however long it lasts.
 * @returns a function that cancels it
 */
export function afterAwake({ after }: Clock, ms: number, call: () => void): () => void {
  let stop = () => {};
  const wait = (leftMs: number) => {
    const stepMs = Math.min(leftMs, STEP_MS);
    stop = after(stepMs, () => (leftMs > stepMs ? wait(leftMs - stepMs) : call()));
  };
  wait(ms);
  return () => stop();
}
