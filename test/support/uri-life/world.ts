/**
 * The life of a uri in a real Redis, through the product's own classes and scripts. A state is built by writing its keys
 * as an earlier step left them, so that each step costs the same however long the way to it was.
 */
import { ServingError } from '../../../lib/contract/errors.ts';
import { indexKey, leaseKey, newestKey, resultKey, stateKey } from '../../../lib/contract/names.ts';
import type { Result } from '../../../lib/contract/result.ts';
import type { RedisConnection } from '../../../lib/redis/connection.ts';
import { ResultLeases } from '../../../lib/redis/leases.ts';
import { RecordStates } from '../../../lib/redis/record-states.ts';
import { ResultReplacer } from '../../../lib/redis/replace-result.ts';
import { ResultStore } from '../../../lib/redis/results.ts';
import { serializeResult } from '../../../lib/results/fields.ts';
import type { Action, Place, UriState } from './model.ts';

const URI = 'the uri';
const LEASE = 'lease';
const TTL_SECONDS = 3_600;

/** The entries of the uri in Redis, with times as ranks. */
export interface Dump {
  readonly result: Readonly<Record<string, string>>;
  readonly state: Readonly<Record<string, string>>;
  readonly held: Readonly<Record<string, string>>;
  readonly newest: string;
  readonly listed: boolean;
}

export const EMPTY: Dump = { result: {}, state: {}, held: {}, newest: '', listed: false };

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

/** A job of its own for one uri; jobs share a connection. */
export class UriWorld {
  readonly #connection: RedisConnection;
  readonly #job: string;
  readonly #results: ResultStore;
  readonly #states: RecordStates;
  readonly #replacer: ResultReplacer;
  readonly #leases: ResultLeases;
  #setAside: string;

  constructor(connection: RedisConnection, job: string) {
    const options = { job, ttlSeconds: TTL_SECONDS, now: () => 5 };
    this.#connection = connection;
    this.#job = job;
    this.#results = new ResultStore(connection, options);
    this.#states = new RecordStates(connection, options);
    this.#replacer = new ResultReplacer(connection, options);
    this.#leases = new ResultLeases(connection, job);
    this.#setAside = leaseKey(job, LEASE, URI);
  }

  /** The keys, in the order of the scripts below. */
  get #keys(): string[] {
    const job = this.#job;
    return [resultKey(job, URI), stateKey(job, URI), this.#setAside, newestKey(job, URI), indexKey(job)];
  }

  async restore({ result, state, held, newest, listed }: Dump): Promise<void> {
    const left = this.#setAside;
    this.#setAside = leaseKey(this.#job, LEASE, URI);
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

  /** The action's result for its caller, in the model's terms (model.ts). */
  async act(action: Action, state: UriState): Promise<unknown> {
    switch (action.do) {
      case 'enqueue':
        if (action.announce) await this.#announce(action.identity);
        return undefined;
      case 'retry':
        return undefined;
      case 'succeed':
      case 'fail': {
        const message = state.messages[action.message] as Place;
        return this.#results.save(
          [{ uri: URI, fields: outcomeOf(message, action.do), enqueue: message }],
          'v',
        );
      }
      case 'take':
        return shown(this.#results.take(URI, { identity: action.identity }));
      case 'lease':
        return this.#lease();
      case 'acknowledge':
        await this.#connection.use((redis) => redis.unlink(this.#setAside), false);
        return undefined;
      case 'release': {
        const lease = { uri: URI, leaseId: this.#setAside.split(':')[1] as string, leftMs: 60_000 };
        await this.#leases.release([{ fields: {}, error: undefined, wasListed: true, lease }]);
        return undefined;
      }
      case 'cancel':
        return this.#states.cancel(URI);
      case 'vanish':
        await this.#connection.use((redis) => redis.del(resultKey(this.#job, URI)), false);
        return undefined;
      case 'replay':
      case 'resend':
        return this.#replay(action, state);
    }
  }

  async #replay(action: Extract<Action, { archived: number }>, state: UriState): Promise<unknown> {
    const { identity, sentAt, replays } = state.archived[action.archived] as Place;
    const enqueue = { identity, sentAt, replays: replays + 1 };
    const record = { uri: URI, messageId: identity, enqueue, message: payloadOf(identity) };
    if (action.do === 'replay') return this.#replacer.store(record, outcomeOf(enqueue, 'succeed'), 'v');
    return action.announce ? this.#replacer.free(record) : undefined;
  }

  async #announce(identity: string): Promise<void> {
    await this.#states.announce({ uri: URI, identity, message: payloadOf(identity) });
  }

  /** Takes, and keeps the key in which the result was put aside. */
  async #lease(): Promise<unknown> {
    const [taken] = await this.#leases.take([URI]);
    const { status, identity = '' } = taken?.fields ?? {};
    if (taken && status !== undefined && status !== 'cancelled') {
      this.#setAside = leaseKey(this.#job, taken.lease.leaseId, URI);
    }
    return status === undefined ? undefined : { identity, kind: status };
  }

  /** The clients' view: the status and the outcome, without an identity and with each of these. */
  async look(identities: readonly string[]): Promise<unknown> {
    const asked = [undefined, ...identities];
    return Promise.all(
      asked.map(async (identity) => ({
        status: await this.#states.status(URI, { identity }),
        found: await shown(this.#results.get(URI, { identity })),
      })),
    );
  }
}

const payloadOf = (identity: string): string => `payload of ${identity}`;

/** Its value tells of which enqueue it is. */
function outcomeOf({ identity, replays }: Place, how: 'succeed' | 'fail') {
  const text = `${identity}.${replays}`;
  if (how === 'fail') {
    const error = new ServingError(
      'max_receives_exceeded',
      `the record failed and was archived as ${identity}`,
    );
    return serializeResult({ ok: false, error }, undefined);
  }
  const outputs = [{ name: 'y', dtype: 'string' as const, shape: [1], data: [text] }];
  return serializeResult({ ok: true, outputs }, undefined);
}

async function shown(asked: Promise<Result | undefined>): Promise<unknown> {
  try {
    const result = await asked;
    if (!result) return undefined;
    const [text] = result.outputs[0]?.data as readonly string[];
    if (text?.split('.')[0] !== result.identity)
      throw new Error(`${result.identity} has the value of ${text}`);
    return { identity: result.identity, kind: 'succeeded' };
  } catch (error) {
    if (!(error instanceof ServingError)) throw error;
    if (error.code === 'cancelled') return { identity: '', kind: 'cancelled' };
    const [, identity] = /archived as (.*)$/.exec(error.message) ?? [];
    if (identity === undefined) throw error;
    return { identity, kind: 'failed' };
  }
}

/** Names and values in turn. */
function fieldsOf(flat: readonly string[]): Fields {
  const fields: Fields = {};
  for (let i = 0; i + 1 < flat.length; i += 2) fields[flat[i] as string] = flat[i + 1] as string;
  return fields;
}
