/**
 * In: how much time is left. Out: the word that there is none for another step, said before it begins.
 * Trap: a step cannot be broken off: what begins too late takes its neighbours' results with it. So the longest step so
 * far counts as the length of the next.
 */

/**
 * @param remainingMs how long the steps may still take together
 * @returns to be asked before each step: true when it must not begin
 */
export function keepTime(remainingMs: () => number): () => boolean {
  let lastMs = remainingMs();
  let longestMs = 0;
  return () => {
    const leftMs = remainingMs();
    longestMs = Math.max(longestMs, lastMs - leftMs);
    lastMs = leftMs;
    return leftMs <= longestMs;
  };
}

/** How much time a function has for its records, without what it needs to save their results. */
export interface RunTime {
  readonly remainingMs: () => number;
  /** When it has just begun. */
  readonly fullMs: number;
}

/** Saving may find Redis away and connect anew: two seconds; and one to answer. */
const MOST_RESERVE_MS = 3_000;
const RESERVE_SHARE = 0.1;
/** Where nobody tells of a limit. */
const UNLIMITED_MS = 15 * 60 * 1000;

/** @param context what Lambda says at the start of an event; undefined where nothing stops the function */
export function runTime(context: { getRemainingTimeInMillis(): number } | undefined): RunTime {
  if (!context) return { remainingMs: () => UNLIMITED_MS, fullMs: UNLIMITED_MS };
  const wholeMs = context.getRemainingTimeInMillis();
  const reserveMs = Math.min(MOST_RESERVE_MS, wholeMs * RESERVE_SHARE);
  return {
    remainingMs: () => Math.max(0, context.getRemainingTimeInMillis() - reserveMs),
    fullMs: wholeMs - reserveMs,
  };
}
