/**
 * In: records that were delivered before and got no outcome, and a process of its own to run them in. Out: an outcome
 * each; a record that kills the process or never ends is found, and its neighbours get their results.
 * Trap: one that takes too long may only be slow. It is given up for good only after it had all of the function's time.
 */
import type { Inputs, Outcome, Runner } from '../contract/values.ts';
import { ServingError } from '../errors.ts';
import type { RunTime } from './time.ts';

type FencedRun = NonNullable<Runner['fenced']>;

/** The first time all together: mostly it was Redis that was away, and nothing is wrong with them. */
const TOGETHER_SHARE = 1 / 3;
/** Less is not enough to start a process and load a model. */
const LEAST_MS = 500;
/** From here on a record has had the function's time. */
const FULL_SHARE = 0.8;

/**
 * @param tries how often they were delivered. Every other time the first of them gets all the time there is, so that a
 *   slow one ends and an endless one is known; the times between, every one gets a turn.
 * @throws what opening the model throws; then nothing is decided about any of them
 */
export async function runSuspects(
  records: readonly Inputs[],
  run: FencedRun,
  { remainingMs, fullMs }: RunTime,
  tries: number,
): Promise<Outcome[]> {
  if (records.length === 0) return [];
  if (records.length > 1 && tries <= 2) {
    try {
      return await run(records, remainingMs() * TOGETHER_SHARE);
    } catch (error) {
      if (!isGuilt(error)) throw error;
    }
  }
  const wholeTime = tries > 2 && tries % 2 === 1;
  const outcomes: Outcome[] = [];
  for (const [i, record] of records.entries()) {
    const leftMs = remainingMs();
    // Half of what is left: as many endless ones as there may be, the next always gets a turn.
    const limitMs = i === 0 && wholeTime ? leftMs : leftMs / 2;
    outcomes.push(...(await runAlone(record, run, limitMs, fullMs)));
  }
  return outcomes;
}

async function runAlone(record: Inputs, run: FencedRun, limitMs: number, fullMs: number): Promise<Outcome[]> {
  if (limitMs < LEAST_MS) {
    return [
      { ok: false, error: new ServingError('timeout', 'the function had no time left for this record') },
    ];
  }
  try {
    return await run([record], limitMs);
  } catch (error) {
    if (!isGuilt(error)) throw error;
    const hadItsTime = error.code === 'timeout' && limitMs >= fullMs * FULL_SHARE;
    return [{ ok: false, error: hadItsTime ? new ServingError('model_failed', error.message) : error }];
  }
}

/** Of a run behind a fence: the records did it, and not the model's absence. */
export function isGuilt(error: unknown): error is ServingError {
  return error instanceof ServingError && (error.code === 'timeout' || error.code === 'model_failed');
}
