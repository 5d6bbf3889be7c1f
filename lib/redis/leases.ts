/**
 * Leases results: a lease removes them from their uris, and of two clients only one gets each result. The results stay
 * under the id of the lease until the client's next lease or until a time limit, so a client whose answer was lost asks
 * again by that id and loses nothing.
 */

import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';
import { ServingError } from '../contract/errors.ts';
import { indexKey, leaseKey, newestKey, resultKey, stateKey } from '../contract/names.ts';
import { elementAt } from '../contract/present.ts';
import { forEachHome, type RedisConnection } from './connection.ts';
import { ResultIndex } from './result-index.ts';
import { RELEASE, TAKE } from './scripts/generated.ts';
import { argumentsOf } from './scripts.ts';

/** How long a leased result can be read again by a client whose answer got lost. */
const LEASE_MS = 10 * 60 * 1000;
/** Size limit of a lease, in bytes, where the caller sets none. */
export const MAX_BYTES = 32 * 1024 * 1024;
/** The reply of take.lua for a result that is larger than the caller accepts. */
const TOO_LARGE = 'too large';
/** How many lost answers a client remembers. */
const MAX_UNANSWERED = 1_000;
/** How many keys of acknowledged results one lease deletes at most. */
const MAX_ACKNOWLEDGED = 1_000;

export interface LeasedResult {
  readonly fields: Readonly<Record<string, string>>;
  /** The reason for missing fields: the key has another type. */
  readonly error: ServingError | undefined;
  /** True if this lease removed the uri from the index. If two clients dequeue a cancelled uri, one of them did. */
  readonly wasListed: boolean;
  /** For `release`. */
  readonly lease: Lease;
}

interface Lease {
  readonly uri: string;
  /** Id of the lease. */
  readonly leaseId: string;
  /** The time to live that was left, in ms: -1 for none, 0 when nothing was leased. */
  readonly leftMs: number;
}

export interface TakeLimits {
  /** Size limit of all values together; the results above it stay. Default 32 MiB. */
  readonly maxBytes?: number;
  /** A larger first result is reported as `too_large`, stays under its uri and leaves the index. Default no limit. */
  readonly maxBytesOfOne?: number;
  /** Only results of this enqueue. Default any. */
  readonly identity?: string | undefined;
  /** The handling of large results, see take.lua. Default ''. */
  readonly large?: string | undefined;
}

/** The reply of take.lua for one uri. */
type TakeReply = readonly [listed: number, stays: readonly string[] | string, leftMs: number];

export class ResultLeases {
  readonly #connection: RedisConnection;
  readonly #job: string;
  readonly #index: ResultIndex;
  /** Ids of the leases whose answers were lost, by what was asked for. */
  readonly #unanswered = new Map<string, string>();
  /** Leases of results that arrived here. The next lease deletes them, so no caller waits for a deletion. */
  #acknowledged: Lease[] = [];

  constructor(connection: RedisConnection, job: string) {
    this.#connection = connection;
    this.#job = job;
    this.#index = new ResultIndex(connection, job);
  }

