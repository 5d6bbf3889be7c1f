/**
 * Checks a wait's length, and ends waiting when a signal aborts. `NaN` and strings compare as false with everything, so
 * a loop that only asks "is it over yet" would never end.
 */
import { badRequest } from '../contract/errors.ts';

/** The longest time a timer takes: 24 days. */
const MAX_WAIT_MS = 2 ** 31 - 1;

/** @throws bad_request for anything but a number >= 0 */
export function assertWaitMs(timeoutMs: number): number {
  if (typeof timeoutMs !== 'number' || !(timeoutMs >= 0)) {
    throw badRequest(`timeoutMs: expected a number of ms >= 0, got ${String(timeoutMs)}`);
  }
  return Math.min(Math.ceil(timeoutMs), MAX_WAIT_MS);
}

/** `work`, but not longer than the signal allows; what `work` still does afterwards is ignored. */
export async function orAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  let onAbort: () => void = () => undefined;
  const aborted = new Promise<never>((_, reject) => {
    onAbort = () => reject(signal.reason as Error);
    signal.addEventListener('abort', onAbort);
  });
  try {
    return await Promise.race([work, aborted]);
  } finally {
    signal.removeEventListener('abort', onAbort);
    work.catch(() => undefined);
  }
}
