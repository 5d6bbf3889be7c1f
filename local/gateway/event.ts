/**
 * Makes the event of API Gateway's HTTP API, payload format 2.0, from a node:http request. Only text/*,
 * application/json, application/xml and application/javascript are text; everything else is base64-encoded, also a
 * missing content type, application/problem+json and what `curl -d` sends (github.com/ministackorg/ministack pull 766).
 * A content-encoding makes any body binary.
 */
import { randomUUID } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import type { APIGatewayProxyEventV2 } from 'aws-lambda';
import { LOCAL_ACCOUNT_ID, MAX_EVENT_BYTES } from '../aws/lambda.ts';
import type { RouteMatch } from './routes.ts';

/** Request line and header values together, as with API Gateway. Answered with 431. */
export const MAX_HEADER_BYTES = 10_240;

/** Headers of one connection, which ends at the gateway. */
const HOP_BY_HOP: ReadonlySet<string> = new Set([
  'connection',
  'keep-alive',
  'proxy-connection',
  'transfer-encoding',
  'te',
  'trailer',
  'upgrade',
  'expect',
]);
const TEXT_TYPES: ReadonlySet<string> = new Set([
  'application/json',
  'application/xml',
  'application/javascript',
]);
/** An escaped character takes at most six bytes in JSON; everything except the body fits into the envelope. */
const WORST_JSON_EXPANSION = 6;
const ENVELOPE_BYTES = 64 * 1024;

export interface RequestHead {
  /** Names in lower case, values of one name joined with a comma; without cookies and hop-by-hop headers. */
  readonly headers: Record<string, string>;
  readonly cookies: string[];
  /** Bytes of the request line and of the header values, as the 10,240 limit counts them. */
  readonly bytes: number;
  /** The announced size of the body; 0 for none, undefined when the client does not announce it (chunked). */
  readonly bodyBytes: number | undefined;
}

export function readHead(request: IncomingMessage): RequestHead {
  const headers: Record<string, string> = {};
  const cookies: string[] = [];
  const raw = request.rawHeaders;
  let isChunked = false;
  let bytes = (request.method?.length ?? 0) + (request.url?.length ?? 0) + ' HTTP/1.1 '.length;
  for (let index = 0; index < raw.length; index += 2) {
    const name = (raw[index] ?? '').toLowerCase();
    const value = raw[index + 1] ?? '';
    bytes += value.length;
    if (name === 'cookie') cookies.push(...cookiesOf(value));
    else if (Object.hasOwn(headers, name)) headers[name] = `${headers[name]},${value}`;
    else if (!HOP_BY_HOP.has(name)) headers[name] = value;
    else if (name === 'transfer-encoding') isChunked = true;
  }
  return {
    headers,
    cookies,
    bytes,
    bodyBytes: isChunked ? undefined : Number(headers['content-length'] ?? 0),
  };
}

interface EventParts {
  readonly request: IncomingMessage;
  readonly head: RequestHead;
  /** The decoded path. */
  readonly path: string;
  readonly rawQueryString: string;
  readonly match: RouteMatch;
  /** Undefined for a request without a body. */
  readonly body: Buffer | undefined;
  readonly requestId: string;
  readonly nowMs: number;
}

export function gatewayEvent(parts: EventParts): APIGatewayProxyEventV2 {
  const { request, head, path, match, body } = parts;
  const headers = head.headers;
  const sourceIp = addressOf(request);
  addForwardingHeaders(headers, request, sourceIp, parts.nowMs);
  headers['content-length'] = String(body?.length ?? 0);
  const domainName = (headers.host ?? 'localhost').replace(/:\d+$/, '');
  const routeKey = `${match.route.method} ${match.route.path}`;
  const event: APIGatewayProxyEventV2 = {
    version: '2.0',
    routeKey,
    rawPath: path,
    rawQueryString: parts.rawQueryString,
    headers,
    requestContext: {
      accountId: LOCAL_ACCOUNT_ID,
      apiId: 'local',
      domainName,
      domainPrefix: domainName.split('.')[0] ?? domainName,
      http: {
        method: request.method ?? 'GET',
        path,
        protocol: `HTTP/${request.httpVersion}`,
        sourceIp,
        userAgent: headers['user-agent'] ?? '',
      },
      requestId: parts.requestId,
      routeKey,
      stage: '$default',
      time: logTime(parts.nowMs),
      timeEpoch: parts.nowMs,
    },
    isBase64Encoded: false,
  };
  if (head.cookies.length > 0) event.cookies = head.cookies;
  if (parts.rawQueryString !== '') event.queryStringParameters = queryParameters(parts.rawQueryString);
  if (match.pathParameters !== undefined) event.pathParameters = match.pathParameters;
  if (body !== undefined) {
    event.isBase64Encoded = !arrivesAsText(headers);
    event.body = body.toString(event.isBase64Encoded ? 'base64' : 'utf8');
  }
  return event;
}

