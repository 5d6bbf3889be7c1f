/**
 * Numbers that all environments of a job add to: measurements, and the counts of trials. Each is an item whose numbers only grow.
 * That of the measurements is divided, because one item takes 1,000 writes a second.
 */
import type { TableConnection } from './connection.ts';
import { TTL } from './entry.ts';
import { Expression, type Item, itemOf, keyOf, readItems, unlessConditionFailed } from './items.ts';

/** An end of the numbers. The table deletes late, and what has ended must not go on. */
const UNTIL = 'until';
const OWN: ReadonlySet<string> = new Set(['id', UNTIL, TTL]);
const MOST_TRIES = 5;

interface Adding {
  readonly counts: Iterable<readonly [name: string, count: number]>;
  readonly ttlMs: number;
  /** Set beside the numbers. */
  readonly set?: Item;
  /** Set if it is not there. */
  readonly setOnce?: Item;
}

/** An expression has 4 KB at most. */
const COUNTS_PER_CALL = 150;

/** @returns the item after that. May be called again after a failure, and then counts twice at worst. @throws results_unavailable */
export async function addTo(connection: TableConnection, id: string, adding: Adding): Promise<Item> {
  const counts = [...adding.counts];
  let item: Item = {};
  for (let i = 0; i === 0 || i < counts.length; i += COUNTS_PER_CALL)
    item = await addSome(connection, id, { ...adding, counts: counts.slice(i, i + COUNTS_PER_CALL) });
  return item;
}

async function addSome(connection: TableConnection, id: string, adding: Adding): Promise<Item> {
  const now = connection.now();
  const until = new Expression();
  const hasEnded = { ConditionExpression: `${until.name(UNTIL)} <= ${until.value(now)}`, ...until.input };
  for (let tries = 1; tries <= MOST_TRIES; tries++) {
    const input = { Key: keyOf(id), ReturnValues: 'ALL_NEW', ...additionOf(adding, now) };
    const answer = await connection.call('UpdateItem', input).catch(unlessConditionFailed);
    if (answer) return itemOf(answer.Attributes ?? {});
    await connection.call('DeleteItem', { Key: keyOf(id), ...hasEnded }).catch(unlessConditionFailed);
  }
  throw connection.unavailable('UpdateItem', 'the numbers end again and again');
}

function additionOf(adding: Adding, now: number): object {
  const { counts, ttlMs, set = {}, setOnce = {} } = adding;
  const expression = new Expression();
  const until = now + ttlMs;
  const sets = Object.entries({ ...set, [UNTIL]: until, [TTL]: Math.ceil(until / 1000) }).map(
    ([name, value]) => `${expression.name(name)} = ${expression.value(value)}`,
  );
  const once = Object.entries(setOnce).map(([name, value]) => {
    const placeholder = expression.name(name);
    return `${placeholder} = if_not_exists(${placeholder}, ${expression.value(value)})`;
  });
  const added = [...counts].map(([name, count]) => `${expression.name(name)} ${expression.value(count)}`);
  const end = expression.name(UNTIL);
  return {
    UpdateExpression: `SET ${[...sets, ...once].join(', ')}${added.length > 0 ? ` ADD ${added.join(', ')}` : ''}`,
    ConditionExpression: `attribute_not_exists(${end}) OR ${end} > ${expression.value(now)}`,
    ...expression.input,
  };
}

/** The items that have not ended, without what is not theirs. @throws results_unavailable */
export async function readCounters(connection: TableConnection, ids: readonly string[]): Promise<Item[]> {
  const items = await readItems(connection, ids);
  return [...items.values()]
    .filter((item) => Number(item[UNTIL]) > connection.now())
    .map((item) => Object.fromEntries(Object.entries(item).filter(([name]) => !OWN.has(name))));
}

/** Removes attributes that are out of date. @throws results_unavailable */
export async function removeFrom(
  connection: TableConnection,
  id: string,
  names: readonly string[],
): Promise<void> {
  const expression = new Expression();
  const removed = names.map((name) => expression.name(name));
  const input = { Key: keyOf(id), UpdateExpression: `REMOVE ${removed.join(', ')}`, ...expression.input };
  await connection.call('UpdateItem', input);
}
