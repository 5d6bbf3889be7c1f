/**
 * Verifies AWS Signature Version 4 as API Gateway does, written out from its specification: what signs in the SDK is AWS's
 * signer, so that is not what judges it.
 */
import { createHash, createHmac } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';

export interface Keys {
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
  readonly sessionToken?: string;
}

export interface Received {
  readonly method: string;
  /** As it was sent. */
  readonly url: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
}

export interface Expected {
  readonly keys: Keys;
  readonly region: string;
  /** Default: API Gateway. */
  readonly service?: string | undefined;
  /** ms since 1970. */
  readonly now: number;
}

/** The clock difference that AWS allows. */
const MAX_SKEW_MS = 5 * 60_000;
const HEAD =
  /^AWS4-HMAC-SHA256 Credential=([^/]+)\/(\d{8})\/([^/]+)\/([a-z-]+)\/aws4_request, SignedHeaders=([a-z0-9;-]+), Signature=([0-9a-f]{64})$/;

const sha256 = (data: string | Buffer) => createHash('sha256').update(data).digest('hex');
const hmac = (key: string | Buffer, data: string) => createHmac('sha256', key).update(data).digest();

/** @returns why the request is refused; undefined when it is signed right */
export function refusal(request: Received, expected: Expected): string | undefined {
  const { keys, region, service = 'execute-api', now } = expected;
  const { authorization = '', 'x-amz-date': date } = request.headers;
  const [, id, day, scopeRegion, scopeService, list = '', signature] = HEAD.exec(authorization) ?? [];
  if (id === undefined || day === undefined) return `no signature: ${authorization}`;
  if (id !== keys.accessKeyId) return `the key ${id}`;
  if (scopeRegion !== region) return `the region ${scopeRegion}`;
  if (scopeService !== service) return `the service ${scopeService}`;
  const at = String(date);
  const time = Date.parse(at.replace(/^(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z$/, '$1-$2-$3T$4:$5:$6Z'));
  if (!at.startsWith(day) || !(Math.abs(time - now) <= MAX_SKEW_MS)) return `the time ${at}`;
  if (request.headers['x-amz-security-token'] !== keys.sessionToken) return 'the session token';
  const signed = list.split(';');
  const must = Object.keys(request.headers).filter((name) => name === 'host' || name.startsWith('x-amz-'));
  const unsigned = must.filter((name) => !signed.includes(name));
  if (unsigned.length > 0) return `not signed: ${unsigned.join()}`;
  const hash = sha256(request.body);
  if ((request.headers['x-amz-content-sha256'] ?? hash) !== hash) return 'the hash of the body';
  const canonical = canonicalOf(request, signed, hash);
  if (canonical === undefined) return `a url that can be read in two ways: ${request.url}`;
  const scope = `${day}/${region}/${service}/aws4_request`;
  const key = scope.split('/').reduce<string | Buffer>(hmac, `AWS4${keys.secretAccessKey}`);
  const own = hmac(key, `AWS4-HMAC-SHA256\n${at}\n${scope}\n${sha256(canonical)}`).toString('hex');
  return own === signature ? undefined : `the signature of ${JSON.stringify(canonical)}`;
}

/** Undefined if implementations that decode the url before they encode it disagree with those that use it unchanged. */
function canonicalOf({ method, url, headers }: Received, signed: readonly string[], hash: string) {
  const [path = '', query = ''] = url.split('?');
  const pairs = query === '' ? [] : query.split('&').map((pair) => pair.split('=', 2) as [string, string?]);
  const texts = [...path.split('/'), ...pairs.flatMap(([name, value = '']) => [name, value])];
  if (texts.some((text) => encoded(decodeURIComponent(text)) !== text)) return undefined;
  const sorted = pairs.map(([name, value = '']) => [name, value] as const).sort(byBytes);
  return [
    method,
    path.split('/').map(encoded).join('/'),
    sorted.map(([name, value]) => `${name}=${value}`).join('&'),
    ...signed.map(
      (name) =>
        `${name}:${String(headers[name] ?? '')
          .replaceAll(/ +/g, ' ')
          .trim()}`,
    ),
    '',
    signed.join(';'),
    hash,
  ].join('\n');
}

function byBytes(a: readonly [string, string], b: readonly [string, string]): number {
  if (a[0] !== b[0]) return a[0] < b[0] ? -1 : 1;
  return a[1] < b[1] ? -1 : Number(a[1] > b[1]);
}

function encoded(text: string): string {
  return [...Buffer.from(text)]
    .map((byte) => {
      const char = String.fromCharCode(byte);
      return /[\w.~-]/.test(char) ? char : `%${byte.toString(16).toUpperCase().padStart(2, '0')}`;
    })
    .join('');
}
