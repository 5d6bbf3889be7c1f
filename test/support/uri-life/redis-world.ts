/** The life of a uri in a real Redis, by the real scripts. */
import { indexKey, leaseKey, newestKey, resultKey, stateKey } from '../../../lib/contract/names.ts';
import type { RedisConnection } from '../../../lib/redis/connection.ts';
import { ResultLeases } from '../../../lib/redis/leases.ts';
import { RecordStates } from '../../../lib/redis/record-states.ts';
import { ResultReplacer } from '../../../lib/redis/replace-result.ts';
import { ResultStore } from '../../../lib/redis/results.ts';
import { type Dump, LEASE, OPTIONS, TTL_SECONDS, URI, UriWorld } from './world.ts';

type Fields = Record<string, string>;

/** KEYS: result, state, lease, idempotency record, index, and a lease that an earlier step left. */
const RESTORE = `
redis.call('DEL', unpack(KEYS))
for i = 1, 3 do
  local fields = cjson.decode(ARGV[i + 1])
  if #fields > 0 then
    redis.call('HSET', KEYS[i], unpack(fields))
    redis.call('PEXPIRE', KEYS[i], ARGV[1])
  end
end
if ARGV[5] ~= '' then redis.call('SET', KEYS[4], ARGV[5], 'PX', ARGV[1]) end
if ARGV[6] ~= '' then
  redis.call('ZADD', KEYS[5], redis.call('TIME')[1] * 1000 + ARGV[1], ARGV[6])
  redis.call('PEXPIRE', KEYS[5], ARGV[1])
end
return 0`;

const DUMP = `
local hashes, ttls = {}, {}
for i = 1, 3 do hashes[i] = redis.call('HGETALL', KEYS[i]) end
for i = 1, #KEYS do ttls[i] = redis.call('PTTL', KEYS[i]) end
return {hashes, redis.call('GET', KEYS[4]) or '', redis.call('ZSCORE', KEYS[5], ARGV[1]) and 1 or 0, ttls}`;

export class RedisWorld extends UriWorld {
  readonly #connection: RedisConnection;
  readonly #job: string;

  constructor(connection: RedisConnection, job: string) {
    const options = { job, ...OPTIONS };
    super({
      results: new ResultStore(connection, options),
      states: new RecordStates(connection, options),
      replacer: new ResultReplacer(connection, options),
      leases: new ResultLeases(connection, job),
    });
    this.#connection = connection;
    this.#job = job;
  }

  get #setAside(): string {
    return leaseKey(this.#job, this.leaseId, URI);
  }

  /** The keys, in the order of the scripts below. */
  get #keys(): string[] {
    const job = this.#job;
    return [resultKey(job, URI), stateKey(job, URI), this.#setAside, newestKey(job, URI), indexKey(job)];
  }

  async restore({ result, state, held, newest, listed }: Dump): Promise<void> {
    const left = this.#setAside;
    this.leaseId = LEASE;
    const hashes = [result, state, held].map((fields) => JSON.stringify(Object.entries(fields).flat()));
    const values = [TTL_SECONDS * 1000, ...hashes, newest, listed ? URI : ''];
    await this.#connection.use((redis) => redis.eval(RESTORE, 6, ...this.#keys, left, ...values), false);
  }

  /** @throws when a key has no time to live */
  async dump(): Promise<Dump> {
    const keys = this.#keys;
    const reply = await this.#connection.use((redis) => redis.eval(DUMP, keys.length, ...keys, URI), false);
    const [hashes, newest, isListed, ttls] = reply as [string[][], string, number, number[]];
    for (const [i, ttl] of ttls.entries()) {
      if (ttl === -1) throw new Error(`${keys[i]} has no time to live`);
    }
    const [result, state, held] = hashes.map(fieldsOf) as [Fields, Fields, Fields];
    return { result, state, held, newest, listed: isListed === 1 };
  }

  protected async acknowledge(): Promise<void> {
    await this.#connection.use((redis) => redis.unlink(this.#setAside), false);
  }

  protected async vanish(): Promise<void> {
    await this.#connection.use((redis) => redis.del(resultKey(this.#job, URI)), false);
  }
}

/** Names and values in turn. */
function fieldsOf(flat: readonly string[]): Fields {
  const fields: Fields = {};
  for (let i = 0; i + 1 < flat.length; i += 2) fields[flat[i] as string] = flat[i + 1] as string;
  return fields;
}
