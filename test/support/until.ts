/** Waits until a condition holds, or fails the test at the deadline. */
const PAUSE_MS = 20;

/** @param pauseMs between two looks; longer where looking costs what is waited for */
export async function until(
  condition: () => Promise<boolean> | boolean,
  deadlineMs = 90_000,
  pauseMs = PAUSE_MS,
): Promise<void> {
  const endAt = performance.now() + deadlineMs;
  while (!(await condition())) {
    if (performance.now() > endAt) throw new Error(`the condition did not hold within ${deadlineMs} ms`);
    await new Promise((resolve) => setTimeout(resolve, pauseMs));
  }
}
