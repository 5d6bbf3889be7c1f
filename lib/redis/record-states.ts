/**
 * The state of a uri, from its announcement to its outcome. Each change is one step inside Redis, because the batch function
 * may write between two steps. The key must not look like a result to clients of Analytics Zoo Cluster Serving (see names.ts).
 */

import { createHash } from 'node:crypto';
import type { Redis } from 'ioredis';
import type { EnqueueQuery } from '../contract/enqueue.ts';
import { ServingError } from '../contract/errors.ts';
import { doneChannel, indexKey, newestKey, requestKey, resultKey, stateKey } from '../contract/names.ts';
import { elementAt } from '../contract/present.ts';
import { isRecordStatus, type RecordStatus } from '../contract/result.ts';
import type { RunningRecord } from '../pipeline/serve.ts';
import type { Announcement, SentRecord } from '../pipeline/submit.ts';
import type { States, StatesOptions } from '../results/store.ts';
import { forEachHome, type RedisConnection } from './connection.ts';
import { parseIdempotencyRecord } from './order.ts';
import { ResultIndex } from './result-index.ts';
import { ANNOUNCE, CANCEL, MARK_RUNNING, WITHDRAW } from './scripts/generated.ts';
import { script } from './scripts.ts';

const announceEnqueue = script<number>('announceEnqueue', ANNOUNCE);
const withdrawEnqueue = script<number>('withdrawEnqueue', WITHDRAW);
const cancelUri = script<number>('cancelUri', CANCEL);
const markRunning = script<number>('markRunning', MARK_RUNNING);

/** SQS keeps a message for 14 days at most; a day later none can be left that would run. For clients, which do not know more. */
export const OUTLASTS_QUEUE_MS = 15 * 24 * 3600 * 1000;

/** Distinguishes two records. @param message body of the record's message, not a pointer to it */
export function payloadDigest(message: string): string {
  return createHash('sha256').update(message).digest('hex').slice(0, 16);
}

export class RecordStates implements States {
  readonly #connection: RedisConnection;
  readonly #job: string;
  readonly #now: () => number;
  readonly #latestOrder: () => number;

  constructor(connection: RedisConnection, { job, now, latestOrder = () => 0 }: StatesOptions) {
    this.#connection = connection;
    this.#job = job;
    this.#now = now;
    this.#latestOrder = latestOrder;
  }

