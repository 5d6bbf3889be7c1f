/**
 * Calls `work` for each number below `count`, some at a time. When one fails the others are called off, and all have ended when it
 * throws, so that none goes on to write.
 * @throws the signal's reason, the first error
 */
export async function someAtATime(
  count: number,
  atOnce: number,
  signal: AbortSignal | undefined,
  work: (number: number, signal: AbortSignal) => Promise<void>,
): Promise<void> {
  const failed = new AbortController();
  const either = signal ? AbortSignal.any([signal, failed.signal]) : failed.signal;
  let next = 0;
  const pull = async () => {
    while (next < count && !either.aborted) await work(next++, either);
  };
  const pulls = Array.from({ length: Math.min(atOnce, count) }, pull);
  for (const pulling of pulls) pulling.catch((error: unknown) => failed.abort(error));
  await Promise.allSettled(pulls);
  signal?.throwIfAborted();
  failed.signal.throwIfAborted();
}
