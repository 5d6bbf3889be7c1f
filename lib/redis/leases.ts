/**
 * Takes results, which deletes them from Redis; of two clients, each result goes to one. So that a lost answer loses no result,
 * results are set aside under the lease's id, and asking again by that id returns them. They are removed with the
 * next lease, or after a time.
 */
import { randomUUID } from 'node:crypto';
import { ServingError } from '../contract/errors.ts';
import { indexKey, leaseKey, newestKey, resultKey, stateKey, takenMessagePrefix } from '../contract/names.ts';
import type { RedisConnection } from './connection.ts';
import { RELEASE_LEASE, TAKE, TOO_LARGE } from './lease-scripts.ts';
import { OUTLASTS_QUEUE_MS } from './record-states.ts';

/** How long a leased result can be read again by a client whose answer got lost. */
const LEASE_MS = 10 * 60 * 1000;
/** Of one lease, where the caller sets no limit. */
const MAX_BYTES = 32 * 1024 * 1024;
/** Of results whose answer got lost, how many a client remembers. */
const MAX_UNANSWERED = 1_000;
/** Keys of acknowledged results that one lease removes. */
const MAX_ACKNOWLEDGED = 1_000;

export interface LeasedResult {
  readonly fields: Readonly<Record<string, string>>;
  /** Why there are no fields: the key holds something else. */
  readonly error: ServingError | undefined;
  /** Whether we took it off the index: of two who dequeue a cancelled uri, one did. */
  readonly wasListed: boolean;
  /** For `release`. */
  readonly lease: Lease;
}

interface Lease {
  readonly uri: string;
  /** The id it was set aside under. */
  readonly leaseId: string;
  /** Time to live that was left; -1 without an end, 0 when nothing was taken. */
  readonly leftMs: number;
}

export interface TakeLimits {
  /** Of the stored values together; the rest is left. Default 32 MiB. */
  readonly maxBytes?: number;
  /** A first result that is larger is not taken: it is reported as `too_large`, and dequeued no more. Default none. */
  readonly maxBytesOfOne?: number;
  /** Only results of this enqueue. Default any. */
  readonly identity?: string | undefined;
}

/** What TAKE tells of one uri (lease-scripts.ts). */
type TakeReply = readonly [listed: number, stays: readonly string[] | string, leftMs: number];

export class ResultLeases {
  readonly #connection: RedisConnection;
  readonly #job: string;
  /** The id of a lease whose answer got lost, by what was asked for: to ask for the same again. */
  readonly #unanswered = new Map<string, string>();
  /** Keys of results that arrived here; the next lease removes them, so that no caller waits for a removal. */
  #acknowledged: string[] = [];

  constructor(connection: RedisConnection, job: string) {
    this.#connection = connection;
    this.#job = job;
  }

  /** Up to `count` uris whose answer got lost, where any result of theirs was wanted. */
  unanswered(count: number): string[] {
    const asked = [...this.#unanswered.keys()].filter((key) => !key.includes(SEPARATOR));
    return asked.slice(0, count);
  }

  /**
   * The results of the first of `uris`, in order, in one round trip; of fewer than all only when they are large.
   * @throws results_unavailable; then asking again loses nothing
   */
  async take(uris: readonly string[], limits: TakeLimits = {}): Promise<LeasedResult[]> {
    const fresh = randomUUID();
    const { identity } = limits;
    const leaseIds = uris.map((uri) => this.#unanswered.get(askedKey(uri, identity)) ?? fresh);
    const acknowledged = this.#acknowledged.splice(0, MAX_ACKNOWLEDGED);
    let taken: LeasedResult[];
    try {
      taken = await this.#ask(uris, leaseIds, acknowledged, limits);
    } catch (error) {
      this.#acknowledged.push(...acknowledged);
      for (const uri of uris) this.#remember(askedKey(uri, identity), fresh);
      throw error;
    }
    for (const { lease, fields } of taken) {
      this.#unanswered.delete(askedKey(lease.uri, identity));
      if (Object.keys(fields).length > 0) this.#acknowledged.push(this.#keyOf(lease));
    }
    return taken;
  }

  /**
   * What was taken and has not been used is there again, for whoever asks next.
   * @throws results_unavailable; then this client alone can lease it again
   */
  async release(taken: readonly LeasedResult[]): Promise<void> {
    const held = taken.map((one) => one.lease).filter(({ leftMs }) => leftMs !== 0);
    if (held.length === 0) return;
    const aside = held.map((one) => this.#keyOf(one));
    const keys = held.flatMap(({ uri }, i) => {
      return [resultKey(this.#job, uri), newestKey(this.#job, uri), aside[i] as string];
    });
    const values = held.flatMap(({ uri, leftMs }) => [uri, leftMs]);
    this.#acknowledged = this.#acknowledged.filter((key) => !aside.includes(key));
    try {
      await this.#connection.use((redis) => {
        return redis.eval(RELEASE_LEASE, keys.length + 1, indexKey(this.#job), ...keys, ...values);
      }, true);
    } catch (error) {
      for (const { uri, leaseId } of held) this.#remember(uri, leaseId);
      throw error;
    }
  }

  #ask(
    uris: readonly string[],
    leaseIds: readonly string[],
    acknowledged: readonly string[],
    { maxBytes = MAX_BYTES, maxBytesOfOne = Number.MAX_SAFE_INTEGER, identity = '' }: TakeLimits,
  ): Promise<LeasedResult[]> {
    const job = this.#job;
    const held = uris.map((uri, i) => leaseKey(job, leaseIds[i] as string, uri));
    const keys = uris.flatMap((uri, i) => {
      return [resultKey(job, uri), stateKey(job, uri), newestKey(job, uri), held[i] as string];
    });
    const values = [LEASE_MS, takenMessagePrefix(job), maxBytes, maxBytesOfOne, OUTLASTS_QUEUE_MS];
    for (const uri of uris) values.push(uri, identity);
    return this.#connection.use(async (redis) => {
      // No transaction: a full Redis refuses whatever is in one. What was put aside is ours alone.
      const pipeline = redis.pipeline();
      pipeline.eval(TAKE, keys.length + 1, indexKey(job), ...keys, ...values);
      for (const key of held) pipeline.hgetall(key);
      if (acknowledged.length > 0) pipeline.unlink(...acknowledged);
      const [took, ...fields] = ((await pipeline.exec()) ?? []).map(([error, reply]) => {
        if (error) throw error;
        return reply;
      });
      return (took as TakeReply[]).map((reply, i) => {
        const aside = { uri: uris[i] as string, leaseId: leaseIds[i] as string, leftMs: reply[2] };
        return this.#takenOf(reply, fields[i], aside);
      });
    }, true);
  }

  #keyOf({ uri, leaseId }: Lease): string {
    return leaseKey(this.#job, leaseId, uri);
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

/** No uri holds one. */
const SEPARATOR = '\n';

function askedKey(uri: string, identity: string | undefined): string {
  return identity === undefined ? uri : `${uri}${SEPARATOR}${identity}`;
}

/** Names and values in turn. */
function fieldsOf(flat: readonly string[]): Record<string, string> {
  const fields: Record<string, string> = {};
  for (let i = 0; i + 1 < flat.length; i += 2) fields[flat[i] as string] = flat[i + 1] as string;
  return fields;
}
