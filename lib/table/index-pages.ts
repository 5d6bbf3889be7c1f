/**
 * Walks the index of results, a secondary index of the table: eight lists by expiry, of the uris that `dequeue` finds. DynamoDB
 * writes it a moment after the item, so it may lack what has just finished and name what was just taken; who takes decides.
 */
import type { TableConnection } from './connection.ts';
import type { Entries } from './entries.ts';
import { attributeOf, Expression, type Item, itemOf } from './items.ts';

/** As in infra/stack/redis/dynamodb.yml. */
export const INDEX = 'listed';

/** One list, and the entries of it that were read and not walked yet. */
interface List {
  readonly name: string;
  ahead: Item[];
  /** Undefined: the list has ended. */
  from: Item | undefined;
}

/**
 * The uris with results, page by page, the first to expire first.
 * @param count the most uris of a page
 * @param maxBytes the most bytes of their results together; a larger one comes alone
 * @throws results_unavailable
 */
export async function* indexPages(
  connection: TableConnection,
  entries: Entries,
  count: number,
  maxBytes: number,
): AsyncGenerator<string[]> {
  const lists: List[] = entries.lists.map((name) => ({ name, ahead: [], from: {} }));
  for (;;) {
    await Promise.all(lists.map((list) => read(connection, list, entries.now(), count)));
    const page: string[] = [];
    let left = maxBytes;
    while (page.length < count) {
      const next = first(lists);
      const item = next?.ahead[0];
      if (!next || !item) break;
      left -= Number(item['bytes'] ?? 0);
      if (left < 0 && page.length > 0) break;
      next.ahead.shift();
      page.push(entries.uriOf(String(item['id'])));
    }
    if (page.length === 0) return;
    yield page;
  }
}

/** The list whose next uri expires first. */
function first(lists: readonly List[]): List | undefined {
  const endOf = ({ ahead: [item] }: List) => (item ? Number(item['resultUntil']) : Number.POSITIVE_INFINITY);
  return lists.reduce((least, list) => (endOf(list) < endOf(least) ? list : least));
}

async function read(connection: TableConnection, list: List, now: number, count: number): Promise<void> {
  if (list.ahead.length > 0 || !list.from) return;
  const expression = new Expression();
  const name = `${expression.name('list')} = ${expression.value(list.name)}`;
  const hasNotEnded = `${expression.name('resultUntil')} > ${expression.value(now)}`;
  const isFirst = Object.keys(list.from).length === 0;
  const start = Object.entries(list.from).map(([key, value]) => [key, attributeOf(value)]);
  const { Items = [], LastEvaluatedKey } = await connection.call('Query', {
    IndexName: INDEX,
    KeyConditionExpression: `${name} AND ${hasNotEnded}`,
    Limit: count,
    ...(isFirst ? {} : { ExclusiveStartKey: Object.fromEntries(start) }),
    ...expression.input,
  });
  list.ahead = Items.map(itemOf);
  list.from = LastEvaluatedKey && itemOf(LastEvaluatedKey);
}
