/**
 * Replaces the failure `max_receives_exceeded` of a record that was tried again by its new result, or frees its uri. Only that
 * failure of this very record is replaced: whoever took it and used the uri again has another record there. So what was
 * read and decided on is compared once more in the script that writes.
 */
import { errorCodeOf, ServingError } from '../contract/errors.ts';
import { doneChannel, indexKey, resultKey, stateKey } from '../contract/names.ts';
import type { RedisConnection } from './connection.ts';
import { OUTLASTS_QUEUE_MS, payloadDigest } from './record-states.ts';
import type { StoredFields } from './result/fields.ts';
import { script, TODAY } from './scripts.ts';

/**
 * KEYS: result, state, index. ARGV: what was read of result and state (7, '' = absent; see StoredState); then
 * uri, now ms, ttl ms, model, channel, claim ms, payload, and 5 texts of the new result; status '' leaves none and
 * claims the uri. Returns 0 when something is another by now.
 */
const REPLACE = `
local held = redis.call('HMGET', KEYS[1], 'status', 'error', 'finishedAt')
held[4] = redis.call('EXISTS', KEYS[1]) == 1 and '1' or '0'
local claim = redis.call('HMGET', KEYS[2], 'payload', 'done', 'claims')
for i = 1, 4 do if (held[i] or '') ~= ARGV[i] then return 0 end end
for i = 1, 3 do if (claim[i] or '') ~= ARGV[4 + i] then return 0 end end
local uri, now, ttl = ARGV[8], ARGV[9], ARGV[10]
redis.call('DEL', KEYS[1])
if ARGV[15] == '' then
  redis.call('ZREM', KEYS[3], uri)
  redis.call('DEL', KEYS[2])
  redis.call('HSET', KEYS[2], 'payload', ARGV[14], 'claims', 1)
  redis.call('PEXPIRE', KEYS[2], ARGV[13])
  return 1
end
redis.call('HSET', KEYS[1], 'status', ARGV[15], 'value', ARGV[16], 'model', ARGV[11], 'finishedAt', now)
if ARGV[17] ~= '' then redis.call('HSET', KEYS[1], 'error', ARGV[17]) end
if ARGV[18] ~= '' then redis.call('HSET', KEYS[1], 'outputs', ARGV[18]) end
if ARGV[19] ~= '' then redis.call('HSET', KEYS[1], 'exact', ARGV[19]) end
redis.call('PEXPIRE', KEYS[1], ttl)${TODAY}
redis.call('ZADD', KEYS[3], today + ttl, uri)
if redis.call('PTTL', KEYS[3]) < tonumber(ttl) then redis.call('PEXPIRE', KEYS[3], ttl) end
if claim[1] then
  redis.call('HSET', KEYS[2], 'done', 1)
  redis.call('PEXPIRE', KEYS[2], 2 * ttl)
end
redis.call('PUBLISH', ARGV[12], ARGV[15])
return 1`;
const replaceResult = script<number>('replaceResult', REPLACE);

/** Of the reading and the writing that follows it. */
const MAX_TRIES = 5;

export interface ReplacedRecord {
  readonly uri: string;
  /** Of the dead letter. */
  readonly messageId: string;
  /** The record's message, not a pointer to it: what its claim was made for. */
  readonly message: string;
}

/**
 * `replaced`: the uri now has this result, or is free and claimed for this record.
 * `superseded`: it has a result already, or was cancelled; there is nothing left to do.
 * `conflict`: it is another record's.
 */
export type Replacement = 'replaced' | 'superseded' | 'conflict';

/** What is stored under a uri, as far as a listing tells it. */
export interface StoredOutcome {
  readonly status: string;
  /** Of a failure. */
  readonly code: string | undefined;
  readonly message: string | undefined;
}

interface ReplacerOptions {
  readonly job: string;
  readonly ttlSeconds: number;
  readonly now: () => number;
}

/** Of the result: status, error, finishedAt, whether it exists ('0', '1'); of the claim: payload, done, claims. */
type StoredState = readonly (string | null)[];

export class ResultReplacer {
  readonly #connection: RedisConnection;
  readonly #options: ReplacerOptions;

