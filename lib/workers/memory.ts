/** Ends a process that exceeds its memory limit, before the machine has none left for the others. */
import { readFileSync } from 'node:fs';
import { badConfig } from '../contract/errors.ts';
import type { Clock } from '../pipeline/batch/batcher.ts';

const EVERY_MS = 1_000;

interface Limited {
  readonly pid: number | undefined;
  readonly ended: Promise<string>;
  kill(why: string): void;
}

/** @throws bad_config for a limit where the system does not tell what a process takes */
export function assertMemoryLimit(limitMB: number): void {
  if (limitMB > 0 && process.platform !== 'linux')
    throw badConfig('worker.memoryMB: this system has no /proc to measure it');
}

/** Measures once a second until the process has ended. @param limitMB 0: no limit */
export function limitMemory(worker: Limited, limitMB: number, clock: Clock): void {
  if (limitMB === 0) return;
  let stop = () => {};
  const measure = () => {
    const usedMB = residentMB(worker.pid);
    if (usedMB > limitMB) worker.kill(`used ${usedMB} MB, over worker.memoryMB (-memory_mb)`);
    else stop = clock.after(EVERY_MS, measure);
  };
  stop = clock.after(EVERY_MS, measure);
  void worker.ended.finally(() => stop());
}

/** The memory that is in RAM, without that of processes which it has started; 0 when it has ended. */
function residentMB(pid: number | undefined): number {
  try {
    // In kB, unlike /proc/<pid>/statm, whose pages have another size on each machine. It is not a file on a disk to
    // wait for.
    const [, kB] = /^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8')) ?? [];
    return Math.ceil(Number(kB ?? 0) / 1024);
  } catch {
    return 0;
  }
}
