/**
 * In: a test that provokes errors on purpose. Out: their log lines, kept for the test and out of the report.
 * Trap: the test runner itself speaks over stdout, so only lines of our own log are taken.
 */
import type { TestContext } from 'node:test';

const LOG_LINE = '{"level":"';

export interface KeptLog {
  readonly lines: string[];
}

export function quietLog(t: TestContext): KeptLog {
  const lines: string[] = [];
  const { stdout } = process;
  const write = stdout.write.bind(stdout) as (...rest: unknown[]) => boolean;
  stdout.write = (...rest: unknown[]): boolean => {
    const [chunk] = rest;
    if (typeof chunk !== 'string' || !chunk.startsWith(LOG_LINE)) return write(...rest);
    if (lines.length < MAX_LINES) lines.push(chunk);
    return true;
  };
  t.after(() => {
    stdout.write = write;
  });
  return { lines };
}

const MAX_LINES = 1_000;