  constructor(connection: RedisConnection, options: ReplacerOptions) {
    this.#connection = connection;
    this.#options = options;
  }

  /** As many as uris, in order; undefined where there is none. @throws results_unavailable */
  async outcomes(uris: readonly string[]): Promise<(StoredOutcome | undefined)[]> {
    const { job } = this.#options;
    return this.#connection.use(async (redis) => {
      const replies = uris.map((uri) =>
        Promise.all([redis.hmget(resultKey(job, uri), 'status', 'error'), redis.exists(resultKey(job, uri))])
          .then(([[status, error], exists]) => {
            if (exists === 0) return undefined;
            // A hash of the old server has no status.
            return { status: status ?? 'finished', ...errorOf(error) };
          })
          .catch((error: Error) => {
            if (isWrongType(error)) return undefined;
            throw error;
          }),
      );
      return Promise.all(replies);
    }, true);
  }

  /** Puts the new result in the place of the failure. @throws results_unavailable; then doing it again does no harm */
  store(record: ReplacedRecord, fields: StoredFields, model: string): Promise<Replacement> {
    return this.#replace(record, fields, model);
  }

  /** Takes the failure away and claims the uri for the same record, which may then be sent. @throws as `store` */
  free(record: ReplacedRecord): Promise<Replacement> {
    return this.#replace(record, { status: '', value: '', error: '', outputs: '', exact: '' }, '');
  }

  async #replace(
    record: ReplacedRecord,
    fields: Omit<StoredFields, 'status'> & { readonly status: string },
    model: string,
  ): Promise<Replacement> {
    const { job, ttlSeconds, now } = this.#options;
    const { uri, message } = record;
    const payload = payloadDigest(message);
    const keys = [resultKey(job, uri), stateKey(job, uri), indexKey(job)];
    for (let attempt = 1; attempt <= MAX_TRIES; attempt++) {
      const held = await this.#held(uri);
      if (held === undefined) return 'conflict';
      const verdict = decide(held, record.messageId, payload);
      if (verdict !== 'replaced') return verdict;
      const { status, value, error, outputs, exact } = fields;
      const asRead = held.map((field) => field ?? '');
      const ttlMs = ttlSeconds * 1000;
      const facts = [uri, now(), ttlMs, model, doneChannel(job, uri), OUTLASTS_QUEUE_MS, payload];
      const written = await this.#connection.use((redis) => {
        const texts = [status, value, error, outputs, exact];
        return replaceResult(redis)(3, ...keys, ...asRead, ...facts, ...texts);
        // Not repeatable: the second time would find its own result, and call it another's.
      }, false);
      if (written === 1) return 'replaced';
    }
    throw new ServingError('results_unavailable', 'the result changes faster than it can be replaced', {
      uri,
    });
  }

  /** Undefined when one of the keys holds something that is not ours. */
  #held(uri: string): Promise<StoredState | undefined> {
    const { job } = this.#options;
    return this.#connection.use(async (redis) => {
      try {
        // Not its value, which may be 32 MiB.
        const [result, exists, state] = await Promise.all([
          redis.hmget(resultKey(job, uri), 'status', 'error', 'finishedAt'),
          redis.exists(resultKey(job, uri)),
          redis.hmget(stateKey(job, uri), 'payload', 'done', 'claims'),
        ]);
        return [...result, String(exists), ...state];
      } catch (error) {
        if (isWrongType(error as Error)) return undefined;
        throw error;
      }
    }, true);
  }
}

/** `replaced`: the way is free. */
function decide(held: StoredState, messageId: string, payload: string): Replacement {
  const [status, error, , exists, claimed, finished] = held;
  const isOurs = claimed === payload;
  const isOther = claimed != null && !isOurs;
  if (exists === '0') return isOther && finished == null ? 'conflict' : 'replaced';
  if (status !== 'succeeded' && status !== 'cancelled') {
    const { code, message = '' } = errorOf(error);
    return code === 'max_receives_exceeded' && (message.includes(messageId) || isOurs)
      ? 'replaced'
      : 'conflict';
  }
  return isOther ? 'conflict' : 'superseded';
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
