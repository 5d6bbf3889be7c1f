/**
 * In: this process. Out: what it holds, and the most it held since a moment.
 * Trap: garbage is no memory that is needed, but V8 collects when it likes; so what is compared is taken right after a
 * collection, and the peak is the kernel's own (VmHWM), which misses nothing between two looks and can be set back.
 */
import { readFileSync, writeFileSync } from 'node:fs';

interface Held {
  /** Of the whole process. */
  readonly rssBytes: number;
  /** Of JavaScript: heap and array buffers. */
  readonly liveBytes: number;
}

/** What is held after everything that can be collected was. Needs --expose-gc. */
export function heldBytes(): Held {
  const collect = globalThis.gc;
  if (!collect) throw new Error('memory is measured in a process with --expose-gc');
  // The second one collects what the first one's finalizers let go of.
  collect();
  collect();
  const { heapUsed, external } = process.memoryUsage();
  return { rssBytes: process.memoryUsage.rss(), liveBytes: heapUsed + external };
}

/** Lets the peak begin anew. False where the kernel has no such thing (only Linux has). */
export function resetPeak(): boolean {
  try {
    writeFileSync('/proc/self/clear_refs', '5');
    return true;
  } catch {
    return false;
  }
}

/** Highest resident memory since `resetPeak`. */
export function peakBytes(): number {
  const [, kilobytes] = /VmHWM:\s+(\d+) kB/.exec(readFileSync('/proc/self/status', 'utf8')) ?? [];
  return Number(kilobytes) * 1024;
}
