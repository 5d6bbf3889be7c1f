/**
 * Replaces the failure `max_receives_exceeded` of a dead letter that was replayed by its new result, or frees its uri so that
 * the record can be sent again. A uri that was used again may hold the result of another record by then, so the script
 * that writes first compares what is stored with what the decision was based on.
 */
import type { Redis } from 'ioredis';
import type { Enqueue } from '../contract/enqueue.ts';
import { errorCodeOf, ServingError } from '../contract/errors.ts';
import { doneChannel, indexKey, newestKey, resultKey, stateKey } from '../contract/names.ts';
import { forEachHome, type RedisConnection } from './connection.ts';
import { isLater, ORDER, parseOrder, serializeOrder } from './order.ts';
import { OUTLASTS_QUEUE_MS, payloadDigest } from './record-states.ts';
import type { StoredFields } from './result/fields.ts';
import { ResultIndex } from './result-index.ts';
import { script, TODAY } from './scripts.ts';

/**
 * KEYS: result, state, index, idempotency record. ARGV: the 10 values that were read of them ('': absent; see
 * StoredState); then uri, now ms, ttl ms, model, channel, ttl ms of state and idempotency record, payload, order, identity, and
 * the 6 texts of the new result. With status '' the failure is deleted and the enqueue announced. Returns 0 when a stored
 * value has changed since it was read.
 */
const REPLACE = `${ORDER}
local held = redis.call('HMGET', KEYS[1], 'status', 'error', 'finishedAt', 'identity')
held[5] = redis.call('EXISTS', KEYS[1]) == 1 and '1' or '0'
local state = redis.call('HMGET', KEYS[2], 'payload', 'done', 'pending', 'last')
for i = 1, 5 do if (held[i] or '') ~= ARGV[i] then return 0 end end
for i = 1, 4 do if (state[i] or '') ~= ARGV[5 + i] then return 0 end end
if (redis.call('GET', KEYS[4]) or '') ~= ARGV[10] then return 0 end
local uri, now, ttl, model, channel, keep = unpack(ARGV, 11, 16)
local payload, order, identity, status = unpack(ARGV, 17, 20)
local pending = not state[2] and state[3] or ''
if status == '' then
  if not held[4] or held[4] == identity then
    redis.call('DEL', KEYS[1])
    redis.call('ZREM', KEYS[3], uri)
  end
  redis.call('HSET', KEYS[2], 'payload', payload, 'last', identity, 'pending', withFirst(pending, identity))
  redis.call('HDEL', KEYS[2], 'done')
  redis.call('PEXPIRE', KEYS[2], keep)
  return 1
end
redis.call('DEL', KEYS[1])
local _, _, replays = orderOf(order)
redis.call('HSET', KEYS[1], 'status', status, 'value', ARGV[21], 'model', model, 'finishedAt', now,
  'identity', identity, 'replays', replays)
if ARGV[22] ~= '' then redis.call('HSET', KEYS[1], 'error', ARGV[22]) end
if ARGV[23] ~= '' then redis.call('HSET', KEYS[1], 'outputs', ARGV[23]) end
if ARGV[24] ~= '' then redis.call('HSET', KEYS[1], 'exact', ARGV[24]) end
if ARGV[25] ~= '' then redis.call('HSET', KEYS[1], 'large', ARGV[25]) end
redis.call('PEXPIRE', KEYS[1], ttl)${TODAY}
redis.call('SET', KEYS[4], order, 'PX', math.max(tonumber(ttl), tonumber(keep)))
redis.call('ZADD', KEYS[3], today + ttl, uri)
if redis.call('PTTL', KEYS[3]) < tonumber(ttl) then redis.call('PEXPIRE', KEYS[3], ttl) end
if state[1] then
  local left = without(pending, identity)
  redis.call('HSET', KEYS[2], 'pending', left)
  if left == '' then
    redis.call('HSET', KEYS[2], 'done', 1)
    redis.call('PEXPIRE', KEYS[2], 2 * ttl)
  end
end
redis.call('PUBLISH', channel, status)
return 1`;
const replaceResult = script<number>('replaceResult', REPLACE);

