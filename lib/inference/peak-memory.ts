/** The most memory that this process has had at once. */
import { readFileSync } from 'node:fs';

/**
 * What the system counts for a process includes the one that started it, of which it was a copy until it began to run a program
 * of its own. Linux has the number without it.
 * @returns resident bytes
 */
export function peakMemory(): number {
  const [, kB] = /^VmHWM:\s+(\d+) kB$/m.exec(statusText()) ?? [];
  return (kB === undefined ? process.resourceUsage().maxRSS : Number(kB)) * 1024;
}

function statusText(): string {
  try {
    return readFileSync('/proc/self/status', 'utf8');
  } catch {
    return '';
  }
}
