/**
 * Leases results in a table: the item names the client that has its result. The values stay in the item until the table deletes
 * it, because that costs less than a write that removes them.
 */
import { randomUUID } from 'node:crypto';
import { elementAt } from '../contract/present.ts';
import { allEnded } from '../contract/under-way.ts';
import {
  isFetched,
  LEASE_MS,
  type Lease,
  type LeasedResult,
  type Leases,
  MAX_BYTES,
  type TakeLimits,
  tooLargeForPage,
  Unanswered,
} from '../results/dequeue.ts';
import { isOutcomeOf } from '../results/fields.ts';
import { type Entries, fieldsOf, type ReadItem, type Step } from './entries.ts';
import { type Entry, readEntry, type StoredResult, visible } from './entry.ts';
import { lease, release } from './steps.ts';

/** The treatment of a result that is asked for. */
type Plan =
  | { readonly kind: 'none' | 'lease' | 'ours' | 'tooLarge' }
  /** It stays; if listed, it leaves the index. */
  | { readonly kind: 'stays'; readonly result: StoredResult };

interface Asked {
  readonly uri: string;
  readonly leaseId: string;
  readonly isAgain: boolean;
}

export class TableLeases implements Leases {
  readonly #entries: Entries;
  readonly #unanswered = new Unanswered();

  constructor(entries: Entries) {
    this.#entries = entries;
  }

  unanswered(count: number): string[] {
    return this.#unanswered.uris(count);
  }

  async take(uris: readonly string[], limits: TakeLimits = {}): Promise<LeasedResult[]> {
    const { identity, large = '' } = limits;
    const fresh = randomUUID();
    const asked = uris.map((uri): Asked => {
      const leaseId = this.#unanswered.leaseOf(uri, identity);
      return { uri, leaseId: leaseId ?? fresh, isAgain: leaseId !== undefined };
    });
    try {
      const items = await this.#entries.readAll(uris);
      const some = withinBytes(asked, items, this.#entries.now(), limits);
      const taking = some.map((one, i) => this.#take(one, items.get(one.uri), limits, i === 0));
      const taken = await allEnded(taking);
      for (const { uri } of some) this.#unanswered.forget(uri, identity);
      return taken;
    } catch (error) {
      for (const uri of isFetched(large) ? [] : uris) this.#unanswered.remember(uri, identity, fresh);
      throw error;
    }
  }

  async #take(
    { uri, leaseId, isAgain }: Asked,
    before: ReadItem | undefined,
    limits: TakeLimits,
    isFirst: boolean,
  ): Promise<LeasedResult> {
    const now = this.#entries.now();
    const none = { uri, leaseId, leftMs: 0 };
    const step = (entry: Entry): Step<readonly [Plan, StoredResult | undefined]> => {
      const plan = planOf(entry, leaseId, limits, isFirst);
      return { answer: [plan, entry.result], entry: nextOf(entry, plan, limits, { id: leaseId, now }) };
    };
    const kept = isAgain ? await this.#kept(uri, leaseId) : undefined;
    if (kept) return { fields: fieldsOf(kept), error: undefined, wasListed: true, lease: none };
    const { answer, written } = await this.#entries.take(uri, step, before);
    const [plan, found] = answer;
    const wasListed = plan.kind === 'ours' || (found?.listed ?? false);
    if (plan.kind === 'none' || !found)
      return { fields: {}, error: undefined, wasListed: false, lease: none };
    if (plan.kind === 'tooLarge') return { fields: {}, error: tooLargeForPage(uri), wasListed, lease: none };
    const held = { uri, leaseId, leftMs: Math.max(1, found.until - now) };
    if (plan.kind === 'stays')
      return { fields: plan.result.fields, error: undefined, wasListed, lease: held };
    const whole = written?.result ?? (await this.#entries.readWhole(uri)).result;
    return { fields: fieldsOf(whole), error: undefined, wasListed, lease: held };
  }

  /** A lease whose answer got lost may have made room for a later result since. Then its copy is there. */
  async #kept(uri: string, leaseId: string): Promise<StoredResult | undefined> {
    const { result } = await this.#entries.read(uri);
    return result?.lease?.id === leaseId ? undefined : this.#entries.readKept(uri, leaseId);
  }

  async release(taken: readonly LeasedResult[]): Promise<void> {
    const held = taken.map((one) => one.lease).filter(({ leftMs }) => leftMs !== 0);
    try {
      await allEnded(held.map((one) => this.#release(one)));
    } catch (error) {
      for (const { uri, leaseId } of held) this.#unanswered.remember(uri, undefined, leaseId);
      throw error;
    }
  }

  async #release({ uri, leaseId }: Lease): Promise<void> {
    const step = (entry: Entry) => ({ answer: 0, entry: release(entry, leaseId) });
    const { written } = await this.#entries.take(uri, step);
    // A later result has replaced it, so this lease must not return the old one.
    if (!written) await this.#entries.dropKept(uri, leaseId);
  }
}

function planOf(
  entry: Entry,
  leaseId: string,
  { identity, large = '', maxBytesOfOne = Number.POSITIVE_INFINITY }: TakeLimits,
  isFirst: boolean,
): Plan {
  if (entry.result?.lease?.id === leaseId) return { kind: 'ours' };
  const result = visible(entry);
  if (!result || (identity !== undefined && !isOutcomeOf(result.fields, identity))) return { kind: 'none' };
  const pointer = result.fields['large'] ?? '';
  if (isFetched(large) && !pointer.includes(large)) return { kind: 'none' };
  if (pointer && large === '') return { kind: 'stays', result };
  if (isFirst && result.bytes > maxBytesOfOne) return { kind: 'tooLarge' };
  if (result.fields['status'] === 'cancelled' || (pointer && large === 'list'))
    return { kind: 'stays', result };
  return { kind: 'lease' };
}

/** @returns undefined when nothing is written */
function nextOf(
  entry: Entry,
  { kind }: Plan,
  { large = '' }: TakeLimits,
  { id, now }: { readonly id: string; readonly now: number },
): Entry | undefined {
  if (kind === 'lease') return lease(entry, { id, until: now + LEASE_MS });
  const { result } = entry;
  if (!result?.listed || kind === 'none' || kind === 'ours') return undefined;
  // A large result that stays for all who ask is listed until a page has it, or a client that takes a cancellation.
  if (kind === 'stays' && large === '' && result.fields['large']) return undefined;
  return { ...entry, result: { ...result, listed: false } };
}

/** The first of those that are asked for, up to the limit of all. */
function withinBytes(
  asked: readonly Asked[],
  items: ReadonlyMap<string, ReadItem>,
  now: number,
  { maxBytes = MAX_BYTES, maxBytesOfOne = Number.POSITIVE_INFINITY }: TakeLimits,
): readonly Asked[] {
  let left = maxBytes;
  const bytes = asked.map(({ uri }) => readEntry(items.get(uri)?.item, now).result?.bytes ?? 0);
  if (elementAt([...bytes, 0], 0, 'bytes') > maxBytesOfOne) return asked.slice(0, 1);
  const end = bytes.findIndex((size, i) => (left -= size) < 0 && i > 0);
  return end < 0 ? asked : asked.slice(0, end);
}
