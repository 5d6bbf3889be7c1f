/** Where results are read, and the large ones among them, whose values are elsewhere. */
import type { EnqueueQuery, TakeQuery } from '../../lib/contract/enqueue.ts';
import { ServingError, withUri } from '../../lib/contract/errors.ts';
import {
  type Dequeued,
  idOfLarge,
  type LargePointer,
  type RecordStatus,
  type Result,
} from '../../lib/contract/result.ts';

/** Where results are: behind the HTTPS API, or in Redis. */
export interface ResultSource {
  get(uri: string, query: EnqueueQuery, signal?: AbortSignal): Promise<Result | undefined>;
  take(uri: string, query: TakeQuery, signal?: AbortSignal): Promise<Result | undefined>;
  wait(
    uri: string,
    options: EnqueueQuery & { readonly timeoutMs: number; readonly signal?: AbortSignal | undefined },
  ): Promise<Result>;
  drain(): AsyncGenerator<Dequeued>;
  status(uri: string, query: EnqueueQuery, signal?: AbortSignal): Promise<RecordStatus>;
  cancel(uri: string, signal?: AbortSignal): Promise<boolean>;
  /** A large result with its values. */
  whole(result: Result, large: LargePointer, signal?: AbortSignal): Promise<Result>;
  close(): Promise<void>;
}

/** With its values, which are elsewhere when there are many. @throws with the uri, as if the record could not be read */
export async function whole<R extends Result | undefined>(
  source: ResultSource,
  result: R,
  signal?: AbortSignal,
): Promise<R | Result> {
  if (!result?.large) return result;
  try {
    return await source.whole(result, result.large, signal);
  } catch (error) {
    signal?.throwIfAborted();
    throw withUri(error, result.uri);
  }
}

/**
 * Takes a large result that has been fetched.
 * @returns false when another client took it, or a later result took its place. When that cannot be known, it is taken:
 *   it would be lost if it were not used
 */
export async function isTaken(source: ResultSource, { uri }: Result, large: LargePointer): Promise<boolean> {
  return source.take(uri, { fetched: idOfLarge(large) }).then(
    (taken) => taken !== undefined,
    () => true,
  );
}

/** @returns undefined for a large result that another client took */
export async function dequeuedOf(
  source: ResultSource,
  one: Dequeued,
  signal: AbortSignal,
): Promise<Dequeued | undefined> {
  if ('error' in one || !one.result.large) return one;
  const { uri, result } = one;
  try {
    const found = await whole(source, result, signal);
    return (await isTaken(source, result, one.result.large)) ? { uri, result: found } : undefined;
  } catch (error) {
    const known = ServingError.from(error);
    return known.code === 'not_found' ? undefined : { uri, error: known };
  }
}
