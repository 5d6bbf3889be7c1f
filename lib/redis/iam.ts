/**
 * Makes the password of ElastiCache's IAM authentication: the presigned URL (AWS Signature Version 4) of a `connect`
 * request, without its scheme. It is valid for 15 minutes and for new connections only, so each connection gets its own.
 * Signing sends nothing, so it works in a subnet from which no other AWS service can be reached.
 */
import { type Credentials, presign, sha256 } from '../codecs/sigv4.ts';
import { badConfig } from '../contract/errors.ts';
import type { CacheUser } from './address.ts';
import type { SignIn } from './connection.ts';

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

/** Asked for each connection, because credentials expire. */
export type CredentialSource = () => Promise<Credentials>;

/** How a client signs in to a public cache. @throws bad_config without credentials */
export function cacheSignIn(
  { user, ...cache }: CacheUser,
  credentials: CredentialSource = () =>
    Promise.reject(badConfig('the Redis url has iam=, and this client has no credentials of AWS')),
): SignIn {
  const password = async () =>
    cachePassword({ ...cache, user, isServerless: true, credentials: await credentials() }, Date.now());
  return { username: user, password };
}
