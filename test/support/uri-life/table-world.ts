/** The life of a uri in a table, by real conditional writes. */
import type { TableConnection } from '../../../lib/table/connection.ts';
import { Entries } from '../../../lib/table/entries.ts';
import { attributeOf, type Item, readItem } from '../../../lib/table/items.ts';
import { TableLeases } from '../../../lib/table/leases.ts';
import { TableStates } from '../../../lib/table/record-states.ts';
import { TableReplacer } from '../../../lib/table/replacer.ts';
import { TableResults } from '../../../lib/table/results.ts';
import { type Dump, type Fields, LEASE, OPTIONS, TTL_SECONDS, URI, UriWorld } from './world.ts';

/** Parts of an item that are not in the other parts of a dump. */
const RESULT = /^(status|value|exact|error|outputs|large|model|finishedAt|identity|replays|cancelled|after)$/;
const STATE = /^(payload|last|pending|running|runs)$/;
/** A lease of another client, which has its result. */
const OTHERS = 'other';

export class TableWorld extends UriWorld {
  readonly #connection: TableConnection;
  readonly #job: string;

  constructor(connection: TableConnection, job: string) {
    const options = { job, ...OPTIONS };
    super({
      results: new TableResults(connection, options),
      states: new TableStates(connection, options),
      replacer: new TableReplacer(connection, options),
      leases: new TableLeases(new Entries(connection, job)),
    });
    this.#connection = connection;
    this.#job = job;
  }

  get #id(): string {
    return `${this.#job}/u/${URI}`;
  }

  get #keptId(): string {
    return `${this.#job}/h/${this.leaseId}/${URI}`;
  }

  async restore({ result, state, held, newest, listed, rest = {} }: Dump): Promise<void> {
    const left = [this.#id, this.#keptId];
    this.leaseId = LEASE;
    for (const id of left) await this.#connection.call('DeleteItem', { Key: { id: attributeOf(id) } });
    const until = Date.now() + TTL_SECONDS * 1000;
    const isKept = rest['where'] === 'kept';
    const lease = (fields: Fields, id: string) => ({ ...fields, lease: id, leaseUntil: until });
    const { where: _, ...taken } = rest;
    const own = Object.keys(held).length > 0 && !isKept ? lease(held, LEASE) : result;
    const main = Object.keys(taken).length > 0 ? lease(taken, OTHERS) : own;
    const hasState = Object.keys(state).length > 0;
    await this.#put(this.#id, {
      ...main,
      ...(Object.keys(main).length > 0 ? { resultUntil: until, bytes: 5 } : {}),
      ...(listed ? { list: `${this.#job}/0` } : {}),
      ...state,
      ...(hasState ? { running: Number(state['running']), stateUntil: until } : {}),
      ...(newest === '' ? {} : { newest, newestUntil: until }),
    });
    if (isKept) await this.#put(this.#keptId, { ...lease(held, LEASE), resultUntil: until, bytes: 5 });
  }

  async #put(id: string, item: Item): Promise<void> {
    if (Object.keys(item).length === 0) return;
    const entries = Object.entries({ id, rev: 'restored', ...item });
    const Item = Object.fromEntries(entries.map(([name, value]) => [name, attributeOf(value)]));
    await this.#connection.call('PutItem', { Item });
  }

  /** @throws when an item has no time to live, or a part none of its own */
  async dump(): Promise<Dump> {
    const main = (await readItem(this.#connection, this.#id)) ?? {};
    const kept = (await readItem(this.#connection, this.#keptId)) ?? {};
    for (const item of [main, kept]) assertEnds(item);
    const fields = textsOf(main, RESULT);
    const isOurs = main['lease'] === this.leaseId;
    const isLeased = main['lease'] !== undefined;
    const taken = isLeased && !isOurs ? fields : {};
    return {
      result: isLeased ? {} : fields,
      state: textsOf(main, STATE),
      held: isOurs ? fields : textsOf(kept, RESULT),
      newest: String(main['newest'] ?? ''),
      listed: main['list'] !== undefined,
      rest: { ...taken, ...(kept['status'] !== undefined && !isOurs ? { where: 'kept' } : {}) },
    };
  }

  /** Its time passes: nothing is written for it. */
  protected async acknowledge(): Promise<void> {
    const { held: _, rest: { where: __, ...rest } = {}, ...dump } = await this.dump();
    await this.restore({ ...dump, held: {}, rest });
  }

  protected async vanish(): Promise<void> {
    await this.restore({ ...(await this.dump()), result: {}, listed: false });
  }
}

function textsOf(item: Item, names: RegExp): Fields {
  const found = Object.entries(item).filter(([name]) => names.test(name));
  return Object.fromEntries(found.map(([name, value]) => [name, String(value)]));
}

function assertEnds(item: Item): void {
  const ends: readonly (readonly [string, string])[] = [
    ['status', 'resultUntil'],
    ['last', 'stateUntil'],
    ['newest', 'newestUntil'],
    ['lease', 'leaseUntil'],
  ];
  for (const [name, end] of ends) {
    if (item[name] !== undefined && !(Number(item[end]) > Date.now())) throw new Error(`${name} has no end`);
  }
}
