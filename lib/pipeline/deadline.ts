/**
 * Decides, before each step, whether enough time is left to run it. A step cannot be interrupted, and one that begins too
 * late takes its neighbours' results with it, so the longest step so far counts as the length of the next.
 */

import { ServingError } from '../contract/errors.ts';

/** How much time a function has for its records, without what it needs to save their results. */
export interface Deadline {
  readonly remainingMs: () => number;
  /** What remained when the event had just begun. */
  readonly fullMs: number;
}

/** What Lambda says of an invocation. */
export interface InvocationClock {
  getRemainingTimeInMillis(): number;
}

/** Saving may find Redis away and connect anew: two seconds; and one to answer. */
const MOST_RESERVE_MS = 3_000;
const RESERVE_SHARE = 0.1;
/** Where nothing sets a limit. */
const UNLIMITED_MS = 15 * 60 * 1000;

/** Of an event of the queue. @param clock undefined where nothing stops the function */
export function deadlineOf(clock: InvocationClock | undefined): Deadline {
  if (!clock) return { remainingMs: () => UNLIMITED_MS, fullMs: UNLIMITED_MS };
  const wholeMs = clock.getRemainingTimeInMillis();
  const reserveMs = Math.min(MOST_RESERVE_MS, wholeMs * RESERVE_SHARE);
  return {
    remainingMs: () => Math.max(0, clock.getRemainingTimeInMillis() - reserveMs),
    fullMs: wholeMs - reserveMs,
  };
}

/**
 * @param remainingMs how long the steps may still take together
 * @returns a check to call before each step; true when the step must not begin
 */
export function deadlineCheck(remainingMs: () => number): () => boolean {
  let lastMs = remainingMs();
  let longestMs = 0;
  return () => {
    const leftMs = remainingMs();
    longestMs = Math.max(longestMs, lastMs - leftMs);
    lastMs = leftMs;
    return leftMs <= longestMs;
  };
}

/** `deadlineCheck` of a request, which has nothing to save. @param clock undefined where nothing stops the function */
export function requestDeadline(clock: InvocationClock | undefined): () => boolean {
  return clock ? deadlineCheck(() => clock.getRemainingTimeInMillis()) : () => false;
}

/** The error of a queued record that there is no time for; it is retryable. */
export function noTimeLeft(): ServingError {
  return new ServingError('timeout', 'the function had no time left for this record');
}
