/**
 * The state of a record by its uri: its status, the claim on it before it is sent, its cancellation. Each question is
 * answered in one step inside Redis, because the batch function may write between two. The key of a claim must not look
 * like a result to old clients (see names.ts).
 */
import { createHash, randomUUID } from 'node:crypto';
import { ServingError } from '../contract/errors.ts';
import { doneChannel, indexKey, resultKey, stateKey } from '../contract/names.ts';
import { isRecordStatus, type RecordStatus } from '../contract/result.ts';
import type { Claim, SentRecord } from '../pipeline/submit.ts';
import type { RedisConnection } from './connection.ts';
import { script, TODAY } from './scripts.ts';

/** Characters of the tokens of the last claims on a uri: seven of them, as many as a hash still keeps in its small form. */
const TOKENS_LENGTH = 63;

/**
 * KEYS: state, result. ARGV: payload, ttl ms, token. Returns 'send', 'done' (the same record has its outcome) or 'other'.
 * `claims` counts those who send: the state goes when every one of them has failed to. Who asks again with the same token,
 * because the answer got lost, is not counted again, unless seven others came in between.
 */
const CLAIM = `
local held = redis.call('HMGET', KEYS[1], 'payload', 'done', 'tokens')
local finished = redis.call('EXISTS', KEYS[2]) == 1
if held[1] ~= ARGV[1] and (held[1] or finished) then return 'other' end
if finished then return 'done' end
if held[2] then redis.call('DEL', KEYS[1]) end
local tokens = not held[2] and held[3] or ''
if not string.find(tokens, ARGV[3], 1, true) then
  tokens = string.sub(ARGV[3] .. ' ' .. tokens, 1, ${TOKENS_LENGTH})
  redis.call('HSET', KEYS[1], 'payload', ARGV[1], 'tokens', tokens)
  redis.call('HINCRBY', KEYS[1], 'claims', 1)
end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 'send'`;
const claimUri = script<'send' | 'done' | 'other'>('claimUri', CLAIM);

/** KEYS: state. ARGV: payload. */
const RELEASE_CLAIM = `
local held = redis.call('HMGET', KEYS[1], 'payload', 'done')
if held[1] ~= ARGV[1] or held[2] then return 0 end
if redis.call('HINCRBY', KEYS[1], 'claims', -1) < 1 then redis.call('DEL', KEYS[1]) end
return 1`;
const releaseUri = script<number>('releaseUri', RELEASE_CLAIM);

/** KEYS: result, state, index. ARGV: uri, now ms, ttl ms, error, channel. Returns 0 when there is a result. */
const CANCEL = `
if redis.call('HGET', KEYS[1], 'status') == 'cancelled' then return 1 end
if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
redis.call('HSET', KEYS[1], 'status', 'cancelled', 'value', 'NaN', 'error', ARGV[4], 'model', '', 'finishedAt', ARGV[2])
redis.call('PEXPIRE', KEYS[1], ARGV[3])
if redis.call('PEXPIRE', KEYS[2], ARGV[3]) == 1 then redis.call('HSET', KEYS[2], 'done', 1) end${TODAY}
redis.call('ZADD', KEYS[3], today + ARGV[3], ARGV[1])
if redis.call('PTTL', KEYS[3]) < tonumber(ARGV[3]) then redis.call('PEXPIRE', KEYS[3], ARGV[3]) end
redis.call('PUBLISH', ARGV[5], 'cancelled')
return 1`;
const cancelUri = script<number>('cancelUri', CANCEL);

/**
 * KEYS: states. ARGV: for how long, in ms. Only of records that are claimed and have no outcome. By Redis' own clock:
 * the one who asks may have another. A key that holds something else (pcall) is not ours to touch.
 */
const MARK_RUNNING = `${TODAY}
local over = today + ARGV[1]
for i = 1, #KEYS do
  local held = redis.pcall('HMGET', KEYS[i], 'payload', 'done')
  if held[1] and not held[2] then redis.call('HSET', KEYS[i], 'running', string.format('%.0f', over)) end
end
return 0`;
const markRunning = script<number>('markRunning', MARK_RUNNING);

