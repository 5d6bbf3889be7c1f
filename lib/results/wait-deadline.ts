/**
 * Checks the length of a wait, and ends the wait when a signal aborts. A comparison with `NaN` is always false, so a loop
 * that compares the time with an unchecked limit might never end.
 */
import { badRequest, ServingError } from '../contract/errors.ts';
import type { Result } from '../contract/result.ts';
import { leave } from '../contract/under-way.ts';
import type { Results, WaitOptions } from './store.ts';

/** The longest delay that a timer of Node accepts: 24 days. */
const MAX_WAIT_MS = 2 ** 31 - 1;

/** @throws bad_request for anything but a number >= 0 */
export function assertWaitMs(timeoutMs: number): number {
  if (typeof timeoutMs !== 'number' || !(timeoutMs >= 0)) {
    throw badRequest(`timeoutMs: expected a number of ms >= 0, got ${String(timeoutMs)}`);
  }
  return Math.min(Math.ceil(timeoutMs), MAX_WAIT_MS);
}

/** Settles as `work` does, or rejects as soon as the signal aborts; what `work` does afterwards is ignored. */
export async function orAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  let onAbort: () => void = () => undefined;
  const aborted = new Promise<never>((_, reject) => {
    onAbort = () => reject(signal.reason);
    signal.addEventListener('abort', onAbort);
  });
  try {
    return await Promise.race([work, aborted]);
  } finally {
    signal.removeEventListener('abort', onAbort);
    leave(work);
  }
}

/** `Results.wait`, by `waitUntil`, which resolves with the result or rejects when the signal aborts. */
export async function waitFor(
  uri: string,
  { timeoutMs, signal }: WaitOptions,
  waitUntil: (stop: AbortSignal) => Promise<Result>,
): Promise<Result> {
  const timeout = AbortSignal.timeout(assertWaitMs(timeoutMs));
  const stop = signal ? AbortSignal.any([timeout, signal]) : timeout;
  try {
    return await orAborted(waitUntil(stop), stop);
  } catch (error) {
    if (signal?.aborted) throw signal.reason;
    if (timeout.aborted) throw new ServingError('timeout', `no result after ${timeoutMs} ms`, { uri });
    throw error;
  }
}

/** `Results.getWithin`. */
export async function getWithin(
  results: Pick<Results, 'get' | 'wait'>,
  uri: string,
  timeoutMs: number,
  query: Omit<WaitOptions, 'timeoutMs'>,
): Promise<Result | undefined> {
  if (timeoutMs === 0) return results.get(uri, query);
  return results.wait(uri, { ...query, timeoutMs }).catch((error: unknown) => {
    if (error instanceof ServingError && error.code === 'timeout') return undefined;
    throw error;
  });
}
