/**
 * Runs work that Ctrl-C and TERM can interrupt, with one line of output and the usual exit code. The work is aborted
 * so that it can remove its files; a second signal ends the process at once.
 */
import { ServingError } from '../lib/contract/errors.ts';
import type { Output } from './output.ts';

/** 128 plus the signal's number. */
const EXITS = { SIGINT: 130, SIGTERM: 143 } as const;

type Stop = keyof typeof EXITS;
type Work = (signal: AbortSignal) => Promise<number>;

/** @param what is interrupted, for the message: "the import" */
export async function interruptible(what: string, output: Output, work: Work): Promise<number> {
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
    output.failure(known.code === 'cancelled' ? known : stop.signal.reason);
    return EXITS[first];
  } finally {
    process.off('SIGINT', onSignal).off('SIGTERM', onSignal);
  }
}
