/**
 * Fetches JSON from the HTTPS API and throws its errors as ServingErrors. Gateways in between answer in their own
 * format, so only the service's {"error","code"} is parsed.
 */
import { asError, badConfig, type ErrorCode, errorCodeOf, ServingError } from '../lib/contract/errors.ts';
import { limited } from './limit.ts';

/** An answer over HTTP that the SDK takes. Thrown as `too_large`. */
const MAX_ANSWER_BYTES = 64 * 1024 * 1024;

export interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly body: unknown;
  /** Target of a redirect with 303. */
  readonly location?: string | undefined;
}

/**
 * `fetch`, or a function that signs each request first: a deployed API requires AWS Signature Version 4 by default.
 */
export type Fetch = (url: string, init: RequestInit) => Promise<Response>;

/** Found when it is called. */
export const globalFetch: Fetch = (url, init) => fetch(url, init);

/** Reads no more of an answer. It is not waited for: of a copied answer, the other copy may never be read. */
export function discard(response: Response): void {
  response.body?.cancel().catch(() => undefined);
}

/**
 * True if a text can be a token.
 * @param longest in characters; by default what a local service takes
 */
export function isToken(text: string, longest = 512): boolean {
  return text.length >= 16 && text.length <= longest && /^[\w.~+/-]+=*$/.test(text);
}

/** @throws the service's error by its code; timeout; queue_unavailable when the service is unreachable */
export async function postJson(
  url: string,
  body: string,
  timeoutMs = 30_000,
  send: Fetch = globalFetch,
  headers: Readonly<Record<string, string>> = {},
): Promise<unknown> {
  const init = { method: 'POST', body, headers: { 'content-type': 'application/json', ...headers } };
  return (await request(url, init, timeoutMs, undefined, send)).body;
}

/**
 * @param init.redirect `manual` returns a 303 as an answer, and follows other redirects
 * @throws as postJson; `not_found` is one of the codes
 */
export async function request(
  url: string,
  init: RequestInit,
  timeoutMs: number,
  signal?: AbortSignal,
  send: Fetch = globalFetch,
): Promise<Answer> {
  const answer = await requestBytes(url, init, { timeoutMs, signal, send, maxBytes: MAX_ANSWER_BYTES });
  const body = parse(answer.bytes);
  const { status, headers, location } = answer;
  const seesOther = init.redirect === 'manual' && location !== undefined;
  if (answer.ok || (seesOther && status === 303)) return { status, headers, body, location };
  if (seesOther) return request(url, { ...init, redirect: 'follow' }, timeoutMs, signal, send);
  const { code }: { code?: unknown } = Object(body);
  if (answer.status === 404 && errorCodeOf(code) === undefined) {
    const { origin, pathname } = new URL(url);
    throw badConfig(`${origin} has no ${pathname}: is it the url of the API?`);
  }
  throw errorOf(url, answer);
}

export interface BytesAnswer {
  readonly status: number;
  /** 2xx. */
  readonly ok: boolean;
  /** Target of a redirect that was not followed. */
  readonly location?: string | undefined;
  readonly bytes: Uint8Array;
  readonly headers: Headers;
}

export interface RequestOptions {
  readonly timeoutMs: number;
  readonly signal?: AbortSignal | undefined;
  readonly send?: Fetch | undefined;
  /** No more of the answer is read. */
  readonly maxBytes: number;
  /** The url in errors. Default: unchanged. */
  readonly shown?: string | undefined;
}

/**
 * @returns the answer, with any status
 * @throws timeout; too_large; queue_unavailable when the service is unreachable
 */