/** How often reading and writing are repeated when the stored values change in between. */
const MAX_ATTEMPTS = 5;

export interface ReplacedRecord {
  readonly uri: string;
  /** Of this replay: later than the same enqueue before, and earlier than every later one of the uri. */
  readonly enqueue: Enqueue;
  /** The record's message, not a pointer to it. */
  readonly message: string;
}

/**
 * `replaced`: the uri has the new result, or is free and the record is announced.
 * `superseded`: the record has a result already, or was cancelled; nothing is left to do.
 * `conflict`: the uri was used again for another record.
 */
export type Replacement = 'replaced' | 'superseded' | 'conflict';

/** What a listing shows of the result that is stored under a uri. */
export interface StoredOutcome {
  readonly status: string;
  /** Error code of a failed record. */
  readonly code: string | undefined;
  readonly message: string | undefined;
}

interface ReplacerOptions {
  readonly job: string;
  readonly ttlSeconds: number;
  readonly now: () => number;
}

/**
 * The result's status, error, finishedAt, identity and existence ('0', '1'); the state's payload, done, pending and last; the
 * idempotency record.
 */
type StoredState = readonly (string | null)[];

export class ResultReplacer {
  readonly #connection: RedisConnection;
  readonly #options: ReplacerOptions;
  readonly #index: ResultIndex;

  constructor(connection: RedisConnection, options: ReplacerOptions) {
    this.#connection = connection;
    this.#options = options;
    this.#index = new ResultIndex(connection, options.job);
  }

  /** @returns one entry for each uri, in order; undefined where nothing is stored. @throws results_unavailable */
  async outcomes(uris: readonly string[]): Promise<(StoredOutcome | undefined)[]> {
    const { job } = this.#options;
    const read = async (redis: Redis, key: string) => {
      try {
        const [[status, error], exists] = await Promise.all([
          redis.hmget(key, 'status', 'error'),
          redis.exists(key),
        ]);
        if (exists === 0) return undefined;
        // Analytics Zoo Cluster Serving stored no status.
        return { status: status ?? 'finished', ...errorOf(error) };
      } catch (error) {
        if (isWrongType(error as Error)) return undefined;
        throw error;
      }
    };
    const outcomes: (StoredOutcome | undefined)[] = [];
    const homes = uris.map((uri) => this.#connection.home(job, uri));
    await forEachHome(homes, async (home, places) => {
      const keys = places.map((i) => resultKey(job, uris[i] as string));
      const all = (redis: Redis) => Promise.all(keys.map((key) => read(redis, key)));
      const found = await this.#connection.use(all, true, home);
      for (const [i, place] of places.entries()) outcomes[place] = found[i];
    });
    return outcomes;
  }

  /** Replaces the failure by the new result. @throws results_unavailable; repeating the call is safe */
  store(record: ReplacedRecord, fields: StoredFields, model: string): Promise<Replacement> {
    return this.#replace(record, fields, model);
  }

  /** Deletes the failure and announces the record, which may then be sent again. @throws as `store` */
  free(record: ReplacedRecord): Promise<Replacement> {
    return this.#replace(record, { status: '', value: '', error: '', outputs: '', exact: '' }, '');
  }

  async #replace(
    record: ReplacedRecord,
    fields: Omit<StoredFields, 'status'> & { readonly status: string },
    model: string,
  ): Promise<Replacement> {
    const { job, ttlSeconds, now } = this.#options;
    const { uri, message, enqueue } = record;
    const payload = payloadDigest(message);
    const home = this.#connection.home(job, uri);
    const keys = [resultKey(job, uri), stateKey(home, uri), indexKey(home), newestKey(home, uri)];
    for (let attempt = 1; attempt <= MAX_ATTEMPTS; attempt++) {
      const held = await this.#held(uri);
      if (held === undefined) return 'conflict';
      const verdict = decide(held, record, payload);
      if (verdict !== 'replaced') return verdict;
      const { status, value, error, outputs, exact, large = '' } = fields;
      const asRead = held.map((field) => field ?? '');
      const ttlMs = ttlSeconds * 1000;
      const facts = [uri, now(), ttlMs, model, doneChannel(job, uri), OUTLASTS_QUEUE_MS, payload];
      const order = [serializeOrder(enqueue), enqueue.identity];
      const texts = [status, value, error, outputs, exact, large];
      const run = (redis: Redis) =>
        replaceResult(redis)(keys.length, ...keys, ...asRead, ...facts, ...order, ...texts);
      await this.#index.announce([home], ttlMs);
      // Not repeatable: a second call would find its own result there and report a conflict.
      const written = await this.#connection.use(run, false, home);
      if (written === 1) return 'replaced';
    }
    throw new ServingError('results_unavailable', 'the result changes faster than it can be replaced', {
      uri,
    });
  }

