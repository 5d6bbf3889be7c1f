/** Waits until a condition holds, or fails the test at the deadline. */
const PAUSE_MS = 20;
/** Set by test/mutants/run.ts, where many a bug is something that never comes. */
const MOST_MS = Number(process.env['TEST_UNTIL_MS'] ?? Number.POSITIVE_INFINITY);

/** @param pauseMs between two checks; use more if a check slows down the awaited work */
export async function until(
  condition: () => Promise<boolean> | boolean,
  deadlineMs = 90_000,
  pauseMs = PAUSE_MS,
): Promise<void> {
  const limitMs = Math.min(deadlineMs, MOST_MS);
  const endAt = performance.now() + limitMs;
  while (!(await condition())) {
    if (performance.now() > endAt) throw new Error(`the condition did not hold within ${limitMs} ms`);
    await new Promise((resolve) => setTimeout(resolve, pauseMs));
  }
}
