/**
 * The state of a uri: announced before a record is sent, queued, running, cancelled. Each question is answered in one step
 * inside Redis, because the batch function may write between two. Its key must not look like a result to old clients
 * (see names.ts).
 */
import { createHash } from 'node:crypto';
import type { EnqueueQuery } from '../contract/enqueue.ts';
import { ServingError } from '../contract/errors.ts';
import { doneChannel, indexKey, newestKey, resultKey, stateKey } from '../contract/names.ts';
import { isRecordStatus, type RecordStatus } from '../contract/result.ts';
import type { RunningRecord } from '../pipeline/serve.ts';
import type { Announcement, SentRecord } from '../pipeline/submit.ts';
import type { RedisConnection } from './connection.ts';
import { parseOrder } from './order.ts';
import { announceEnqueue, cancelUri, markRunning, withdrawEnqueue } from './state-scripts.ts';

/** The queue keeps a message for 4 days (infra/stack/queue.yml); a day later none can be left that would run. */
export const OUTLASTS_QUEUE_MS = 5 * 24 * 3600 * 1000;

/** Tells two records apart. @param message body of the record's message, not a pointer to it */
export function payloadDigest(message: string): string {
  return createHash('sha256').update(message).digest('hex').slice(0, 16);
}

interface StatesOptions {
  readonly job: string;
  readonly now: () => number;
}

export class RecordStates {
  readonly #connection: RedisConnection;
  readonly #job: string;
  readonly #now: () => number;

  constructor(connection: RedisConnection, { job, now }: StatesOptions) {
    this.#connection = connection;
    this.#job = job;
    this.#now = now;
  }

  /**
   * Says that a record is about to be sent; calls of one tick share a round trip, and one that is repeated with the same
   * identity counts once.
   * @throws results_unavailable
   */
  async announce({ uri, message, identity }: SentRecord): Promise<Announcement> {
    const state = stateKey(this.#job, uri);
    const payload = payloadDigest(message);
    await this.#connection.use(
      (redis) => announceEnqueue(redis)(1, state, identity, payload, OUTLASTS_QUEUE_MS),
      true,
    );
    return {
      withdraw: async () => {
        const result = resultKey(this.#job, uri);
        const withdrawn = this.#connection.use(
          (redis) => withdrawEnqueue(redis)(2, state, result, identity),
          true,
        );
        await withdrawn.catch(() => undefined);
      },
    };
  }

  /**
   * Says that a batch function has these records, in one call; a run that never ends is forgotten after `forMs`.
   * Never throws: no outcome depends on it.
   */
  async markRunning(records: readonly RunningRecord[], forMs: number): Promise<void> {
    if (records.length === 0) return;
    const keys = records.map(({ uri }) => stateKey(this.#job, uri));
    const identities = records.map(({ enqueue }) => enqueue.identity);
    const marked = this.#connection.use(
      (redis) => markRunning(redis)(keys.length, ...keys, forMs, ...identities),
      false,
    );
    await marked.catch(() => undefined);
  }

  /**
   * Of the uri: `queued` or `running` as long as an announced enqueue has no outcome, also where an earlier one has a
   * result. With an identity: of that enqueue alone.
   * @throws results_unavailable
   */
  async status(uri: string, { identity }: EnqueueQuery = {}): Promise<RecordStatus> {
    const replies = await this.#connection.use(
      (redis) =>
        redis
          .multi()
          .hmget(resultKey(this.#job, uri), 'status', 'value', 'identity', 'cancelled')
          .hmget(stateKey(this.#job, uri), 'payload', 'done', 'running', 'pending', 'runs')
          .get(newestKey(this.#job, uri))
          .time()
          .exec(),
      true,
    );
    const [result, state, newest, clock] = (replies ?? []).map(([error, reply]) => {
      if (error) throw this.#connection.unavailable(error);
      return reply;
    });
    const [seconds, micros] = clock as readonly [string | number, string | number];
    const found: Found = {
      result: result as Texts,
      state: state as Texts,
      newest: parseOrder(newest as string | null)?.identity,
      nowMs: Number(seconds) * 1000 + Number(micros) / 1000,
    };
    return identity === undefined ? statusOfUri(found) : statusOfEnqueue(found, identity);
  }

  /**
   * Gives the uri the outcome `cancelled`, which stays until no message of it can be left in the queue (5 days), also
   * when it is taken, unless a record is enqueued after it: what the batch function makes of earlier ones is dropped.
   * @returns false when it is too late: every enqueue that is known has its outcome, whether or not that was taken. True
   * again for a uri that is cancelled already.
   * @throws results_unavailable
   */
  async cancel(uri: string): Promise<boolean> {
    const error = new ServingError('cancelled', 'the record was cancelled before it had a result');
    const cancelled = await this.#connection.use((redis) => {
      const job = this.#job;
      const keys = [resultKey(job, uri), stateKey(job, uri), newestKey(job, uri), indexKey(job)];
      const channel = doneChannel(job, uri);
      return cancelUri(redis)(
        keys.length,
        ...keys,
        uri,
        this.#now(),
        OUTLASTS_QUEUE_MS,
        JSON.stringify(error),
        channel,
      );
    }, true);
    return cancelled === 1;
  }
}

type Texts = readonly (string | null)[];

/** What Redis has of a uri. */
interface Found {
  /** status, value, identity, cancelled. */
  readonly result: Texts;
  /** payload, done, running, pending, runs. */
  readonly state: Texts;
  /** Identity of the newest enqueue that had an outcome. */
  readonly newest: string | undefined;
  readonly nowMs: number;
}

function statusOfUri({ result, state, nowMs }: Found): RecordStatus {
  const [status, value] = result;
  const [payload, done, running, pending, runs] = state;
  const isRunning = Number(running ?? 0) > nowMs;
  if (pending && done == null) return isRunning && listed(pending, runs) ? 'running' : 'queued';
  if (value != null) return statusOf(status, value);
  if (payload == null) return 'unknown';
  if (done != null) return 'expired';
  // Of the first release, which lists no identities.
  return isRunning ? 'running' : 'queued';
}

function statusOfEnqueue({ result, state, newest, nowMs }: Found, wanted: string): RecordStatus {
  const [status, value, identity, cancelled] = result;
  const [, done, running, pending, runs] = state;
  if (value != null && identity === wanted) return statusOf(status, value);
  if (listed(cancelled, wanted)) return 'cancelled';
  if (done == null && listed(pending, wanted))
    return runs === wanted && Number(running ?? 0) > nowMs ? 'running' : 'queued';
  return newest === wanted && done != null ? 'expired' : 'unknown';
}

function listed(list: string | null | undefined, identity: string | null | undefined): boolean {
  return identity != null && (list?.split(' ').includes(identity) ?? false);
}

/** A hash of the old server has a value and no status. */
function statusOf(status: string | null | undefined, value: string): RecordStatus {
  const known = status ?? (value === 'NaN' ? 'failed' : 'succeeded');
  if (isRecordStatus(known)) return known;
  throw new ServingError('internal', `the stored result has the status ${JSON.stringify(known)}`);
}
