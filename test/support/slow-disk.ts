/** A disk that takes its time, on which what does not wait for one step before the next is seen. */
import promises from 'node:fs/promises';
import { syncBuiltinESMExports } from 'node:module';
import type { TestContext } from 'node:test';
import { setImmediate } from 'node:timers/promises';

type Step = 'mkdir' | 'rename' | 'rm' | 'writeFile';

/** Longer than any step takes that waits for nothing. */
async function laterTurns(): Promise<void> {
  for (let turn = 0; turn < 20; turn++) await setImmediate();
}

/** @param before what a step waits for, by its path; default: some turns of the event loop */
export function slowDisk(
  t: TestContext,
  steps: readonly Step[],
  before: (path: string) => Promise<void> | void = laterTurns,
): void {
  const mocked = steps.map((step) => {
    const real = promises[step] as (path: string, ...rest: unknown[]) => Promise<unknown>;
    const slow = async (path: string, ...rest: unknown[]) => {
      await before(path);
      return real(path, ...rest);
    };
    return t.mock.method(promises, step, slow as never);
  });
  syncBuiltinESMExports();
  t.after(() => {
    for (const { mock } of mocked) mock.restore();
    syncBuiltinESMExports();
  });
}
