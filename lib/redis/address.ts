/**
 * Reads the address of a Redis: `redis://` or `rediss://`, with `?cluster=on` after it for cluster mode. A public cache of
 * ElastiCache has more, as its stack writes it: `&iam=CACHE&region=REGION&maxGB=N`.
 */
import { badConfig } from '../contract/errors.ts';

/** What its users sign in with, instead of a password. */
export interface CacheUser {
  readonly cache: string;
  readonly region: string;
  readonly user: string;
}

export interface RedisAddress {
  /** Without what is after the `?`. */
  readonly url: string;
  readonly isCluster: boolean;
  readonly cacheUser: CacheUser | undefined;
  /** The most that it stores. */
  readonly maxBytes: number | undefined;
}

const PUBLIC = /^\?cluster=on&iam=([a-z][a-z0-9-]{0,39})&region=([a-z]{2}(?:-[a-z]+)+-\d)&maxGB=(\d{1,4})$/;
const GB = 2 ** 30;

/** @throws bad_config for an address of another form */
export function readAddress(address: string): RedisAddress {
  const start = address.indexOf('?');
  const [url, after] = start < 0 ? [address, ''] : [address.slice(0, start), address.slice(start)];
  const [, cache, region, maxGB] = PUBLIC.exec(after) ?? [];
  if (cache !== undefined && region !== undefined) {
    const user = URL.canParse(url) ? new URL(url).username : '';
    if (!url.startsWith('rediss://') || user === '')
      throw badConfig('the Redis url: expected rediss://user@host:port before ?cluster=on&iam=...');
    return { url, isCluster: true, cacheUser: { cache, region, user }, maxBytes: Number(maxGB) * GB };
  }
  if (after === '?cluster=on') return { url, isCluster: true, cacheUser: undefined, maxBytes: undefined };
  if (/[?&](cluster|iam)=/.test(after))
    throw badConfig(
      'the Redis url: expected ?cluster=on at its end, or the whole RedisUrl of a stack with redis=public',
    );
  return { url: address, isCluster: false, cacheUser: undefined, maxBytes: undefined };
}