  /** Up to `count` uris whose answers were lost, of the leases that named no identity. */
  unanswered(count: number): string[] {
    const asked = [...this.#unanswered.keys()].filter((key) => !key.includes(SEPARATOR));
    return asked.slice(0, count);
  }

  /**
   * Leases the results of `uris`, in order and in one round trip; of the first ones only, when the size limit is reached.
   * @throws results_unavailable; asking again loses nothing
   */
  async take(uris: readonly string[], limits: TakeLimits = {}): Promise<LeasedResult[]> {
    const fresh = randomUUID();
    const { identity, large = '' } = limits;
    const leaseIds = uris.map((uri) => this.#unanswered.get(askedKey(uri, identity)) ?? fresh);
    const acknowledged = this.#acknowledged.splice(0, MAX_ACKNOWLEDGED);
    let taken: LeasedResult[];
    try {
      taken = await this.#ask(uris, leaseIds, acknowledged, limits);
    } catch (error) {
      this.#acknowledged.push(...acknowledged);
      // A large result that was fetched is not asked for again.
      for (const uri of isId(large) ? [] : uris) this.#remember(askedKey(uri, identity), fresh);
      throw error;
    }
    for (const { lease, fields } of taken) {
      this.#unanswered.delete(askedKey(lease.uri, identity));
      if (Object.keys(fields).length > 0) this.#acknowledged.push(lease);
    }
    return taken;
  }

  /**
   * Returns unused results to their uris, for the next client that asks.
   * @throws results_unavailable; then only this client can lease them again
   */
  async release(taken: readonly LeasedResult[]): Promise<void> {
    const held = taken.map((one) => one.lease).filter(({ leftMs }) => leftMs !== 0);
    if (held.length === 0) return;
    this.#acknowledged = this.#acknowledged.filter((one) => !held.includes(one));
    const homes = held.map(({ uri }) => this.#connection.home(this.#job, uri));
    try {
      await this.#index.announce(new Set(homes), Math.max(LEASE_MS, ...held.map(({ leftMs }) => leftMs)));
      await forEachHome(homes, (home, places) => {
        const leases = places.map((i) => elementAt(held, i, 'held'));
        const keys = leases.flatMap((one) => {
          return [resultKey(this.#job, one.uri), newestKey(home, one.uri), leaseKeyOf(home, one)];
        });
        const records = leases.map(({ uri, leftMs }) => ({ uri, leftMs: String(leftMs) }));
        const values = argumentsOf([indexKey(home), ...keys], { records });
        const run = (redis: Redis) => redis.eval(RELEASE, ...values);
        return this.#connection.use(run, true, home);
      });
    } catch (error) {
      for (const { uri, leaseId } of held) this.#remember(uri, leaseId);
      throw error;
    }
  }

  async #ask(
    uris: readonly string[],
    leaseIds: readonly string[],
    acknowledged: readonly Lease[],
    limits: TakeLimits,
  ): Promise<LeasedResult[]> {
    const wanted = uris.map((uri, i) => ({ uri, leaseId: elementAt(leaseIds, i, 'leaseIds') }));
    const homes = [...wanted, ...acknowledged].map(({ uri }) => this.#connection.home(this.#job, uri));
    const taken: LeasedResult[] = [];
    await forEachHome(homes, async (home, places) => {
      const asked = places.flatMap((i) => wanted[i] ?? []);
      const arrived = places.flatMap((i) => acknowledged[i - wanted.length] ?? []);
      const replies = await this.#askHome(home, asked, arrived, limits);
      for (const [i, one] of replies.entries()) taken[elementAt(places, i, 'places')] = one;
    });
    // Without those that would have exceeded the size limit.
    return taken.filter(Boolean);
  }

  #askHome(
    home: string,
    asked: readonly Omit<Lease, 'leftMs'>[],
    acknowledged: readonly Lease[],
    { maxBytes = MAX_BYTES, maxBytesOfOne = Number.MAX_SAFE_INTEGER, identity, large = '' }: TakeLimits,
  ): Promise<LeasedResult[]> {
    const held = asked.map((one) => leaseKeyOf(home, one));
    const keys = asked.flatMap(({ uri }, i) => {
      return [resultKey(this.#job, uri), stateKey(home, uri), elementAt(held, i, 'held')];
    });
    const options = {
      leaseMs: String(LEASE_MS),
      maxBytes: String(maxBytes),
      maxBytesOfOne: String(maxBytesOfOne),
      identity,
      large,
      uris: asked.map(({ uri }) => uri),
    };
    const values = argumentsOf([indexKey(home), ...keys], options);
    const run = async (redis: Redis) => {
      // Not in a transaction, which a full Redis refuses. Only this client knows the keys.
      const pipeline = redis.pipeline();
      pipeline.eval(TAKE, ...values);
      for (const key of held) pipeline.hgetall(key);
      if (acknowledged.length > 0) pipeline.unlink(...acknowledged.map((one) => leaseKeyOf(home, one)));
      const [took, ...fields] = ((await pipeline.exec()) ?? []).map(([error, reply]) => {
        if (error) throw error;
        return reply;
      });
      return (took as TakeReply[]).map((reply, i) => {
        const lease = { ...elementAt(asked, i, 'asked'), leftMs: reply[2] };
        return this.#takenOf(reply, fields[i], lease);
      });
    };
    return this.#connection.use(run, true, home);
  }

  #remember(asked: string, leaseId: string): void {
    if (this.#unanswered.size < MAX_UNANSWERED && !this.#unanswered.has(asked))
      this.#unanswered.set(asked, leaseId);
  }

  #takenOf([listed, stays]: TakeReply, fields: unknown, lease: Lease): LeasedResult {
    const wasListed = listed === 1;
    if (typeof stays !== 'string') {
      const found = stays.length > 0 ? fieldsOf(stays) : (fields as Record<string, string>);
      return { fields: found, error: undefined, wasListed, lease };
    }
    const { uri } = lease;
    const hint = 'the result is too large for a page; query it by its uri';
    const error =
      stays === TOO_LARGE
        ? new ServingError('too_large', hint, { uri })
        : this.#connection.unavailable(new Error(stays));
    return { fields: {}, error, wasListed, lease };
  }
}

function leaseKeyOf(home: string, { leaseId, uri }: Omit<Lease, 'leftMs'>): string {
  return leaseKey(home, leaseId, uri);
}

function isId(large: string): boolean {
  return large !== '' && large !== 'list';
}

/** A line feed, which no uri contains. */
const SEPARATOR = '\n';

function askedKey(uri: string, identity: string | undefined): string {
  return identity === undefined ? uri : `${uri}${SEPARATOR}${identity}`;
}

/** A reply of names and values in turn, as an object. */
function fieldsOf(flat: readonly string[]): Record<string, string> {
  const fields: Record<string, string> = {};
  for (let i = 0; i + 1 < flat.length; i += 2)
    fields[elementAt(flat, i, 'flat')] = elementAt(flat, i + 1, 'flat');
  return fields;
}
