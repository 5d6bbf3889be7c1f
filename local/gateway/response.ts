/**
 * Converts a handler's result to status, headers and body as API Gateway's HTTP API does. A result without statusCode
 * is a 200 with the result as its body; a string is sent without quotes. An invalid result (status 0 or 200.5, an
 * object as body, a line break in a header) is a 500.
 */
import type { ServerResponse } from 'node:http';
import type { ErrorCode } from '../../lib/contract/errors.ts';
import { MAX_RESULT_BYTES } from '../aws/lambda.ts';

export interface WireResponse {
  readonly status: number;
  /** Alternating names and values, which node writes without a copy. */
  readonly headers: string[];
  readonly body: string | Buffer;
  readonly bodyBytes: number;
}

/** The responses of API Gateway itself, in AWS's words. */
const GATEWAY_MESSAGES = {
  400: 'Bad Request',
  404: 'Not Found',
  408: 'Request Timeout',
  413: 'Request Entity Too Large',
  429: 'Too Many Requests',
  431: 'Request Header Fields Too Large',
  500: 'Internal Server Error',
  503: 'Service Unavailable',
} as const;
export type GatewayStatus = keyof typeof GATEWAY_MESSAGES;

/** AWS sends `message` alone; clients of the guides read `error`. */
export function gatewayMessage(status: GatewayStatus): WireResponse {
  const message = GATEWAY_MESSAGES[status];
  const body = JSON.stringify({ message, error: message });
  const headers = ['content-type', 'application/json'];
  // AWS sends no retry-after with its 429; every 429 of this service has one.
  if (status === 429) headers.push('retry-after', '1');
  return { status, headers, body, bodyBytes: body.length };
}

/** An answer in the form of the service's own errors, so that clients show the text. */
export function refusal(
  status: 401 | 403 | 429,
  error: string,
  code: ErrorCode = 'unauthorized',
): WireResponse {
  const body = JSON.stringify({ error, code });
  const headers = ['content-type', 'application/json', 'x-content-type-options', 'nosniff'];
  return { status, headers, body, bodyBytes: Buffer.byteLength(body) };
}

/** The refusal of a request that would wait for a result. */
export function tooManyWaits(): WireResponse {
  const wire = refusal(
    429,
    'too many clients wait for results; ask again later, or without waiting',
    'rate_limited',
  );
  return { ...wire, headers: [...wire.headers, 'retry-after', '1'] };
}

const MESSAGE_CODES: Readonly<Record<number, ErrorCode>> = {
  404: 'not_found',
  408: 'timeout',
  413: 'too_large',
  429: 'rate_limited',
  431: 'too_large',
  500: 'internal',
  503: 'timeout',
};

/** An answer of the gateway itself in the envelope of the worker service. */
export function enveloped(wire: WireResponse): WireResponse {
  const { message, error, code } = JSON.parse(String(wire.body)) as Readonly<Record<string, string>>;
  const body = JSON.stringify({
    error_code: wire.status,
    error_message: error ?? message,
    data: null,
    code: code ?? MESSAGE_CODES[wire.status] ?? 'bad_request',
  });
  return { ...wire, body, bodyBytes: Buffer.byteLength(body) };
}

/** The response, or the reason why the result is invalid, which only the log may show. */
export function toWire(
  result: unknown,
  maxBytes = MAX_RESULT_BYTES,
): WireResponse | { readonly problem: string } {
  const isStructured = typeof result === 'object' && result !== null && 'statusCode' in result;
  return isStructured && result.statusCode !== undefined ? structured(result, maxBytes) : inferred(result);
}

/** Writes the response. `close` then closes the connection. */
export function writeResponse(
  response: ServerResponse,
  wire: WireResponse,
  requestId: string,
  close: boolean,
): void {
  response.writeHead(wire.status, headersOf(wire, requestId, close));
  if (isBodyless(wire)) response.end();
  // Characters of one byte each, as most answers have alone, are written without being encoded.
  else response.end(wire.body, wire.body.length === wire.bodyBytes ? 'latin1' : 'utf8');
}

/** Writes the response but keeps it open while the request is still arriving. */
export function writeEarly(
  response: ServerResponse,
  wire: WireResponse,
  requestId: string,
  close: boolean,
): void {
  response.writeHead(wire.status, headersOf(wire, requestId, close));
  response.write(wire.body);
}

function isBodyless(wire: WireResponse): boolean {
  return wire.status === 204 || wire.status === 304;
}

