/**
 * In: work that takes its time. Out: its exit code; or, after Ctrl-C or TERM, one line and the code a shell expects.
 * Trap: what the work put on disk must go first, so it is asked to end, not ended. A second signal waits for nothing.
 */
import { ServingError } from '../lib/contract/errors.ts';
import type { Output } from './output.ts';

/** 128 and the signal's number. */
const EXITS = { SIGINT: 130, SIGTERM: 143 } as const;

type Stop = keyof typeof EXITS;

/** @param what is called off, for the line: "the import" */
export async function interruptible(
  what: string,
  output: Output,
  work: (signal: AbortSignal) => Promise<number>,
): Promise<number> {
  const stop = new AbortController();
  let first: Stop | undefined;
  const onSignal = (signal: NodeJS.Signals) => {
    if (first !== undefined) process.exit(EXITS[signal as Stop]);
    first = signal as Stop;
    stop.abort(new ServingError('cancelled', `interrupted; ${what} was called off`));
  };
  process.on('SIGINT', onSignal).on('SIGTERM', onSignal);
  try {
    return await work(stop.signal);
  } catch (error) {
    if (first === undefined) throw error;
    const known = ServingError.from(error);
    output.failure(known.code === 'cancelled' ? known : (stop.signal.reason as ServingError));
    return EXITS[first];
  } finally {
    process.off('SIGINT', onSignal).off('SIGTERM', onSignal);
  }
}