  /**
   * Announces a record that is about to be sent. Calls of one tick share a round trip, and a repeated call with the same
   * identity counts once. In cluster mode the key of a request is compared among the uris of a slot, so always for the same
   * uri.
   * @throws results_unavailable, also where Redis is nearly full and would evict results; conflict when the key of its request was used for another one
   */
  async announce({ uri, message, identity, request }: SentRecord): Promise<Announcement> {
    await this.#connection.room?.assert();
    const home = this.#connection.home(this.#job, uri);
    const state = stateKey(home, uri);
    const keys = request ? [state, requestKey(home, request.key)] : [state];
    const payload = payloadDigest(message);
    const ttlMs = String(OUTLASTS_QUEUE_MS);
    const options = { identity, payload, ttlMs, request: request && (request.digest ?? payload) };
    const announce = (redis: Redis) => announceEnqueue(redis)(keys, options);
    if ((await this.#connection.use(announce, true, state)) === 0) throw keyIsUsed(request?.key ?? '');
    return {
      withdraw: async () => {
        const result = resultKey(this.#job, uri);
        const withdrawn = this.#connection.use(
          (redis) => withdrawEnqueue(redis)([state, result], { identity }),
          true,
          state,
        );
        await withdrawn.catch(() => undefined);
      },
    };
  }

  /** In one call. */
  async markRunning(records: readonly RunningRecord[], forMs: number): Promise<void> {
    if (records.length === 0) return;
    const homes = records.map(({ uri }) => this.#connection.home(this.#job, uri));
    await forEachHome(homes, async (home, places) => {
      const marked = places.map((i) => elementAt(records, i, 'records'));
      const keys = marked.map(({ uri }) => stateKey(home, uri));
      const identities = marked.map(({ enqueue }) => enqueue.identity);
      const run = (redis: Redis) => markRunning(redis)(keys, { forMs: String(forMs), identities });
      await this.#connection.use(run, false, home).catch(() => undefined);
    });
  }

  async status(uri: string, { identity }: EnqueueQuery = {}): Promise<RecordStatus> {
    const home = this.#connection.home(this.#job, uri);
    const replies = await this.#connection.use(
      (redis) =>
        redis
          .multi()
          .hmget(resultKey(this.#job, uri), 'status', 'value', 'identity', 'cancelled')
          .hmget(stateKey(home, uri), 'done', 'running', 'pending', 'runs')
          .get(newestKey(home, uri))
          .time()
          .exec(),
      true,
      home,
    );
    const [result, state, newest, clock] = (replies ?? []).map(([error, reply]) => {
      if (error) throw this.#connection.unavailable(error);
      return reply;
    });
    const [seconds, micros] = clock as readonly [string | number, string | number];
    const found: Found = {
      result: result as Texts,
      state: state as Texts,
      newest: parseIdempotencyRecord(newest as string | null)?.latest.identity,
      nowMs: Number(seconds) * 1000 + Number(micros) / 1000,
    };
    return identity === undefined ? statusOfUri(found) : statusOfEnqueue(found, identity);
  }

  async cancel(uri: string): Promise<boolean> {
    const error = new ServingError('cancelled', 'the record was cancelled before it had a result');
    const job = this.#job;
    const home = this.#connection.home(job, uri);
    const keys = [resultKey(job, uri), stateKey(home, uri), newestKey(home, uri), indexKey(home)];
    const options = {
      uri,
      now: String(this.#now()),
      ttlMs: String(OUTLASTS_QUEUE_MS),
      error: JSON.stringify(error),
      channel: doneChannel(job, uri),
      latestOrder: String(this.#latestOrder()),
    };
    await new ResultIndex(this.#connection, job).announce([home], OUTLASTS_QUEUE_MS);
    const run = (redis: Redis) => cancelUri(redis)(keys, options);
    return (await this.#connection.use(run, true, home)) === 1;
  }
}

function keyIsUsed(key: string): ServingError {
  const text = `the Idempotency-Key ${JSON.stringify(key)} was used for another request; send this one with a new key`;
  return new ServingError('conflict', text);
}

type Texts = readonly (string | null)[];

/** Redis's entries about a uri. */
interface Found {
  /** status, value, identity, cancelled. */
  readonly result: Texts;
  /** done, running, pending, runs. */
  readonly state: Texts;
  /** Identity of the newest enqueue that had an outcome. */
  readonly newest: string | undefined;
  readonly nowMs: number;
}

function statusOfUri({ result, state, nowMs }: Found): RecordStatus {
  const [status, value] = result;
  const [done, running, pending, runs] = state;
  if (pending && done == null)
    return Number(running ?? 0) > nowMs && listed(pending, runs) ? 'running' : 'queued';
  if (value != null) return statusOf(status, value);
  return done == null ? 'unknown' : 'expired';
}

function statusOfEnqueue({ result, state, newest, nowMs }: Found, wanted: string): RecordStatus {
  const [status, value, identity, cancelled] = result;
  const [done, running, pending, runs] = state;
  if (value != null && identity === wanted) return statusOf(status, value);
  if (listed(cancelled, wanted)) return 'cancelled';
  if (done == null && listed(pending, wanted))
    return runs === wanted && Number(running ?? 0) > nowMs ? 'running' : 'queued';
  return newest === wanted && done != null ? 'expired' : 'unknown';
}

function listed(list: string | null | undefined, identity: string | null | undefined): boolean {
  return identity != null && (list?.split(' ').includes(identity) ?? false);
}

/** Analytics Zoo Cluster Serving stored a value without a status. */
function statusOf(status: string | null | undefined, value: string): RecordStatus {
  const known = status ?? (value === 'NaN' ? 'failed' : 'succeeded');
  if (isRecordStatus(known)) return known;
  throw new ServingError('internal', `the stored result has the status ${JSON.stringify(known)}`);
}
