/**
 * Runs Lua scripts (scripts/*.lua), each of which is one step inside Redis. A script that raises an error stops and its writes
 * stay, so a command that can fail for a single record is called with pcall. Its first argument is one JSON with named options.
 */
import type { Redis } from 'ioredis';

/** Numbers travel as texts: the JSON decoder of Redis has doubles. An empty list is left out: it would be an object there. */
type Option = string | undefined | readonly Option[] | { readonly [name: string]: Option };
type Options = Readonly<Record<string, Option>>;

/** Runs a script. @param texts what may be long */
type Run<R> = (keys: readonly string[], options: Options, ...texts: readonly string[]) => Promise<R>;

/** Arguments of EVAL after the script. */
export function argumentsOf(
  keys: readonly string[],
  options: Options,
  ...texts: readonly string[]
): [number: number, ...texts: string[]] {
  return [keys.length, ...keys, JSON.stringify(options), ...texts];
}

/** Defines a script; ioredis sends its text once and its hash from then on. */
export function script<R>(name: string, lua: string): (redis: Redis) => Run<R> {
  return (redis) => {
    if (!(name in redis)) redis.defineCommand(name, { lua });
    const command: (...all: unknown[]) => Promise<R> = Reflect.get(redis, name);
    return (...all) => command.call(redis, ...argumentsOf(...all));
  };
}
