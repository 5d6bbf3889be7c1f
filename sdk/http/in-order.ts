/** Many calls at once, with a bounded number in flight. */
import { limited } from '../limit.ts';

/** The next one of any iterable. */
function iteratorOf<T>(items: Iterable<T> | AsyncIterable<T>): Iterator<T> | AsyncIterator<T> {
  return Symbol.asyncIterator in items ? items[Symbol.asyncIterator]() : items[Symbol.iterator]();
}

/**
 * Calls for the items, `width` at a time, and yields the results in the order of the items, each as soon as it is
 * there, even if the next is not.
 */
export async function* inOrder<A, B>(
  items: Iterable<A> | AsyncIterable<A>,
  width: number,
  call: (item: A) => Promise<B>,
): AsyncGenerator<B> {
  const iterator = iteratorOf(items);
  const flying: Promise<B>[] = [];
  let reading: Promise<IteratorResult<A>> | undefined;
  let isRead = false;
  try {
    while (!isRead || flying.length > 0) {
      if (!isRead && flying.length < width) reading ??= (async () => iterator.next())();
      const [first] = flying;
      const item = await Promise.race([
        ...(reading ? [reading] : []),
        ...(first ? [first.then(() => undefined)] : []),
      ]);
      if (item === undefined) {
        void flying.shift();
        yield (await first) as B;
        continue;
      }
      reading = undefined;
      if (item.done) isRead = true;
      else flying.push(call(item.value));
    }
  } finally {
    for (const one of [...flying, ...(reading ? [reading] : [])]) one.catch(() => undefined);
    if (!isRead) void iterator.return?.();
  }
}

/** The items, until the signal is aborted, even if the next one never comes. */
export async function* stoppable<T>(
  items: Iterable<T> | AsyncIterable<T>,
  signal: AbortSignal | undefined,
): AsyncGenerator<T> {
  const iterator = iteratorOf(items);
  try {
    for (;;) {
      const next = async () => iterator.next();
      const { done, value } = await (signal ? limited({ signal }, next) : next());
      if (done) return;
      yield value;
    }
  } finally {
    void iterator.return?.();
  }
}
