/**
 * Decides, before each step, whether enough time is left to run it. A step cannot be interrupted, and a late one
 * would lose the results of the others, so the longest step so far is taken as the length of the next.
 */
import { ServingError } from '../contract/errors.ts';
import type { Caller, RunPolicy } from '../contract/values.ts';

/** The time that a function has for its records, without the time for saving results. */
export interface Deadline {
  readonly remainingMs: () => number;
  /** The time at the start of the event. */
  readonly fullMs: number;
}

/** Lambda's data about an invocation. */
export interface InvocationClock {
  getRemainingTimeInMillis(): number;
  readonly awsRequestId?: string;
  /** Who waits for the answer. Only a single machine sees its clients leave. */
  readonly caller?: Caller | undefined;
}

/** Saving may take two seconds to reconnect to Redis, and one to answer. */
const MOST_RESERVE_MS = 3_000;
const RESERVE_SHARE = 0.1;
/** The limit if there is no clock. */
const UNLIMITED_MS = 15 * 60 * 1000;

/** The deadline of a queue event. @param clock undefined when the function has no time limit */
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
 * @param remainingMs the time left for all steps
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

/**
 * The policy of a request, which has nothing to save. Its steps begin at the first check: the wait for a model before
 * it is not a step.
 * @param clock undefined when the function has no time limit
 */
export function requestPolicy(
  clock: InvocationClock | undefined,
): Required<Pick<RunPolicy, 'isOver'>> & Pick<RunPolicy, 'caller' | 'requestId'> {
  if (!clock) return { isOver: () => false };
  const { caller } = clock;
  let check: (() => boolean) | undefined;
  const isLate = () => (check ??= deadlineCheck(() => clock.getRemainingTimeInMillis()))();
  const requestId = () => clock.awsRequestId ?? '';
  return { isOver: () => isLate() || caller?.presence === 'gone', caller, requestId };
}

/** The error of a request whose answer cannot be delivered. */
export function callerIsGone(): ServingError {
  return new ServingError('cancelled', 'the client left before the answer');
}

/** The retryable error of a queued record for which no time is left. */
export function noTimeLeft(): ServingError {
  return new ServingError('timeout', 'the function had no time left for this record');
}
