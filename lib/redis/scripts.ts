/**
 * Runs Lua scripts, each of which is one step inside Redis. A script that raises an error stops, and what it has written
 * stays written, so whatever can go wrong for one record alone is asked with pcall.
 */
import type { Redis } from 'ioredis';

/** Runs a script: how many of the arguments are keys, then the keys, then the values. */
type Command<R> = (keys: number, ...keysAndValues: (string | number)[]) => Promise<R>;

/** A script that is sent to Redis once; from then on its hash is enough. */
export function script<R>(name: string, lua: string): (redis: Redis) => Command<R> {
  return (redis) => {
    if (!(name in redis)) redis.defineCommand(name, { lua });
    const commands = redis as unknown as Record<typeof name, Command<R>>;
    return (commands[name] as Command<R>).bind(redis);
  };
}

/** `today`: now in ms by the clock of Redis. A caller whose own is wrong would take everybody's results away. */
export const TODAY = `
local clock = redis.call('TIME')
local today = clock[1] * 1000 + math.floor(clock[2] / 1000)`;
