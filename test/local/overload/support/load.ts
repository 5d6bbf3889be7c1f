/**
 * Runs a load in a separate process and returns its results, because the service must not share a thread with its
 * measurement.
 */
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';

export interface Load {
  /** The prefix of the uris of its records. */
  readonly name: string;
  readonly url: string;
  readonly endpoint: 'predict' | 'queue';
  readonly requestsPerSecond: number;
  readonly seconds: number;
  /** How long a request keeps the model busy (test/support/endless.ts). */
  readonly rounds: number;
}

export interface LoadReport {
  readonly sent: number;
  /** How many by status; `broken` has none. */
  readonly statuses: Readonly<Record<string, number>>;
  /** 429s that do not say when to come back. */
  readonly withoutRetryAfter: number;
  /** Some of the answers that are neither right nor 429. */
  readonly wrong: readonly string[];
  /** How long after its time each request left: what the generator itself, or a busy machine, adds. */
  readonly lateMs: readonly number[];
  /** Of 200s and 202s, from when they were due. */
  readonly acceptedMs: readonly number[];
  readonly refusedMs: readonly number[];
  /** Accepted records. */
  readonly uris: readonly string[];
}

const GENERATOR = fileURLToPath(new URL('generator.ts', import.meta.url));

export async function makeLoad(load: Load): Promise<LoadReport> {
  const child = fork(GENERATOR, [], { serialization: 'advanced', execArgv: [] });
  const ended = once(child, 'exit').then(([code]) => {
    throw new Error(`the generator ended with ${code}`);
  });
  child.send(load);
  const answer = once(child, 'message').then(([report]) => report as LoadReport);
  const report = await Promise.race([answer, ended]);
  await ended.catch(() => undefined);
  return report;
}

/** Of a list of times. @param share 0.99 for p99 */
export function quantile(times: readonly number[], share: number): number {
  const sorted = times.toSorted((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN;
}
