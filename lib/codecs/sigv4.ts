/**
 * AWS Signature Version 4, for what a function signs without the AWS SDK, whose client costs a tenth of a cold start: the
 * password of ElastiCache, a parameter of Systems Manager, and what is read from S3.
 */
import { createHash, createHmac } from 'node:crypto';

const MOST_KEYS = 16;
const keys = new Map<string, Buffer>();

export interface Credentials {
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
  readonly sessionToken: string | undefined;
}

interface Signing {
  readonly host: string;
  readonly service: string;
  readonly region: string;
  readonly credentials: Credentials;
  /** Wall clock, in ms. */
  readonly now: number;
}

interface Presigning extends Signing {
  /** Default: GET. */
  readonly method?: 'GET' | 'PUT';
  /** Headers that the request must have, with names in small letters. */
  readonly headers?: Readonly<Record<string, string>>;
  /** Escaped, as in the address. */
  readonly path: string;
  readonly query: Readonly<Record<string, string>>;
  readonly lifeSeconds: number;
  readonly payloadDigest: string;
}

/** Presigns a request without its body. @returns host, path and query */
export function presign(request: Presigning): string {
  const { host, path, credentials, method = 'GET' } = request;
  const { time, scope } = timeAndScope(request);
  const signed = signedLines({ ...request.headers, host });
  const query = canonicalQuery({
    ...request.query,
    'X-Amz-Algorithm': 'AWS4-HMAC-SHA256',
    'X-Amz-Credential': `${credentials.accessKeyId}/${scope}`,
    'X-Amz-Date': time,
    'X-Amz-Expires': String(request.lifeSeconds),
    ...(credentials.sessionToken === undefined ? {} : { 'X-Amz-Security-Token': credentials.sessionToken }),
    'X-Amz-SignedHeaders': signed.names,
  });
  const canonical = [method, path, query, ...signed.lines, '', signed.names, request.payloadDigest].join(
    '\n',
  );
  return `${host}${path}?${query}&X-Amz-Signature=${signature(request, canonical)}`;
}

interface SignedRequest extends Signing {
  readonly method: 'GET' | 'POST' | 'PUT';
  /** Escaped, without a query. */
  readonly path: string;
  /** Other headers to sign, with names in small letters. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

/** @returns all headers to send except `host` */
export function signedHeaders(request: SignedRequest): Record<string, string> {
  const { method, path, host, body, credentials } = request;
  const { time, scope } = timeAndScope(request);
  const headers: Record<string, string> = {
    ...request.headers,
    'x-amz-date': time,
    ...(credentials.sessionToken === undefined ? {} : { 'x-amz-security-token': credentials.sessionToken }),
  };
  const { names, lines } = signedLines({ ...headers, host });
  const canonical = [method, path, '', ...lines, '', names, sha256(body)].join('\n');
  headers['authorization'] =
    `AWS4-HMAC-SHA256 Credential=${credentials.accessKeyId}/${scope}, ` +
    `SignedHeaders=${names}, Signature=${signature(request, canonical)}`;
  return headers;
}

function signedLines(headers: Readonly<Record<string, string>>) {
  const sorted = Object.entries(headers).sort(([a], [b]) => (a < b ? -1 : 1));
  const names = sorted.map(([name]) => name).join(';');
  return { names, lines: sorted.map(([name, value]) => `${name}:${value}`) };
}

function timeAndScope({ now, region, service }: Signing) {
  // 2026-11-21T16:00:00.000Z -> 20261121T160000Z
  const time = new Date(now).toISOString().replaceAll(/[-:]|\.\d{3}/g, '');
  return { time, scope: `${time.slice(0, 8)}/${region}/${service}/aws4_request` };
}

function signature(request: Signing, canonical: string): string {
  const { time, scope } = timeAndScope(request);
  const text = ['AWS4-HMAC-SHA256', time, scope, sha256(canonical)].join('\n');
  return hmac(signingKey(request.credentials.secretAccessKey, scope), text).toString('hex');
}

/** A key counts for a day, a region and a service: deriving it takes longer than all else that a signature needs. */
function signingKey(secret: string, scope: string): Buffer {
  const name = `${secret} ${scope}`;
  const known = keys.get(name);
  if (known) return known;
  const key = scope.split('/').reduce<Buffer>((made, part) => hmac(made, part), Buffer.from(`AWS4${secret}`));
  // Credentials change every few hours.
  if (keys.size >= MOST_KEYS) keys.clear();
  keys.set(name, key);
  return key;
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

export function sha256(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}

function hmac(key: Buffer, text: string): Buffer {
  return createHmac('sha256', key).update(text).digest();
}
