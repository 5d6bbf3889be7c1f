/** Many calls at once, with a bounded number in flight. */

/** The next one of any iterable. */
export function iteratorOf<T>(items: Iterable<T> | AsyncIterable<T>): Iterator<T> | AsyncIterator<T> {
  return Symbol.asyncIterator in items ? items[Symbol.asyncIterator]() : items[Symbol.iterator]();
}

/**
 * Calls for the items, `width` at a time, and yields what the calls resolve to in the order of the items, as soon as it is
 * there, even if the next item is not.
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
        flying.shift();
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
