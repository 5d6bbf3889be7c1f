/**
 * The clock of the queue's invocations. On Lambda each has an environment of its own; here their records wait for a
 * process behind requests. That does not count as function time; otherwise good records would run out of time and
 * attempts.
 */
import { AsyncLocalStorage } from 'node:async_hooks';
import type { Model, Runner } from '../../lib/contract/values.ts';

export interface QueuedModel {
  readonly model: Model;
  /** The same of another model, for the same invocations. */
  readonly timed: (model: Model) => Model;
  /** Runs an invocation with its own clock. */
  readonly invoke: <T>(work: () => Promise<T>) => Promise<T>;
  /** The clock inside an invocation in ms, without the time for which all its records waited. */
  readonly functionClock: () => number;
}

/** How long an invocation has waited in ms, and since when it is waiting now. */
interface Waits {
  waitedMs: number;
  sinceMs?: number | undefined;
}

/**
 * Runs in an isolated process do not wait.
 * @param now a clock in ms
 * @param mostMs waiting that is not counted; more would outlast the time for which the messages are hidden
 */
export function withoutWaits(model: Model, now: () => number, mostMs: number): QueuedModel {
  const invocations = new AsyncLocalStorage<Waits>();
  const run = async (runner: Runner, ...[records, policy]: Parameters<Runner['run']>) => {
    const waits: Waits = invocations.getStore() ?? { waitedMs: 0 };
    const onWait = (isWaiting: boolean) => {
      if (waits.sinceMs !== undefined) waits.waitedMs += now() - waits.sinceMs;
      waits.sinceMs = isWaiting ? now() : undefined;
    };
    onWait(true);
    try {
      return await runner.run(records, { ...policy, onWait });
    } finally {
      onWait(false);
    }
  };
  const timedUse = (one: Pick<Model, 'use'>): Pick<Model, 'use'> => ({
    use: (work) => one.use((runner) => work(replaced(runner, run))),
  });
  const timed = (one: Model): Model => ({
    ...timedUse(one),
    get canary() {
      const { canary } = one;
      return canary && { ...canary, model: timedUse(canary.model) };
    },
  });
  return {
    model: timed(model),
    timed,
    invoke: (work) => invocations.run({ waitedMs: 0 }, work),
    functionClock: () => {
      const { waitedMs = 0, sinceMs } = invocations.getStore() ?? {};
      const waitsMs = sinceMs === undefined ? 0 : now() - sinceMs;
      return now() - Math.min(mostMs, waitedMs + waitsMs);
    },
  };
}

/** The runner with another `run`. A copy would lose the methods of a class instance. */
function replaced(
  runner: Runner,
  run: (runner: Runner, ...parameters: Parameters<Runner['run']>) => ReturnType<Runner['run']>,
): Runner {
  const runIsolated = runner.runIsolated?.bind(runner);
  return {
    version: runner.version,
    run: (...parameters) => run(runner, ...parameters),
    ...(runIsolated ? { runIsolated } : {}),
    // A batch asks what the model serves.
    ...(runner.inputs ? { inputs: runner.inputs } : {}),
    ...(runner.outputs ? { outputs: runner.outputs } : {}),
    close: () => runner.close(),
  };
}
