/**
 * A uri has one item, so that each step of its life is one conditional write. The item has four parts: the result, its lease, the
 * state, and the idempotency record. A table deletes late, so each part has an end of its own, and readers leave out
 * what is over.
 */
import type { Change, Item } from './items.ts';

/** The fields of a result, as lib/results/fields.ts reads them. */
export type Fields = Readonly<Record<string, string>>;

export interface StoredResult {
  readonly fields: Fields;
  /** In ms since 1970. */
  readonly until: number;
  /** Size of its values. */
  readonly bytes: number;
  /** True if `dequeue` finds it. */
  readonly listed: boolean;
  /** A client that has taken it. It is gone for all others. */
  readonly lease?: { readonly id: string; readonly until: number } | undefined;
}

export interface StoredState {
  /** Digest of the message of the enqueue `last`. */
  readonly payload: string;
  readonly last: string;
  /** Identities that are announced and have no outcome, the last first. Empty: all have one. */
  readonly pending: readonly string[];
  /** The enqueue `runs` is running until then, in ms since 1970. */
  readonly running: number;
  readonly runs: string;
  readonly until: number;
}

export interface Entry {
  /** The result, or a lease of it. */
  readonly result: StoredResult | undefined;
  readonly state: StoredState | undefined;
  /** The idempotency record, in the form of lib/results/order.ts. */
  readonly newest: { readonly text: string; readonly until: number } | undefined;
}

/** Long values, which are read only to be shown. */
const VALUE_FIELDS = ['value', 'exact'] as const;
const SHORT_FIELDS = [
  'status',
  'error',
  'outputs',
  'large',
  'model',
  'finishedAt',
  'identity',
  'replays',
  'cancelled',
  'after',
] as const;
const RESULT = ['resultUntil', 'bytes', 'list', 'lease', 'leaseUntil'] as const;
const STATE = ['payload', 'last', 'pending', 'running', 'runs', 'stateUntil'] as const;
const NEWEST = ['newest', 'newestUntil'] as const;

/** All attributes but the long values. */
export const SHORT: readonly string[] = [...SHORT_FIELDS, ...RESULT, ...STATE, ...NEWEST];

/** The attribute by which the table deletes, in seconds since 1970. */
export const TTL = 'ttl';

/** The result as all but the holder of its lease see it. */
export function visible({ result }: Entry): StoredResult | undefined {
  return result?.lease ? undefined : result;
}

/** @param now in ms since 1970: what ends by then is left out */
export function readEntry(item: Item | undefined, now: number): Entry {
  return { result: readResult(item, now), state: readState(item, now), newest: readNewest(item, now) };
}

function readResult(item: Item | undefined, now: number): StoredResult | undefined {
  if (item?.['status'] === undefined) return undefined;
  const until = Number(item['resultUntil']);
  const lease =
    item['lease'] === undefined
      ? undefined
      : { id: String(item['lease']), until: Number(item['leaseUntil'] ?? 0) };
  if ((lease?.until ?? until) <= now) return undefined;
  const names = [...VALUE_FIELDS, ...SHORT_FIELDS].filter((name) => item[name] !== undefined);
  // A value that was not read stands for itself: that of a large result is never looked at.
  const fields = { value: '', ...Object.fromEntries(names.map((name) => [name, String(item[name])])) };
  const listed = item['list'] !== undefined;
  return { fields, until, bytes: Number(item['bytes'] ?? 0), listed, lease };
}

function readState(item: Item | undefined, now: number): StoredState | undefined {
  const until = Number(item?.['stateUntil'] ?? 0);
  if (!item || until <= now) return undefined;
  return {
    payload: String(item['payload'] ?? ''),
    last: String(item['last'] ?? ''),
    pending: identitiesOf(item['pending']),
    running: Number(item['running'] ?? 0),
    runs: String(item['runs'] ?? ''),
    until,
  };
}

function readNewest(item: Item | undefined, now: number): Entry['newest'] {
  const until = Number(item?.['newestUntil'] ?? 0);
  return item && until > now ? { text: String(item['newest'] ?? ''), until } : undefined;
}

export function identitiesOf(list: string | number | undefined): string[] {
  return list === undefined || list === '' ? [] : String(list).split(' ');
}

/**
 * What leads from one entry to another. Parts that are the same object are left as they are, also where their values were not read.
 * @param list the list of the index for this uri
 */
export function changeOf(before: Entry, after: Entry, list: string): Change {
  const set: Record<string, string | number> = {};
  const remove: string[] = [];
  const put = (names: readonly string[], item: Readonly<Record<string, string | number | undefined>>) => {
    for (const name of names) {
      const value = item[name];
      if (value === undefined || value === '') remove.push(name);
      else set[name] = value;
    }
  };
  const { result, state, newest } = after;
  if (result?.fields !== before.result?.fields) put([...VALUE_FIELDS, ...SHORT_FIELDS], result?.fields ?? {});
  if (result !== before.result) put(RESULT, result ? attributesOf(result, list) : {});
  if (state !== before.state) {
    const pending = state?.pending.join(' ');
    put(STATE, state ? { ...state, pending, stateUntil: state.until } : {});
  }
  if (newest !== before.newest) put(NEWEST, newest ? { newest: newest.text, newestUntil: newest.until } : {});
  const ends = [result?.until, result?.lease?.until, state?.until, newest?.until];
  set[TTL] = Math.ceil(Math.max(0, ...ends.map((end) => end ?? 0)) / 1000);
  return { set, remove };
}

function attributesOf({ until, bytes, listed, lease }: StoredResult, list: string) {
  return {
    resultUntil: until,
    bytes,
    list: listed ? list : undefined,
    lease: lease?.id,
    leaseUntil: lease?.until,
  };
}
