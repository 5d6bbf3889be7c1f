/**
 * Reads how much memory this process uses. V8 collects garbage when it likes, so live memory is read after a collection;
 * the peak is the kernel's own (VmHWM, Linux only), which misses nothing between two readings.
 */
import { writeFileSync } from 'node:fs';
import { peakMemory } from '../lib/inference/peak-memory.ts';

/** Bytes that JavaScript holds, heap and array buffers, without garbage. Needs --expose-gc. */
export async function liveBytes(): Promise<number> {
  const collect = globalThis.gc;
  if (!collect) throw new Error('live memory is measured in a process with --expose-gc');
  for (let pass = 0; pass < 2; pass++) {
    collect();
    // Memory outside the heap is released a turn after its owner was collected.
    await new Promise((resolve) => setTimeout(resolve, 1));
  }
  collect();
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}

/** @returns a reading of the highest resident bytes above those of now; NaN where the kernel does not count them */
export function startPeak(): () => number {
  const before = process.memoryUsage.rss();
  try {
    writeFileSync('/proc/self/clear_refs', '5');
  } catch {
    return () => Number.NaN;
  }
  return () => Math.max(0, peakMemory() - before);
}
