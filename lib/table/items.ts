/**
 * Reads and changes items. A change is one conditional write: it reads an item, decides, and writes if nobody else wrote in
 * between, by the item's revision. Else it decides again. The revision also says whose the last write is, so a write whose
 * answer got lost is not taken for somebody else's.
 */
import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { type Answer, type Attribute, type Attributes, Refusal, type TableConnection } from './connection.ts';

/** An item, without types. */
export type Item = Readonly<Record<string, string | number>>;

/** The attributes that a write changes. */
export interface Change {
  readonly set: Item;
  readonly remove: readonly string[];
}

export interface Decision<T> {
  readonly answer: T;
  /** Undefined: nothing is written. */
  readonly change?: Change | undefined;
}

/** The revision of an item. */
const REVISION = 'rev';
const MOST_TRIES = 20;
const MOST_PAUSE_MS = 100;
const KEYS_PER_CALL = 100;

export interface ReadOptions {
  /** The attributes that are read, beside the revision. Default all. */
  readonly only?: readonly string[];
}

/** @returns undefined where there is none. Strongly consistent. @throws results_unavailable */
export async function readItem(
  connection: TableConnection,
  id: string,
  { only }: ReadOptions = {},
): Promise<Item | undefined> {
  const input = { Key: keyOf(id), ConsistentRead: true, ...projection(only) };
  const { Item: found } = await connection.call('GetItem', input);
  return found && itemOf(found);
}

/** Reads many items, each of which is there once. @throws results_unavailable */
export async function readItems(
  connection: TableConnection,
  ids: readonly string[],
  { only }: ReadOptions = {},
): Promise<ReadonlyMap<string, Item>> {
  const found = new Map<string, Item>();
  const options = { ConsistentRead: true, ...projection(only && ['id', ...only]) };
  const readSome = async (some: readonly string[]) => {
    let keys: readonly Attributes[] = some.map(keyOf);
    for (let tries = 1; keys.length > 0; tries++) {
      const { Responses, UnprocessedKeys } = await connection.batchGet(keys, options);
      const items = (Responses?.[connection.tableName] ?? []).map(itemOf);
      for (const item of items) found.set(String(item['id']), item);
      keys = UnprocessedKeys?.[connection.tableName]?.Keys ?? [];
      if (keys.length === 0) return;
      if (tries === MOST_TRIES && items.length === 0)
        throw connection.unavailable('BatchGetItem', `${keys.length} keys stay unprocessed`);
      await pause(tries);
    }
  };
  const unique = [...new Set(ids)];
  const reading: Promise<void>[] = [];
  for (let i = 0; i < unique.length; i += KEYS_PER_CALL)
    reading.push(readSome(unique.slice(i, i + KEYS_PER_CALL)));
  await Promise.all(reading);
  return found;
}

export interface ChangeOptions extends ReadOptions {
  /** The item as it was read just now. Default: it is read. */
  readonly before?: { readonly item: Item | undefined };
  /** Called with what was read before each write that depends on it. */
  readonly beforeWrite?: (item: Item | undefined, change: Change) => Promise<boolean>;
}

/**
 * Changes one item. `decide` gets what is stored, and is called again when somebody else wrote in between.
 * @returns the answer of the last decision, and the whole item after a write
 * @throws results_unavailable
 */
export async function changeItem<T>(
  connection: TableConnection,
  id: string,
  decide: (item: Item | undefined) => Decision<T>,
  options: ChangeOptions = {},
): Promise<{ readonly answer: T; readonly written?: Item | undefined }> {
  let item = options.before ? options.before.item : await readItem(connection, id, options);
  for (let tries = 1; tries <= MOST_TRIES; tries++) {
    const { answer, change } = decide(item);
    if (!change) return { answer };
    if ((await options.beforeWrite?.(item, change)) ?? true) {
      const revision = randomUUID();
      const written = await writeItem(connection, id, item?.[REVISION], revision, change);
      if (written) return { answer, written };
      const now = await readItem(connection, id);
      if (now?.[REVISION] === revision) return { answer, written: now };
    }
    await pause(tries);
    item = await readItem(connection, id, options);
  }
  throw connection.unavailable('UpdateItem', 'the item changes faster than it can be changed');
}

/** @returns undefined when the item is not the one that was read */
async function writeItem(
  connection: TableConnection,
  id: string,
  before: string | number | undefined,
  revision: string,
  { set, remove }: Change,
): Promise<Item | undefined> {
  const expression = new Expression();
  const was =
    before === undefined
      ? `attribute_not_exists(${expression.name('id')})`
      : `${expression.name(REVISION)} = ${expression.value(before)}`;
  const update = updateOf(expression, { set: { ...set, [REVISION]: revision }, remove });
  const answer = await connection
    .call('UpdateItem', {
      Key: keyOf(id),
      ConditionExpression: was,
      UpdateExpression: update,
      ReturnValues: 'ALL_NEW',
      ...expression.input,
    })
    .catch(unlessConditionFailed);
  return answer && itemOf(answer.Attributes ?? {});
}

function updateOf(expression: Expression, { set, remove }: Change): string {
  const sets = Object.entries(set).map(
    ([name, value]) => `${expression.name(name)} = ${expression.value(value)}`,
  );
  const removes = remove.map((name) => expression.name(name));
  return `SET ${sets.join(', ')}${removes.length > 0 ? ` REMOVE ${removes.join(', ')}` : ''}`;
}

/** For a call whose condition does not hold. @returns undefined then. @throws the error, if it is another one */
export function unlessConditionFailed(error: unknown): Answer | undefined {
  if (error instanceof Refusal && error.kind === 'ConditionalCheckFailedException') return undefined;
  throw error;
}

/** Names and values of an expression, which may be reserved words. */
export class Expression {
  readonly #names = new Map<string, string>();
  readonly #values: Record<string, Attribute> = {};

  name(name: string): string {
    const placeholder = this.#names.get(name) ?? `#n${this.#names.size}`;
    this.#names.set(name, placeholder);
    return placeholder;
  }

  value(value: string | number): string {
    const placeholder = `:v${Object.keys(this.#values).length}`;
    this.#values[placeholder] = attributeOf(value);
    return placeholder;
  }

  get input(): object {
    const names = [...this.#names].map(([name, placeholder]) => [placeholder, name]);
    const hasValues = Object.keys(this.#values).length > 0;
    return {
      ExpressionAttributeNames: Object.fromEntries(names),
      ...(hasValues ? { ExpressionAttributeValues: this.#values } : {}),
    };
  }
}

export function keyOf(id: string): Attributes {
  return { id: attributeOf(id) };
}

export function attributeOf(value: string | number): Attribute {
  return typeof value === 'number' ? { N: String(value) } : { S: value };
}

export function itemOf(attributes: Attributes): Item {
  const item: Record<string, string | number> = {};
  for (const [name, { S, N }] of Object.entries(attributes)) {
    if (S !== undefined) item[name] = S;
    else if (N !== undefined) item[name] = Number(N);
  }
  return item;
}

function projection(only: readonly string[] | undefined): object {
  if (!only) return {};
  const expression = new Expression();
  const names = [...only, REVISION].map((name) => expression.name(name));
  return { ProjectionExpression: names.join(', '), ...expression.input };
}

/** So that those who change one item do not meet again. */
function pause(tries: number): Promise<void> {
  return delay(Math.random() * Math.min(MOST_PAUSE_MS, 2 ** tries));
}