/** The queue keeps a message for 4 days (infra/stack/queue.yml); a day later none can be left that would run. */
export const OUTLASTS_QUEUE_MS = 5 * 24 * 3600 * 1000;

/** What a claim is made for. @param message body of the record's message, not a pointer to it */
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
   * Takes the uri for this payload; claims of one tick share a round trip. The same payload may claim again.
   * @throws conflict when the uri is in use for another payload, or has a result nobody claimed; results_unavailable
   */
  async claim({ uri, message }: SentRecord): Promise<Claim> {
    const state = stateKey(this.#job, uri);
    const payload = payloadDigest(message);
    const token = randomUUID().slice(0, 8);
    const keys = [state, resultKey(this.#job, uri)];
    const found = await this.#connection.use(
      (redis) => claimUri(redis)(2, ...keys, payload, OUTLASTS_QUEUE_MS, token),
      true,
    );
    if (found === 'other') {
      const hint = 'take its result first, or use another uri';
      throw new ServingError('conflict', `the uri is in use for another payload; ${hint}`, { uri });
    }
    return {
      send: found === 'send',
      release: async () => {
        const released = this.#connection.use((redis) => releaseUri(redis)(1, state, payload), false);
        await released.catch(() => undefined);
      },
    };
  }

  /**
   * Says that a batch function has these records, in one call; a run that never ends is forgotten after `forMs`.
   * Never throws: no outcome depends on it.
   */
  async markRunning(uris: readonly string[], forMs: number): Promise<void> {
    if (uris.length === 0) return;
    const keys = uris.map((uri) => stateKey(this.#job, uri));
    const marked = this.#connection.use((redis) => markRunning(redis)(keys.length, ...keys, forMs), false);
    await marked.catch(() => undefined);
  }

  /** @throws results_unavailable */
  async status(uri: string): Promise<RecordStatus> {
    const replies = await this.#connection.use(
      (redis) =>
        redis
          .multi()
          .hmget(resultKey(this.#job, uri), 'status', 'value')
          .hmget(stateKey(this.#job, uri), 'payload', 'done', 'running')
          .time()
          .exec(),
      true,
    );
    const [result, state, clock] = (replies ?? []).map(([error, fields]) => {
      if (error) throw this.#connection.unavailable(error);
      return fields as (string | number | null)[];
    });
    const [status, value] = result ?? [];
    // A hash of the old server has a value and no status.
    if (value != null) return statusOf(status ?? (value === 'NaN' ? 'failed' : 'succeeded'));
    const [payload, done, runningUntilMs] = state ?? [];
    if (payload == null) return 'unknown';
    if (done != null) return 'expired';
    // TIME gives seconds and microseconds.
    const nowMs = Number(clock?.[0]) * 1000 + Number(clock?.[1]) / 1000;
    return Number(runningUntilMs ?? 0) > nowMs ? 'running' : 'queued';
  }

  /**
   * Gives the uri the outcome `cancelled`, which stays until no message of it can be left in the queue (5 days), also
   * when it is taken: what the batch function makes of the record is dropped.
   * @returns false when it is too late: there is a result. True again for a uri that is cancelled already.
   * @throws results_unavailable
   */
  async cancel(uri: string): Promise<boolean> {
    const error = new ServingError('cancelled', 'the record was cancelled before it had a result');
    const cancelled = await this.#connection.use((redis) => {
      const keys = [resultKey(this.#job, uri), stateKey(this.#job, uri), indexKey(this.#job)];
      const channel = doneChannel(this.#job, uri);
      return cancelUri(redis)(
        3,
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

function statusOf(status: string | number): RecordStatus {
  if (isRecordStatus(status)) return status;
  throw new ServingError('internal', `the stored result has the status ${JSON.stringify(status)}`);
}
