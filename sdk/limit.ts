/** Every call of a client ends: at its time limit, or when its signal is aborted, even if the other side hangs. */
import { ServingError } from '../lib/contract/errors.ts';
import { assertWaitMs } from '../lib/results/wait-deadline.ts';

export interface CallOptions {
  /** Time for the whole call, in ms. */
  readonly timeoutMs?: number | undefined;
  /** Ends the call, which then throws the signal's reason. */
  readonly signal?: AbortSignal | undefined;
}

export interface Limit {
  /** Default: none. */
  readonly timeoutMs?: number;
  readonly signal?: AbortSignal | null | undefined;
  /** The text of the error `timeout`, followed by the milliseconds. */
  readonly what?: string;
  /** The record that it is about. */
  readonly uri?: string | undefined;
}

/**
 * @param work gets a signal that aborts in both cases; what it does afterwards is ignored
 * @throws timeout; the reason of `signal`; bad_request for a limit that is none
 */
export async function limited<T>(
  { timeoutMs = Infinity, signal, what, uri }: Limit,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const limitMs = assertWaitMs(timeoutMs);
  signal?.throwIfAborted();
  const end = new AbortController();
  const onAbort = () => end.abort(signal?.reason);
  signal?.addEventListener('abort', onAbort);
  const late = () => end.abort(new ServingError('timeout', `${what} ${Math.ceil(timeoutMs)} ms`, { uri }));
  const timer = setTimeout(late, limitMs);
  try {
    return await new Promise<T>((resolve, reject) => {
      end.signal.addEventListener('abort', () => reject(end.signal.reason));
      work(end.signal).then(resolve, reject);
    });
  } finally {
    clearTimeout(timer);
    signal?.removeEventListener('abort', onAbort);
  }
}

/** In ms, of a clock that is never set. */
export const now = (): number => performance.now();

/** @throws the signal's reason */
export function sleep(ms: number, signal?: AbortSignal | null): Promise<void> {
  return limited({ signal }, () => new Promise((resolve) => setTimeout(resolve, ms)));
}
