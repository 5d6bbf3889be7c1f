/**
 * Collects the service's log lines of a test that provokes errors, and keeps them out of the report. The test runner
 * also writes to stdout, so only log lines are taken; tests may overlap, so stdout is wrapped once and each test has
 * its own list.
 */
import type { TestContext } from 'node:test';

const LOG_LINE = '{"level":"';
const MAX_LINES = 1_000;

export interface KeptLog {
  readonly lines: string[];
}

const listening = new Set<string[]>();
let wrapped = false;

export function quietLog(t: TestContext): KeptLog {
  if (!wrapped) wrap();
  const lines: string[] = [];
  listening.add(lines);
  t.after(() => listening.delete(lines));
  return { lines };
}

function wrap(): void {
  wrapped = true;
  const { stdout } = process;
  const write = stdout.write.bind(stdout) as (...rest: unknown[]) => boolean;
  stdout.write = (...rest: unknown[]): boolean => {
    const [chunk] = rest;
    if (typeof chunk !== 'string' || !chunk.startsWith(LOG_LINE)) return write(...rest);
    // What is late is kept out too: a test that has ended cannot tell its lines from those of the next.
    for (const lines of listening) if (lines.length < MAX_LINES) lines.push(chunk);
    return true;
  };
}
