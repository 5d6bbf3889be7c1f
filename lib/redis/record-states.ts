/**
 * The state of a uri, from its announcement to its outcome. Each change is one step inside Redis, because the batch function
 * may write between two steps. The key must not look like a result to clients of Analytics Zoo Cluster Serving (see names.ts).
 */

import type { Redis } from 'ioredis';
import type { EnqueueQuery } from '../contract/enqueue.ts';
import { doneChannel, indexKey, newestKey, requestKey, resultKey, stateKey } from '../contract/names.ts';
import { elementAt } from '../contract/present.ts';
import type { RecordStatus } from '../contract/result.ts';
import type { RunningRecord } from '../pipeline/serve.ts';
import type { Announcement, SentRecord } from '../pipeline/submit.ts';
import { parseIdempotencyRecord } from '../results/order.ts';
import {
  type Found,
  keyIsUsed,
  OUTLASTS_QUEUE_MS,
  payloadDigest,
  statusOfEnqueue,
  statusOfUri,
  wasCancelled,
} from '../results/record-state.ts';
import type { States, StatesOptions } from '../results/store.ts';
import { forEachHome, type RedisConnection } from './connection.ts';
import { ResultIndex } from './result-index.ts';
import { ANNOUNCE, CANCEL, MARK_RUNNING, WITHDRAW } from './scripts/generated.ts';
import { script } from './scripts.ts';

const announceEnqueue = script<number>('announceEnqueue', ANNOUNCE);
const withdrawEnqueue = script<unknown>('withdrawEnqueue', WITHDRAW);
const cancelUri = script<number>('cancelUri', CANCEL);
const markRunning = script<unknown>('markRunning', MARK_RUNNING);

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
      result: result as Found['result'],
      state: state as Found['state'],
      newest: parseIdempotencyRecord(newest as string | null)?.latest.identity,
      nowMs: Number(seconds) * 1000 + Number(micros) / 1000,
    };
    return identity === undefined ? statusOfUri(found) : statusOfEnqueue(found, identity);
  }

  async cancel(uri: string): Promise<boolean> {
    const job = this.#job;
    const home = this.#connection.home(job, uri);
    const keys = [resultKey(job, uri), stateKey(home, uri), newestKey(home, uri), indexKey(home)];
    const options = {
      uri,
      now: String(this.#now()),
      ttlMs: String(OUTLASTS_QUEUE_MS),
      error: JSON.stringify(wasCancelled()),
      channel: doneChannel(job, uri),
      latestOrder: String(this.#latestOrder()),
    };
    await new ResultIndex(this.#connection, job).announce([home], OUTLASTS_QUEUE_MS);
    const run = (redis: Redis) => cancelUri(redis)(keys, options);
    return (await this.#connection.use(run, true, home)) === 1;
  }
}
