/** The counts of a canary's trial: a hash for each trial, to which every environment adds. */
import type { Redis } from 'ioredis';
import { trialKey } from '../contract/names.ts';
import type { TrialCounts } from '../results/store.ts';
import type { RedisConnection } from './connection.ts';

const TTL_MS = 2 * 86_400_000;

export class StoredTrialCounts implements TrialCounts {
  readonly #connection: RedisConnection;
  readonly #job: string;

  constructor(connection: RedisConnection, { job }: { readonly job: string }) {
    this.#connection = connection;
    this.#job = job;
  }

  async add(trial: string, counts: ReadonlyMap<string, number>): Promise<void> {
    const key = trialKey(this.#job, trial);
    const send = async (redis: Redis) => {
      const commands = redis.multi();
      for (const [name, count] of counts) commands.hincrbyfloat(key, name, count);
      await commands.pexpire(key, TTL_MS).exec();
    };
    await this.#connection.use(send, false, key);
  }

  async read(trial: string): Promise<ReadonlyMap<string, number>> {
    const key = trialKey(this.#job, trial);
    const fields = await this.#connection.use((redis) => redis.hgetall(key), true, key);
    return new Map(Object.entries(fields).map(([name, count]) => [name, Number(count)]));
  }
}
