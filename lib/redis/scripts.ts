/**
 * Runs Lua scripts, each of which is one step inside Redis. A script that raises an error stops and its writes stay, so a
 * command that can fail for a single record is called with pcall.
 */
import type { Redis } from 'ioredis';

/** Runs a script. Arguments: the number of keys, the keys, the values. */
type Command<R> = (keys: number, ...keysAndValues: (string | number)[]) => Promise<R>;

/** Defines a script; ioredis sends its text once and its hash from then on. */
export function script<R>(name: string, lua: string): (redis: Redis) => Command<R> {
  return (redis) => {
    if (!(name in redis)) redis.defineCommand(name, { lua });
    const commands = redis as unknown as Record<typeof name, Command<R>>;
    return (commands[name] as Command<R>).bind(redis);
  };
}

/** Lua: `today` is now, in ms by the clock of Redis. A caller with a wrong clock would delete the results of all others. */
export const TODAY = `
local clock = redis.call('TIME')
local today = clock[1] * 1000 + math.floor(clock[2] / 1000)`;
