/**
 * Runs the queue's batches in slices of bounded time, each of which waits in the run queue, so that a request waits
 * for a slice rather than for a batch. The size of a slice follows from the time per record in the previous one.
 * Waiting in the run queue does not count as function time; otherwise good records would run out of time and
 * attempts.
 */
import { AsyncLocalStorage } from 'node:async_hooks';
import type { Inputs, Outcome, Runner, RunPolicy } from '../lib/contract/values.ts';
import type { ModelManager } from '../lib/inference/model-manager.ts';
import type { RunQueue } from './run-queue.ts';

type Model = Pick<ModelManager, 'use'>;
type Line = Pick<RunQueue, 'runSlice' | 'sliceLimitMs'>;

/** The resolution of a clock. */
const LEAST_RECORD_MS = 0.001;

interface TimeSlices {
  readonly model: Model;
  /** Runs an invocation with its own clock. */
  readonly invoke: <T>(work: () => Promise<T>) => Promise<T>;
  /** The clock inside an invocation in ms, without the time its slices waited. */
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
 */
export function inTimeSlices(model: Model, line: Line, now: () => number): TimeSlices {
  const invocations = new AsyncLocalStorage<Waits>();
  const begin = (waits: Waits) => {
    waits.sinceMs = now();
  };
  const end = (waits: Waits) => {
    waits.waitedMs += now() - (waits.sinceMs ?? now());
    waits.sinceMs = undefined;
  };
  /** The time per record of the last slice. The first slice is one record. */
  let recordMs = Number.POSITIVE_INFINITY;

  const slice = async (runner: Runner, left: readonly Inputs[], options?: RunPolicy) => {
    const count = Math.max(1, Math.floor(line.sliceLimitMs / recordMs));
    const records = left.slice(0, count);
    const startedMs = now();
    const outcomes = await runner.run(records, options);
    // Records that fail immediately do not predict the next ones, so a slice is at most twice the last.
    const least = Number.isFinite(recordMs) ? recordMs / 2 : LEAST_RECORD_MS;
    recordMs = Math.max(LEAST_RECORD_MS, least, (now() - startedMs) / records.length);
    return { outcomes, left: left.slice(records.length) };
  };
  const run = async (runner: Runner, records: readonly Inputs[], options?: RunPolicy) => {
    const all: Outcome[] = [];
    const waits: Waits = invocations.getStore() ?? { waitedMs: 0 };
    const taken = async (left: readonly Inputs[]) => {
      end(waits);
      try {
        return await slice(runner, left, options);
      } finally {
        // Starts here, because another slice may get the thread before the awaiting code continues.
        begin(waits);
      }
    };
    begin(waits);
    try {
      for (let left = records; left.length > 0; ) {
        const ran = await line.runSlice(() => taken(left));
        all.push(...ran.outcomes);
        left = ran.left;
      }
      return all;
    } finally {
      end(waits);
    }
  };
  return {
    model: { use: (work) => model.use((runner) => work(replaced(runner, run))) },
    invoke: (work) => invocations.run({ waitedMs: 0 }, work),
    functionClock: () => {
      const { waitedMs = 0, sinceMs } = invocations.getStore() ?? {};
      return (sinceMs ?? now()) - waitedMs;
    },
  };
}

/** The runner with another `run`. A copy would lose the methods of a class instance. */
function replaced(
  runner: Runner,
  run: (runner: Runner, records: readonly Inputs[], options?: RunPolicy) => Promise<Outcome[]>,
): Runner {
  const runIsolated = runner.runIsolated?.bind(runner);
  return {
    version: runner.version,
    run: (records, options) => run(runner, records, options),
    ...(runIsolated ? { runIsolated } : {}),
    close: () => runner.close(),
  };
}
