/**
 * Makes the password of ElastiCache's IAM authentication: the presigned URL (AWS Signature Version 4) of a `connect`
 * request, without its scheme. It is valid for 15 minutes and for new connections only, so each connection gets its own.
 * Signing sends nothing, so it works in a subnet from which no other AWS service can be reached.
 */
import { createHash, createHmac } from 'node:crypto';

interface Credentials {
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
  readonly sessionToken: string | undefined;
}

interface CacheSignIn {
  /** Id of the replication group. */
  readonly cache: string;
  /** Id of the user, which is its name too. */
  readonly user: string;
  readonly region: string;
  readonly credentials: Credentials;
}

/** The longest validity that ElastiCache accepts. */
const LIFE_SECONDS = 900;

/** @param now wall clock, in ms */
export function cachePassword({ cache, user, region, credentials }: CacheSignIn, now: number): string {
  return presign({
    host: cache.toLowerCase(),
    path: '/',
    query: { Action: 'connect', User: user },
    service: 'elasticache',
    region,
    credentials,
    now,
    lifeSeconds: LIFE_SECONDS,
    payloadDigest: sha256(''),
  });
}

interface Presigning {
  readonly host: string;
  /** As it stands in the address, escaped. */
  readonly path: string;
  readonly query: Readonly<Record<string, string>>;
  readonly service: string;
  readonly region: string;
  readonly credentials: Credentials;
  /** Wall clock, in ms. */
  readonly now: number;
  readonly lifeSeconds: number;
  readonly payloadDigest: string;
}

/** Presigns a GET request. @returns host, path and query */
export function presign(request: Presigning): string {
  const { host, path, service, region, credentials, lifeSeconds } = request;
  // 2026-11-21T16:00:00.000Z -> 20261121T160000Z
  const time = new Date(request.now).toISOString().replaceAll(/[-:]|\.\d{3}/g, '');
  const scope = `${time.slice(0, 8)}/${region}/${service}/aws4_request`;
  const query = canonicalQuery({
    ...request.query,
    'X-Amz-Algorithm': 'AWS4-HMAC-SHA256',
    'X-Amz-Credential': `${credentials.accessKeyId}/${scope}`,
    'X-Amz-Date': time,
    'X-Amz-Expires': String(lifeSeconds),
    ...(credentials.sessionToken === undefined ? {} : { 'X-Amz-Security-Token': credentials.sessionToken }),
    'X-Amz-SignedHeaders': 'host',
  });
  const canonical = ['GET', path, query, `host:${host}`, '', 'host', request.payloadDigest].join('\n');
  const text = ['AWS4-HMAC-SHA256', time, scope, sha256(canonical)].join('\n');
  const key = scope
    .split('/')
    .reduce<string | Buffer>((made, part) => hmac(made, part), `AWS4${credentials.secretAccessKey}`);
  return `${host}${path}?${query}&X-Amz-Signature=${hmac(key, text).toString('hex')}`;
}

/** Sorted by the escaped name, in code points. */
function canonicalQuery(parameters: Readonly<Record<string, string>>): string {
  return Object.entries(parameters)
    .map(([name, value]) => `${escaped(name)}=${escaped(value)}`)
    .sort()
    .join('&');
}

/** RFC 3986 leaves letters, digits and `-._~` alone; encodeURIComponent leaves `!'()*` too. */
function escaped(text: string): string {
  return encodeURIComponent(text).replaceAll(
    /[!'()*]/g,
    (character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`,
  );
}

function sha256(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}

function hmac(key: string | Buffer, text: string): Buffer {
  return createHmac('sha256', key).update(text).digest();
}
