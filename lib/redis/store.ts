/** Redis as the store of results: what lib/results/store.ts asks of one. */
import type { Store } from '../results/store.ts';
import { openRedis } from './cluster/connection.ts';
import type { RedisConnection } from './connection.ts';
import { RateLimiter } from './rate-limiter.ts';
import { RecordStates } from './record-states.ts';
import { ResultReplacer } from './replace-result.ts';
import { ResultStore } from './results.ts';
import { StoredRunCounts } from './run-counts.ts';
import { type RedisPlace, signInOf } from './sign-in.ts';
import { StoredSums } from './sums.ts';

type RedisStore = Store<RedisConnection, RedisPlace>;

export const connect: RedisStore['connect'] = (place, timeouts) =>
  openRedis(place.redisUrl, {
    ...timeouts,
    signIn: signInOf(place),
    credentials: place.credentials,
    maxBytes: place.redisMaxBytes,
  });

export const resultLimit = 'resultBytes';

export const openResults: RedisStore['openResults'] = (connection, options) =>
  new ResultStore(connection, options);

export const openStates: RedisStore['openStates'] = (connection, options) =>
  new RecordStates(connection, options);

export const openRunCounts: RedisStore['openRunCounts'] = (connection, options) =>
  new StoredRunCounts(connection, options);

export const openLimiter: RedisStore['openLimiter'] = (connection, options) =>
  new RateLimiter(connection, options);

export const openSums: RedisStore['openSums'] = (connection, options) => new StoredSums(connection, options);

export const openReplacer: RedisStore['openReplacer'] = (connection, options) =>
  new ResultReplacer(connection, options);
