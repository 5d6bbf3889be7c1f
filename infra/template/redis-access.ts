/**
 * What a user of Redis may do: the keys and the channel of one job, each prefix of lib/contract/names.ts by itself, and
 * no command that shows or changes anything of another job. test/infra/users-of-redis.test.ts tries every command of a
 * real Redis.
 */
import { createHash } from 'node:crypto';
import {
  doneChannel,
  indexKey,
  leaseKey,
  limiterKey,
  metricsKey,
  newestKey,
  resultKey,
  runCountKey,
  stateKey,
} from '../../lib/contract/names.ts';

/**
 * The commands of lib/redis, one by one: a category as "@read" has some that are not limited to the user's keys, as SCAN,
 * and with others Redis misses a key, as with PFMERGE. ioredis asks INFO when it connects.
 */
const COMMANDS = [
  'del exists get hdel hget hgetall hincrbyfloat hmget hset hsetnx hstrlen mget persist pexpire pttl rename renamenx',
  'set unlink zadd zcard zcount zrange zrem zremrangebyrank zscore',
  'publish subscribe unsubscribe eval evalsha multi exec ping time info',
].flatMap((words) => words.split(' ').map((word) => `+${word}`));

/** Those of lib/redis/cluster. */
const CLUSTER_COMMANDS = ['+cluster|slots', '+asking'];
/** In cluster mode a tag of a slot stands before the keyspace (lib/redis/cluster). */
const TAG = '{*}';

/**
 * @param keyspace what stands for the job in its keys
 * @returns the words of ACL SETUSER, without a password
 */
export function accessRules(keyspace: string, isCluster = false): string[] {
  const homes = isCluster ? [keyspace, `${TAG}${keyspace}`] : [keyspace];
  const keys = [
    resultKey(keyspace, '*'),
    ...homes.flatMap((home) => [
      stateKey(home, '*'),
      indexKey(home),
      newestKey(home, '*'),
      runCountKey(home, '*', '*'),
      leaseKey(home, '*', '*'),
      metricsKey(home),
    ]),
    limiterKey(keyspace),
  ];
  const commands = isCluster ? [...COMMANDS, ...CLUSTER_COMMANDS] : COMMANDS;
  return ['on', ...keys.map((key) => `~${key}`), `&${doneChannel(keyspace, '*')}`, '-@all', ...commands];
}

/**
 * The id of a user, which is its name, too: unique in the account; ElastiCache accepts 40 lower case letters, digits and "-".
 * @param of the service or stack that has the Redis
 * @param who in it: a stage, or a keyspace
 */
export function redisUser(of: string, who: string): string {
  const digest = createHash('sha256').update(`${of}/${who}`).digest('hex');
  return `cluster-serving-${digest.slice(0, 12)}`;
}
