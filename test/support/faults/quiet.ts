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
let unwrap: (() => void) | undefined;

export function quietLog(t: TestContext): KeptLog {
  unwrap ??= wrap();
  const lines: string[] = [];
  listening.add(lines);
  t.after(() => {
    listening.delete(lines);
    if (listening.size > 0) return;
    unwrap?.();
    unwrap = undefined;
  });
  return { lines };
}

function wrap(): () => void {
  const { stdout } = process;
  const original = Object.getOwnPropertyDescriptor(stdout, 'write');
  const write = stdout.write.bind(stdout) as (...rest: unknown[]) => boolean;
  stdout.write = (...rest: unknown[]): boolean => {
    const [chunk] = rest;
    if (typeof chunk !== 'string' || !chunk.startsWith(LOG_LINE)) return write(...rest);
    // What is late is kept out too while another test listens: no test can tell its lines from those of the last.
    for (const lines of listening) if (lines.length < MAX_LINES) lines.push(chunk);
    return true;
  };
  return () => {
    if (original) Object.defineProperty(stdout, 'write', original);
    else Reflect.deleteProperty(stdout, 'write');
  };
}
