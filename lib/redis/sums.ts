/** Sums to which every environment of a job adds, a hash for each group of them: a canary's trial, a month's costs. */
import type { ChainableCommander, Redis } from 'ioredis';
import { budgetKey, trialKey } from '../contract/names.ts';
import type { Sums, SumsOptions } from '../results/store.ts';
import type { RedisConnection } from './connection.ts';

const DAY_MS = 86_400_000;
/** A cost that is added twice is seconds of one environment; one that is given up because a connection broke raises an alarm. */
const KINDS: Readonly<
  Record<
    SumsOptions['kind'],
    {
      readonly keyOf: (job: string, group: string) => string;
      readonly ttlMs: number;
      readonly isRepeated: boolean;
    }
  >
> = {
  trial: { keyOf: trialKey, ttlMs: 2 * DAY_MS, isRepeated: false },
  budget: { keyOf: budgetKey, ttlMs: 32 * DAY_MS, isRepeated: true },
};

export class StoredSums implements Sums {
  readonly #connection: RedisConnection;
  readonly #keyOf: (group: string) => string;
  readonly #ttlMs: number;
  readonly #isRepeated: boolean;

  constructor(connection: RedisConnection, { job, kind }: SumsOptions) {
    const { keyOf, ttlMs, isRepeated } = KINDS[kind];
    this.#connection = connection;
    this.#keyOf = (group) => keyOf(job, group);
    this.#ttlMs = ttlMs;
    this.#isRepeated = isRepeated;
  }

  async add(group: string, amounts: ReadonlyMap<string, number>): Promise<ReadonlyMap<string, number>> {
    const key = this.#keyOf(group);
    const send = async (redis: Redis) => {
      const commands = redis.multi();
      for (const [name, amount] of amounts) commands.hincrbyfloat(key, name, amount);
      return answersOf(commands.pexpire(key, this.#ttlMs));
    };
    const answers = await this.#connection.use(send, this.#isRepeated, key);
    return new Map([...amounts.keys()].map((name, i) => [name, Number(answers[i])]));
  }

  async read(group: string): Promise<ReadonlyMap<string, number>> {
    const key = this.#keyOf(group);
    const fields = await this.#connection.use((redis) => redis.hgetall(key), true, key);
    return new Map(Object.entries(fields).map(([name, sum]) => [name, Number(sum)]));
  }
}

/** A transaction answers although one of its commands has failed. */
async function answersOf(commands: ChainableCommander): Promise<unknown[]> {
  const answers = (await commands.exec()) ?? [];
  return answers.map(([error, answer]) => {
    if (error) throw error;
    return answer;
  });
}
