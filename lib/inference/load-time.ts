/** The time that an invocation gives to loading a model. Lambda freezes what is left running, so it is stopped and not left. */
import { modelUnavailable, ServingError } from '../contract/errors.ts';

export interface LoadTime {
  /** Aborts when the time is over. */
  readonly signal: AbortSignal;
  /** True if enough time is left to open a session after a download that took this long. Opening cannot be stopped. */
  readonly mayOpen: () => boolean;
}

/** The time of a load was over before it ended. Another attempt continues it. */
export class LoadStopped extends ServingError {
  /** True if this attempt got further than the one before. */
  readonly progressed: boolean;

  constructor(message: string, { progressed }: { readonly progressed: boolean }) {
    super('timeout', message);
    this.progressed = progressed;
  }
}

/** @param ms undefined, or infinite: without a limit. The signal's reason is LoadStopped */
export function withinTime<T>(
  ms: number | undefined,
  work: (signal?: AbortSignal) => Promise<T>,
): Promise<T> {
  return ms === undefined || ms === Number.POSITIVE_INFINITY ? work() : limited(ms, work);
}

async function limited<T>(ms: number, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
  const stop = new AbortController();
  const limitMs = Math.max(0, Math.round(ms));
  const late = () =>
    stop.abort(new LoadStopped(`no answer of S3 within ${limitMs} ms`, { progressed: false }));
  const timer = setTimeout(late, limitMs);
  try {
    return await work(stop.signal);
  } finally {
    clearTimeout(timer);
  }
}

/** Settles as `work` does, or rejects when the time is over, and `work` goes on. @throws the signal's reason */
export async function waitWithin<T>(signal: AbortSignal | undefined, work: Promise<T>): Promise<T> {
  if (!signal) return work;
  const over = Promise.withResolvers<never>();
  const onAbort = () => over.reject(signal.reason);
  if (signal.aborted) onAbort();
  signal.addEventListener('abort', onAbort);
  try {
    return await Promise.race([work, over.promise]);
  } finally {
    signal.removeEventListener('abort', onAbort);
  }
}

/** @throws timeout with `what` */
export async function within<T>(limitMs: number, work: Promise<T>, what: string, where = ''): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    const message = `${what} within ${Math.round(limitMs)} ms${where}`;
    timer = setTimeout(() => reject(new ServingError('timeout', message)), limitMs);
  });
  // A result after its limit has no reader.
  work.catch(() => undefined);
  return Promise.race([work, late]).finally(() => clearTimeout(timer));
}

/** @returns an error of ours unchanged; another becomes model_unavailable */
export function asModelError(error: unknown): ServingError {
  const known = ServingError.from(error);
  if (known.code !== 'internal') return known;
  return modelUnavailable(`the model cannot be loaded: ${known.message}`, { cause: error });
}
