/**
 * Replaces the failure `max_receives_exceeded` of a dead letter that was replayed by its new result, or frees its uri so that
 * the record can be sent again. A uri that was used again may hold the result of another record by then, so the script
 * that writes first compares what is stored with what the decision was based on.
 */

import type { Redis } from 'ioredis';
import { asError, ServingError } from '../contract/errors.ts';
import { doneChannel, indexKey, newestKey, resultKey, stateKey } from '../contract/names.ts';
import { elementAt } from '../contract/present.ts';
import { type StoredFields, textsOf } from '../results/fields.ts';
import { serializeOrder } from '../results/order.ts';
import { OUTLASTS_QUEUE_MS, payloadDigest } from '../results/record-state.ts';
import { decide, errorOf, RESULT_FIELDS, STATE_FIELDS, type StoredState } from '../results/replacement.ts';
import type {
  ReplacedRecord,
  Replacement,
  Replacer,
  ReplacerOptions,
  StoredOutcome,
} from '../results/store.ts';
import { forEachHome, type RedisConnection } from './connection.ts';
import { ResultIndex } from './result-index.ts';
import { REPLACE } from './scripts/generated.ts';
import { script } from './scripts.ts';

const replaceResult = script<number>('replaceResult', REPLACE);

/** How often reading and writing are repeated when the stored values change in between. */
const MAX_ATTEMPTS = 5;

export class ResultReplacer implements Replacer {
  readonly #connection: RedisConnection;
  readonly #options: ReplacerOptions;
  readonly #index: ResultIndex;

  constructor(connection: RedisConnection, options: ReplacerOptions) {
    this.#connection = connection;
    this.#options = options;
    this.#index = new ResultIndex(connection, options.job);
  }

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
        if (isWrongType(asError(error))) return undefined;
        throw error;
      }
    };
    const outcomes: (StoredOutcome | undefined)[] = [];
    const homes = uris.map((uri) => this.#connection.home(job, uri));
    await forEachHome(homes, async (home, places) => {
      const keys = places.map((i) => resultKey(job, elementAt(uris, i, 'uris')));
      const all = (redis: Redis) => Promise.all(keys.map((key) => read(redis, key)));
      const found = await this.#connection.use(all, true, home);
      for (const [i, place] of places.entries()) outcomes[place] = found[i];
    });
    return outcomes;
  }

  store(record: ReplacedRecord, fields: StoredFields, model: string): Promise<Replacement> {
    return this.#replace(record, fields, model);
  }

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
    const ttlMs = ttlSeconds * 1000;
    for (let attempt = 1; attempt <= MAX_ATTEMPTS; attempt++) {
      const held = await this.#held(uri);
      if (held === undefined) return 'conflict';
      const verdict = decide(held, record, payload);
      if (verdict !== 'replaced') return verdict;
      const options = {
        was: held,
        uri,
        identity: enqueue.identity,
        order: serializeOrder(enqueue),
        payload,
        keepMs: String(OUTLASTS_QUEUE_MS),
        now: String(now()),
        ttlMs: String(ttlMs),
        model,
        channel: doneChannel(job, uri),
        ...textsOf(fields),
      };
      const run = (redis: Redis) => replaceResult(redis)(keys, options, fields.value);
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
          redis.hmget(resultKey(job, uri), ...RESULT_FIELDS),
          redis.exists(resultKey(job, uri)),
          redis.hmget(stateKey(home, uri), ...STATE_FIELDS),
          redis.get(newestKey(home, uri)),
        ]);
        const values = [...result, ...state, exists === 1 ? '1' : null, newest];
        const names = [...RESULT_FIELDS, ...STATE_FIELDS, 'exists', 'newest'];
        return Object.fromEntries(names.flatMap((name, i) => (values[i] == null ? [] : [[name, values[i]]])));
      } catch (error) {
        if (isWrongType(asError(error))) return undefined;
        throw error;
      }
    };
    return this.#connection.use(read, true, home);
  }
}

function isWrongType(error: Error): boolean {
  return error.message.startsWith('WRONGTYPE');
}