/** True if the event as JSON exceeds Lambda's limit. Measured exactly only if it is close. */
export function isTooLargeForLambda(event: APIGatewayProxyEventV2): boolean {
  const bodyChars = event.body?.length ?? 0;
  const worstBytes = bodyChars * (event.isBase64Encoded ? 1 : WORST_JSON_EXPANSION) + ENVELOPE_BYTES;
  if (worstBytes <= MAX_EVENT_BYTES) return false;
  return Buffer.byteLength(JSON.stringify(event)) > MAX_EVENT_BYTES;
}

function arrivesAsText(headers: Readonly<Record<string, string>>): boolean {
  const encoding = headers['content-encoding'];
  if (encoding !== undefined && encoding.toLowerCase() !== 'identity') return false;
  const given = headers['content-type'] ?? '';
  if (given === 'application/json') return true;
  const type = given.split(';', 1)[0]?.trim().toLowerCase() ?? '';
  return type.startsWith('text/') || TEXT_TYPES.has(type);
}

let lastRequest = 0;
const processMark = randomUUID().replaceAll('-', '');
const requestMark = processMark.slice(0, 6);
/** Digits of a UUID that are random. */
const traceMark = processMark.slice(-12) + processMark.slice(0, 4);
let lastTrace = 0;

/** Sixteen characters as in API Gateway, unique within this process and very likely beyond. */
export function newRequestId(): string {
  lastRequest += 1;
  return `${requestMark}${lastRequest.toString(36).padStart(9, '0')}=`;
}

function cookiesOf(value: string): string[] {
  return value
    .split(';')
    .map((cookie) => cookie.trim())
    .filter((cookie) => cookie !== '');
}

function addressOf(request: IncomingMessage): string {
  const address = request.socket.remoteAddress ?? '';
  return address.startsWith('::ffff:') ? address.slice('::ffff:'.length) : address;
}

function addForwardingHeaders(
  headers: Record<string, string>,
  request: IncomingMessage,
  sourceIp: string,
  nowMs: number,
): void {
  const before = headers['x-forwarded-for'];
  headers['x-forwarded-for'] = before === undefined ? sourceIp : `${before}, ${sourceIp}`;
  headers['x-forwarded-port'] = String(request.socket.localPort ?? '');
  headers['x-forwarded-proto'] = 'http';
  headers['x-amzn-trace-id'] ??= newTraceId(nowMs);
}

/** Behind the time eight random bytes of this process, and a count of four. */
function newTraceId(nowMs: number): string {
  lastTrace = (lastTrace + 1) >>> 0;
  const seconds = Math.floor(nowMs / 1000).toString(16);
  return `Root=1-${seconds}-${traceMark}${lastTrace.toString(16).padStart(8, '0')}`;
}

/** Decodes parameters like a form: + is a space. Repeated names are joined with a comma. */
function queryParameters(rawQueryString: string): Record<string, string> {
  const values = new Map<string, string>();
  for (const [name, value] of new URLSearchParams(rawQueryString)) {
    const before = values.get(name);
    values.set(name, before === undefined ? value : `${before},${value}`);
  }
  return Object.fromEntries(values);
}

const MONTHS = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec'] as const;
let loggedSecond = -1;
let loggedTime = '';

/** Formats 10/Jul/2026:19:19:05 +0000, once per second. */
function logTime(nowMs: number): string {
  const second = Math.floor(nowMs / 1000);
  if (second !== loggedSecond) {
    const iso = new Date(second * 1000).toISOString();
    const month = MONTHS[Number(iso.slice(5, 7)) - 1] ?? '';
    loggedTime = `${iso.slice(8, 10)}/${month}/${iso.slice(0, 4)}:${iso.slice(11, 19)} +0000`;
    loggedSecond = second;
  }
  return loggedTime;
}
