/**
 * The run stage of a worker on Lambda. What an event or a request brings is cut to batches, which run one after the
 * other in the only process of the environment. A batch ends with its invocation: otherwise Lambda would end the whole
 * environment, and with it the results of the batch's neighbors.
 */
import { ServingError } from '../contract/errors.ts';
import type { Inputs, Outcome, Runner, RunPolicy } from '../contract/values.ts';
import type { Clock } from '../pipeline/batch/batcher.ts';
import { noTimeLeft } from '../pipeline/deadline.ts';
import type { Pool, Pooled } from './pool.ts';

export interface DeployedRunnerOptions {
  readonly pool: Pick<Pool<Pooled>, 'free' | 'endBusy' | 'close'>;
  /** Runs one batch in a process of the pool. */
  readonly batches: Runner;
  readonly batchSize: number;
  /** Only neighbors with the same key share a batch. Default: all. */
  readonly keyOf?: (record: Inputs) => string;
  /** How long running batches may take when another version replaces this one, in ms. */
  readonly stopMs: number;
  readonly clock: Clock;
}

type IsOver = NonNullable<RunPolicy['isOver']>;

/** How often a batch, or the wait for a process, is compared with its deadline. */
const LOOK_MS = 50;

export function deployedRunner(options: DeployedRunnerOptions): Runner {
  const { pool, batches, stopMs, clock } = options;

  /** @returns false when the time is over, or no process is ready before */
  async function isReady(isOver: IsOver): Promise<boolean> {
    while (!isOver()) {
      if (pool.free > 0) return true;
      await new Promise<void>((resolve) => clock.after(LOOK_MS, resolve));
    }
    return false;
  }

  async function runBatch(records: readonly Inputs[], isOver: IsOver): Promise<readonly Outcome[]> {
    if (!(await isReady(isOver))) return records.map(late);
    const running = batches.run(records, { isOver });
    // A failure after the deadline is not an error of the process: its records return to the queue.
    running.catch(() => undefined);
    const deadline = deadlineOf(isOver, clock);
    const outcomes = await Promise.race([running, deadline.passed]).finally(deadline.stop);
    if (outcomes) return outcomes;
    pool.endBusy('the invocation had no time left');
    return records.map(late);
  }

  async function run(
    records: readonly Inputs[],
    { isOver = () => false, failFast = false }: RunPolicy = {},
  ): Promise<Outcome[]> {
    const outcomes: Outcome[] = [];
    for (const batch of cut(records, options)) {
      outcomes.push(...(await runBatch(batch, isOver)));
      const failed = failFast && outcomes.find(({ ok }) => !ok);
      // The request fails as a whole.
      if (failed) return records.map((_, i) => outcomes[i] ?? failed);
    }
    return outcomes;
  }

  /** The process is separate anyway; what is added is a time limit of its own. */
  async function runIsolated(records: readonly Inputs[], limitMs: number): Promise<Outcome[]> {
    const endMs = clock.now() + limitMs;
    const isOver = () => clock.now() >= endMs;
    const tooLate = () =>
      new ServingError('timeout', `the worker did not end within ${Math.round(limitMs)} ms`);
    if (!(await isReady(isOver))) throw tooLate();
    const outcomes = await run(records, { isOver });
    for (const outcome of outcomes) {
      if (outcome.ok) continue;
      if (outcome.error.code === 'timeout') throw tooLate();
      // It ended the process. The next record's time begins when there is another one.
      if (records.length === 1 && pool.free === 0) throw outcome.error;
    }
    return outcomes;
  }

  return { version: batches.version, run, runIsolated, close: () => pool.close(stopMs) };
}

function late(): Outcome {
  return { ok: false, error: noTimeLeft() };
}

function deadlineOf(isOver: IsOver, clock: Clock) {
  let stop = () => {};
  const passed = new Promise<undefined>((resolve) => {
    const look = () => {
      if (isOver()) resolve(undefined);
      else stop = clock.after(LOOK_MS, look);
    };
    stop = clock.after(LOOK_MS, look);
  });
  return { passed, stop: () => stop() };
}

function cut(
  records: readonly Inputs[],
  { batchSize, keyOf = () => '' }: Pick<DeployedRunnerOptions, 'batchSize' | 'keyOf'>,
): Inputs[][] {
  const batches: Inputs[][] = [];
  let shared: string | undefined;
  for (const record of records) {
    const key = keyOf(record);
    const last = batches.at(-1);
    if (last && key === shared && last.length < batchSize) last.push(record);
    else batches.push([record]);
    shared = key;
  }
  return batches;
}