  /** Undefined when one of the keys has another type. */
  #held(uri: string): Promise<StoredState | undefined> {
    const { job } = this.#options;
    const home = this.#connection.home(job, uri);
    const read = async (redis: Redis) => {
      try {
        // The value is left out, because it may have 32 MiB.
        const [result, exists, state, newest] = await Promise.all([
          redis.hmget(resultKey(job, uri), 'status', 'error', 'finishedAt', 'identity'),
          redis.exists(resultKey(job, uri)),
          redis.hmget(stateKey(home, uri), 'payload', 'done', 'pending', 'last'),
          redis.get(newestKey(home, uri)),
        ]);
        return [...result, String(exists), ...state, newest];
      } catch (error) {
        if (isWrongType(error as Error)) return undefined;
        throw error;
      }
    };
    return this.#connection.use(read, true, home);
  }
}

/** What becomes of the uri, judged by what is stored; `replaced` means that the write may go on. */
function decide(held: StoredState, record: ReplacedRecord, payload: string): Replacement {
  const [status, , , identity, exists, , , , , order] = held;
  const { enqueue } = record;
  const newest = parseOrder(order ?? null);
  if (newest && !isLater(enqueue, newest)) {
    // The outcome of an older enqueue is never shown again: this replay was done before, or a later enqueue has its outcome.
    const isSame = newest.identity === enqueue.identity || isAnnounced(held, payload, newest.identity);
    return isSame || status === 'cancelled' ? 'superseded' : 'conflict';
  }
  if (exists === '0') return isForOther(held, enqueue.identity) ? 'conflict' : 'replaced';
  // Without an idempotency record or an identity, nothing says which of the two is later.
  if (identity !== enqueue.identity) return newest && identity != null ? 'replaced' : 'conflict';
  if (status === 'succeeded') return 'superseded';
  return isExhausted(held) ? 'replaced' : 'conflict';
}

/** Whether this enqueue is the last one that was announced, and has this payload. */
function isAnnounced([, , , , , stored, , , last]: StoredState, payload: string, identity: string): boolean {
  return stored === payload && last === identity;
}

/** Whether another record waits for its outcome. */
function isForOther(held: StoredState, identity: string): boolean {
  const [, , , , , , finished, pending] = held;
  return finished == null && (pending ?? '').split(' ').some((one) => one !== '' && one !== identity);
}

function isExhausted([, error]: StoredState): boolean {
  return errorOf(error).code === 'max_receives_exceeded';
}

function errorOf(text: string | null | undefined): { code: string | undefined; message: string | undefined } {
  try {
    const { code, message } = JSON.parse(text || '{}') as { code?: unknown; message?: unknown };
    return {
      code: errorCodeOf(code) ?? (typeof code === 'string' ? code : undefined),
      message: typeof message === 'string' ? message : undefined,
    };
  } catch {
    return { code: undefined, message: undefined };
  }
}

function isWrongType(error: Error): boolean {
  return error.message.startsWith('WRONGTYPE');
}
