/**
 * Leases results: a lease removes them from their uris, and of two clients only one gets each result. The results stay
 * under the id of the lease until the client's next lease or until a time limit, so a client whose answer was lost asks
 * again by that id and loses nothing.
 */

import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';
import { indexKey, leaseKey, newestKey, resultKey, stateKey } from '../contract/names.ts';
import { elementAt } from '../contract/present.ts';
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
import { forEachHome, type RedisConnection } from './connection.ts';
import { ResultIndex } from './result-index.ts';
import { RELEASE, TAKE } from './scripts/generated.ts';
import { argumentsOf } from './scripts.ts';

/** The reply of take.lua for a result that is larger than the caller accepts. */
const TOO_LARGE = 'too large';
/** How many keys of acknowledged results one lease deletes at most. */
const MAX_ACKNOWLEDGED = 1_000;

/** The reply of take.lua for one uri. */
type TakeReply = readonly [listed: number, stays: readonly string[] | string, leftMs: number];

export class ResultLeases implements Leases {
  readonly #connection: RedisConnection;
  readonly #job: string;
  readonly #index: ResultIndex;
  readonly #unanswered = new Unanswered();
  /** Leases of results that arrived here. The next lease deletes them, so no caller waits for a deletion. */
  #acknowledged: Lease[] = [];

  constructor(connection: RedisConnection, job: string) {
    this.#connection = connection;
    this.#job = job;
    this.#index = new ResultIndex(connection, job);
  }

  unanswered(count: number): string[] {
    return this.#unanswered.uris(count);
  }

  /** In one round trip. */
  async take(uris: readonly string[], limits: TakeLimits = {}): Promise<LeasedResult[]> {
    const fresh = randomUUID();
    const { identity, large = '' } = limits;
    const leaseIds = uris.map((uri) => this.#unanswered.leaseOf(uri, identity) ?? fresh);
    const acknowledged = this.#acknowledged.splice(0, MAX_ACKNOWLEDGED);
    let taken: LeasedResult[];
    try {
      taken = await this.#ask(uris, leaseIds, acknowledged, limits);
    } catch (error) {
      this.#acknowledged.push(...acknowledged);
      for (const uri of isFetched(large) ? [] : uris) this.#unanswered.remember(uri, identity, fresh);
      throw error;
    }
    for (const { lease, fields } of taken) {
      this.#unanswered.forget(lease.uri, identity);
      if (Object.keys(fields).length > 0) this.#acknowledged.push(lease);
    }
    return taken;
  }

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
      for (const { uri, leaseId } of held) this.#unanswered.remember(uri, undefined, leaseId);
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

  #takenOf([listed, stays]: TakeReply, fields: unknown, lease: Lease): LeasedResult {
    const wasListed = listed === 1;
    if (typeof stays !== 'string') {
      const found = stays.length > 0 ? fieldsOf(stays) : (fields as Record<string, string>);
      return { fields: found, error: undefined, wasListed, lease };
    }
    const { uri } = lease;
    const error = stays === TOO_LARGE ? tooLargeForPage(uri) : this.#connection.unavailable(new Error(stays));
    return { fields: {}, error, wasListed, lease };
  }
}

function leaseKeyOf(home: string, { leaseId, uri }: Omit<Lease, 'leftMs'>): string {
  return leaseKey(home, leaseId, uri);
}

/** A reply of names and values in turn, as an object. */
function fieldsOf(flat: readonly string[]): Record<string, string> {
  const fields: Record<string, string> = {};
  for (let i = 0; i + 1 < flat.length; i += 2)
    fields[elementAt(flat, i, 'flat')] = elementAt(flat, i + 1, 'flat');
  return fields;
}
