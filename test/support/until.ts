/** Waits until a condition holds, or fails the test at the deadline. */
const PAUSE_MS = 20;

export async function until(condition: () => Promise<boolean> | boolean, deadlineMs = 90_000): Promise<void> {
  const endAt = performance.now() + deadlineMs;
  while (!(await condition())) {
    if (performance.now() > endAt) throw new Error(`the condition did not hold within ${deadlineMs} ms`);
    await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
  }
}
