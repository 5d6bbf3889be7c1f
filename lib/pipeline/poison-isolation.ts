/**
 * Runs redelivered records in a separate process, finds the one that kills it or never ends, and gives the others
 * their results. A slow record is given up only after it had all of the function's time, not counting the start of
 * the process and the opening of the model.
 */
import { modelUnavailable, ServingError } from '../contract/errors.ts';
import type { Inputs, Outcome, Runner } from '../contract/values.ts';
import { type Deadline, noTimeLeft } from './deadline.ts';

type RunIsolated = NonNullable<Runner['runIsolated']>;

/** First they run together: usually Redis was unavailable, and nothing is wrong with the records. */
const TOGETHER_SHARE = 1 / 3;
/** With less time no run is started: a timeout ends the process, and starting another costs more than such a run. */
const LEAST_MS = 50;
/** A record that had this share had the function's time. */
const FULL_SHARE = 0.8;

/**
 * @param attempts how often they were tried, this time included. Every other time the first record gets all the time, so that a
 * slow one finishes and an endless one is found; in between, all of them get a turn.
 * @param begin called with places of records before they run, when the process is ready and there is time for them
 * @throws errors of opening the model, which decide nothing about the records
 */
export async function runRedelivered(
  records: readonly Inputs[],
  run: RunIsolated,
  { remainingMs, fullMs }: Deadline,
  attempts: number,
  begin: (places: readonly number[]) => Promise<void> = async () => undefined,
): Promise<Outcome[]> {
  if (records.length === 0) return [];
  const absent = await absence(run, remainingMs());
  if (absent) return records.map(() => absent);
  let isReady = true;
  if (records.length > 1 && attempts <= 2 && remainingMs() * TOGETHER_SHARE >= LEAST_MS) {
    await begin([...records.keys()]);
    try {
      return await run(records, remainingMs() * TOGETHER_SHARE);
    } catch (error) {
      if (!isRecordFault(error)) throw error;
      isReady = false;
    }
  }
  const wholeTime = attempts > 2 && attempts % 2 === 1;
  const outcomes: Outcome[] = [];
  for (const [i, record] of records.entries()) {
    const gone = isReady ? undefined : await absence(run, remainingMs());
    if (gone) return [...outcomes, ...records.slice(i).map(() => gone)];
    isReady = true;
    // Half of the remaining time, so that the next record gets a turn however many are endless.
    const share = i === 0 && wholeTime ? 1 : 1 / 2;
    if (remainingMs() * share < LEAST_MS) {
      outcomes.push(late());
      continue;
    }
    await begin([i]);
    // A counted run did run, even if counting took all the time.
    const alone = await runAlone(record, run, Math.max(LEAST_MS, remainingMs() * share), fullMs);
    isReady = !alone.endedProcess;
    outcomes.push(...alone.outcomes);
  }
  return outcomes;
}

/**
 * Starts the process if there is none, outside any record's time limit.
 * @returns undefined when it is ready; else the outcome of every waiting record, which is delivered again
 */
async function absence(run: RunIsolated, limitMs: number): Promise<Outcome | undefined> {
  if (limitMs < LEAST_MS) return late();
  try {
    await run([], limitMs);
    return undefined;
  } catch (error) {
    if (!isRecordFault(error)) throw error;
    if (error.code === 'timeout') return late();
    return { ok: false, error: modelUnavailable(error.message, { cause: error }) };
  }
}

function late(): Outcome {
  return { ok: false, error: noTimeLeft() };
}

interface Alone {
  readonly outcomes: readonly Outcome[];
  readonly endedProcess: boolean;
}

async function runAlone(record: Inputs, run: RunIsolated, limitMs: number, fullMs: number): Promise<Alone> {
  try {
    return { outcomes: await run([record], limitMs), endedProcess: false };
  } catch (error) {
    if (!isRecordFault(error)) throw error;
    const hadItsTime = error.code === 'timeout' && limitMs >= fullMs * FULL_SHARE;
    const verdict = hadItsTime ? new ServingError('model_failed', error.message) : error;
    return { outcomes: [{ ok: false, error: verdict }], endedProcess: true };
  }
}

/** True when the records caused the failure of an isolated run, false when the model could not be opened. */
export function isRecordFault(error: unknown): error is ServingError {
  return error instanceof ServingError && (error.code === 'timeout' || error.code === 'model_failed');
}