export async function requestBytes(
  url: string,
  init: RequestInit,
  { timeoutMs, signal, send = globalFetch, maxBytes, shown = url }: RequestOptions,
): Promise<BytesAnswer> {
  return limited({ timeoutMs, signal, what: `${shown} did not answer in` }, async (end) => {
    try {
      const response = await send(url, { ...init, signal: end });
      if (response.type === 'opaqueredirect') throw badConfig(`${shown} ${HIDDEN_REDIRECT}`);
      const { status, ok, headers } = response;
      const bytes = await readUpTo(maxBytes, response, { url: shown, signal: end });
      const location = status >= 300 && status < 400 ? (headers.get('location') ?? undefined) : undefined;
      return { status, ok, bytes, location, headers };
    } catch (error) {
      if (error instanceof ServingError || end.aborted) throw error;
      const text = `${shown} cannot be reached: ${reason(error)}`;
      throw new ServingError('queue_unavailable', text, { cause: error });
    }
  });
}

/** Browsers hide where an answer redirects to. */
const HIDDEN_REDIRECT =
  'redirects, which browsers hide: it is not the url of the API, or the result is over 1 MiB, which is for Node';

async function readUpTo(
  maxBytes: number,
  { headers, body }: Response,
  { url, signal }: { readonly url: string; readonly signal: AbortSignal },
): Promise<Uint8Array> {
  const reader = body?.getReader();
  const stop = () => void reader?.cancel().catch(() => undefined);
  // A fetch that is given to the client may pass the signal over.
  signal.addEventListener('abort', stop);
  const pieces: Uint8Array[] = [];
  let size = 0;
  try {
    for (let isTooLarge = Number(headers.get('content-length') ?? 0) > maxBytes; ; ) {
      if (isTooLarge)
        throw new ServingError('too_large', `the answer of ${url} is over the limit of ${maxBytes} bytes`);
      const { done, value } = (await reader?.read()) ?? { done: true };
      if (done) break;
      pieces.push(value);
      size += value.byteLength;
      isTooLarge = size > maxBytes;
    }
  } catch (error) {
    stop();
    throw error;
  }
  const bytes = new Uint8Array(size);
  let at = 0;
  for (const piece of pieces) {
    bytes.set(piece, at);
    at += piece.byteLength;
  }
  return bytes;
}

const WHO_CALLS =
  'say who calls, with AWS credentials that may execute-api:Invoke (auth iam), a token (auth jwt) or an API key';

/** The error of an answer that is none of 2xx. */
export function errorOf(url: string, { status, bytes }: BytesAnswer): ServingError {
  const body = parse(bytes) ?? {};
  const { error, code, message, error_message: text }: Readonly<Record<string, unknown>> = Object(body);
  const shown = [error, text, message].find(isText) ?? `${url} answered ${status}`;
  const known = errorCodeOf(code) ?? codeOfStatus(status);
  // API Gateway says no more than Forbidden.
  const isBare = known === 'unauthorized' && error === undefined && text === undefined;
  return new ServingError(known, isBare ? `${shown} (${url}): ${WHO_CALLS}` : shown);
}

/** An answer that the client cannot read. */
export function malformed(problem: string, cause?: unknown): ServingError {
  return new ServingError('internal', `the answer of the service cannot be read: ${problem}`, { cause });
}

function isText(value: unknown): value is string {
  return typeof value === 'string';
}

function reason(error: unknown): string {
  const { message, cause } = asError(error);
  return cause instanceof Error ? cause.message || message : message;
}

/** @returns undefined for other text than JSON */
export function parse(json: Uint8Array | string): unknown {
  try {
    return JSON.parse(typeof json === 'string' ? json : new TextDecoder().decode(json));
  } catch {
    return undefined;
  }
}

/** For answers that have none of our codes. */
const CODES: Readonly<Record<number, ErrorCode>> = {
  401: 'unauthorized',
  403: 'unauthorized',
  413: 'too_large',
  429: 'rate_limited',
  503: 'queue_unavailable',
  504: 'timeout',
};

function codeOfStatus(status: number): ErrorCode {
  return CODES[status] ?? (status < 500 ? 'bad_request' : 'internal');
}
