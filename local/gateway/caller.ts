/**
 * Refuses requests without the service's token, and those that a page of another site makes with the browser of this
 * machine's user: under a foreign name that resolves to this machine, or as a form or a text, for which browsers ask no
 * permission first.
 */
import { createHash, timingSafeEqual } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import type { CorsRules } from '../../lib/http/cors.ts';
import { isOwnHost } from '../machine/hosts.ts';
import { refusal, type WireResponse } from './response.ts';

/** The abilities of a refused caller, as parts of sentences. */
export interface CallerAdvice {
  readonly host: string;
  readonly origin: string;
  readonly token: string;
}

const ADVICE: CallerAdvice = {
  host: 'for that of a proxy, start with --allow-host <name> or list it under http.allowedHosts in config.yaml',
  origin: 'allow it under http.corsOrigins in config.yaml',
  token: 'our commands read it from --token-file <file>',
};

/** For a service that was started from flags. */
export const FLAGS_ADVICE: CallerAdvice = {
  host: 'a proxy has to call it by its address',
  origin: 'start with -cors <origin> to allow it',
  token: 'our clients take it as `token`, or from WKR_TOKEN',
};

export interface CallerRules {
  /** Undefined: pages of other origins may not call. */
  readonly cors?: CorsRules | undefined;
  /** Names by which clients may call, besides those of this machine; lower case, without a port. */
  readonly allowedHosts?: readonly string[] | undefined;
  /** The token that every request must carry as `Authorization: Bearer <token>`; undefined when none is needed. */
  readonly token?: string | undefined;
  /** Default: that of `cluster-serving start`. */
  readonly advice?: CallerAdvice | undefined;
}

/** The parts of a request that are checked. */
export interface Caller extends Pick<IncomingMessage, 'method' | 'socket'> {
  readonly headers: Pick<IncomingMessage['headers'], 'host' | 'origin' | 'authorization'>;
}

/** Methods that change nothing. Without CORS rules a browser shows their answers to no other page. */
const SAFE_METHODS: ReadonlySet<string> = new Set(['GET', 'HEAD', 'OPTIONS']);

/** The answer to a request whose Host is not a name of this service. */
export function foreignHost(rules: CallerRules, { headers, socket }: Caller): WireResponse | undefined {
  const { host } = headers;
  if (isOwnHost(host, rules.allowedHosts, socket.localAddress)) return undefined;
  return refusal(
    403,
    `the host ${JSON.stringify(host ?? '')} is not a name of this service; ${(rules.advice ?? ADVICE).host}`,
  );
}

/** The answer to a request with which a page of a foreign origin would change something. */
export function foreignOrigin(
  rules: CallerRules,
  { method = '', headers }: Caller,
): WireResponse | undefined {
  const { origin, host } = headers;
  if (origin === undefined || SAFE_METHODS.has(method) || isOwnOrigin(origin, host, rules)) return undefined;
  return refusal(
    403,
    `pages of the origin ${JSON.stringify(origin)} may not call this service; ${(rules.advice ?? ADVICE).origin}`,
  );
}

/** The answer to a request that does not carry the token. */
export function withoutToken(
  { token, advice = ADVICE }: CallerRules,
  { headers }: Caller,
): WireResponse | undefined {
  if (token === undefined || isBearer(headers.authorization, token)) return undefined;
  const wire = refusal(
    401,
    `this service needs its token: send the header "Authorization: Bearer <token>"; ${advice.token}`,
  );
  return { ...wire, headers: [...wire.headers, 'www-authenticate', 'Bearer'] };
}

/** True if the header is `Bearer <token>`. */
export function isBearer(authorization: string | undefined, token: string): boolean {
  const [, given = ''] = /^Bearer +(\S+) *$/i.exec(authorization ?? '') ?? [];
  return timingSafeEqual(digest(given), digest(token));
}

/** Texts of any length become comparable in constant time. */
function digest(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}

/** True if it is the origin of a page that this service served, or one of the rules. */
export function isOwnOrigin(
  origin: string,
  host: string | undefined,
  { cors, allowedHosts }: CallerRules,
): boolean {
  if (cors?.allowedOrigins.some((allowed) => allowed === '*' || allowed === origin)) return true;
  const url = URL.parse(origin);
  if (url === null || url.host === '') return false;
  // A proxy may replace the Host header with the address of this service.
  const isOfProxy = url.port === '' && allowedHosts?.includes(url.hostname) === true;
  return isOfProxy || url.host === URL.parse(`${url.protocol}//${host}`)?.host;
}
