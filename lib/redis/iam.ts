/**
 * Makes the password of ElastiCache's IAM authentication: the presigned URL (AWS Signature Version 4) of a `connect`
 * request, without its scheme. It is valid for 15 minutes and for new connections only, so each connection gets its own.
 * Signing sends nothing, so it works in a subnet from which no other AWS service can be reached.
 */
import { type Credentials, presign, sha256 } from '../codecs/sigv4.ts';

interface CacheSignIn {
  /** Id of the replication group, or name of the serverless cache. */
  readonly cache: string;
  readonly isServerless: boolean;
  /** Id of the user, which is its name too. */
  readonly user: string;
  readonly region: string;
  readonly credentials: Credentials;
}

/** The longest validity that ElastiCache accepts. */
const LIFE_SECONDS = 900;

/** @param now wall clock, in ms */
export function cachePassword(
  { cache, isServerless, user, region, credentials }: CacheSignIn,
  now: number,
): string {
  return presign({
    host: cache.toLowerCase(),
    path: '/',
    query: { Action: 'connect', ...(isServerless ? { ResourceType: 'ServerlessCache' } : {}), User: user },
    service: 'elasticache',
    region,
    credentials,
    now,
    lifeSeconds: LIFE_SECONDS,
    payloadDigest: sha256(''),
  });
}