function headersOf(wire: WireResponse, requestId: string, close: boolean): string[] {
  const headers = [...wire.headers, 'apigw-requestid', requestId];
  if (!isBodyless(wire)) headers.push('content-length', String(wire.bodyBytes));
  if (close) headers.push('connection', 'close');
  return headers;
}

function inferred(result: unknown): WireResponse | { readonly problem: string } {
  const body = typeof result === 'string' ? result : (JSON.stringify(result) ?? 'null');
  const bodyBytes = Buffer.byteLength(body);
  if (bodyBytes > MAX_RESULT_BYTES) return tooLarge(bodyBytes);
  return { status: 200, headers: ['content-type', 'application/json'], body, bodyBytes };
}

function structured(result: object, maxBytes: number): WireResponse | { readonly problem: string } {
  const fields: Readonly<Record<string, unknown>> = { ...result };
  const { statusCode, headers, body, isBase64Encoded, cookies } = fields;
  if (!Number.isInteger(statusCode) || Number(statusCode) < 200 || Number(statusCode) > 599) {
    return { problem: `statusCode must be a whole number from 200 to 599, got ${shown(statusCode)}` };
  }
  if (body !== undefined && body !== null && typeof body !== 'string') {
    return { problem: `body must be a string, got ${shown(body)}` };
  }
  const text = body ?? '';
  const encodedBytes = Buffer.byteLength(text);
  if (encodedBytes > maxBytes) return tooLarge(encodedBytes);
  const bytes = isBase64Encoded === true ? decodeBase64(text) : text;
  if (bytes === undefined) return { problem: 'isBase64Encoded is true and the body is not base64' };
  const list = headerList(headers, cookies);
  if ('problem' in list) return list;
  if (text !== '' && !list.names.has('content-type')) {
    list.headers.push('content-type', 'text/plain; charset=utf-8');
  }
  const bodyBytes = typeof bytes === 'string' ? encodedBytes : bytes.length;
  return { status: Number(statusCode), headers: list.headers, body: bytes, bodyBytes };
}

/** Headers that the gateway sets itself. */
const OWN_HEADERS: ReadonlySet<string> = new Set([
  'content-length',
  'connection',
  'keep-alive',
  'transfer-encoding',
  'apigw-requestid',
]);
const HEADER_NAME = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;
/** Node refuses control characters except tab, and anything beyond latin1. */
const HEADER_VALUE = /^[\t\u0020-\u007e\u0080-\u00ff]*$/;

function headerList(
  headers: unknown,
  cookies: unknown,
): { headers: string[]; names: Set<string> } | { readonly problem: string } {
  const list: string[] = [];
  const names = new Set<string>();
  if (Array.isArray(headers) || (typeof headers !== 'object' && headers !== undefined)) {
    return { problem: `headers must be an object, got ${shown(headers)}` };
  }
  for (const [name, value] of Object.entries(headers ?? {})) {
    if (value === undefined || value === null) continue;
    if (typeof value === 'object') return { problem: `header ${name} must be a string, got ${shown(value)}` };
    if (!HEADER_NAME.test(name)) return { problem: `${shown(name)} is not a header name` };
    if (!HEADER_VALUE.test(String(value)))
      return { problem: `header ${name} holds characters no header may` };
    const lower = name.toLowerCase();
    if (OWN_HEADERS.has(lower)) continue;
    names.add(lower);
    list.push(name, String(value));
  }
  if (cookies === undefined || cookies === null) return { headers: list, names };
  if (!Array.isArray(cookies)) return { problem: `cookies must be a list, got ${shown(cookies)}` };
  for (const cookie of cookies) {
    if (typeof cookie !== 'string' || !HEADER_VALUE.test(cookie)) {
      return { problem: `cookies must be strings a header may hold, got ${shown(cookie)}` };
    }
    list.push('set-cookie', cookie);
  }
  return { headers: list, names };
}

/** Node skips characters that are not base64; the decoded length then does not match. */
function decodeBase64(text: string): Buffer | undefined {
  const bytes = Buffer.from(text, 'base64');
  const symbols = text.endsWith('==') ? text.length - 2 : text.endsWith('=') ? text.length - 1 : text.length;
  return bytes.length === Math.floor((symbols * 3) / 4) ? bytes : undefined;
}

function tooLarge(bytes: number): { readonly problem: string } {
  return { problem: `the response is ${bytes} bytes; Lambda takes ${MAX_RESULT_BYTES}` };
}

function shown(value: unknown): string {
  const text = typeof value === 'string' ? JSON.stringify(value) : (JSON.stringify(value) ?? String(value));
  return text.length <= 80 ? text : `${text.slice(0, 80)}...`;
}
