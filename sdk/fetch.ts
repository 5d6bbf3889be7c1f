/**
 * Fetches JSON from the HTTPS API and throws its errors as ServingErrors. Gateways in between answer in their own
 * format, so only the service's {"error","code"} is parsed.
 */
import { badConfig, type ErrorCode, errorCodeOf, ServingError } from '../lib/contract/errors.ts';

/** An answer over HTTP that the SDK takes. Thrown as `too_large`. */
const MAX_ANSWER_BYTES = 64 * 1024 * 1024;

export interface Answer {
  readonly status: number;
  readonly body: unknown;
  /** Of a redirect with 303. */
  readonly location?: string | undefined;
}

/**
 * `fetch`, or a function that signs each request first: a deployed API requires AWS Signature Version 4 by default.
 */
export type Fetch = (url: string, init: RequestInit) => Promise<Response>;

/** Reads no more of an answer. It is not waited for: of a copied answer, the other copy may never be read. */
export function discard(response: Response): void {
  response.body?.cancel().catch(() => undefined);
}

/** Whether a text can be a token. @param longest in characters; by default what a local service takes */
export function isToken(text: string, longest = 512): boolean {
  return text.length >= 16 && text.length <= longest && /^[\w.~+/-]+=*$/.test(text);
}

/** @throws the service's error by its code; timeout; queue_unavailable when the service is unreachable */
export async function postJson(
  url: string,
  body: string,
  timeoutMs = 30_000,
  send: Fetch = fetch,
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
  send: Fetch = fetch,
): Promise<Answer> {
  const answer = await requestBytes(url, init, { timeoutMs, signal, send, maxBytes: MAX_ANSWER_BYTES });
  const body = parse(answer.bytes);
  const { status, location } = answer;
  if (answer.ok) return { status, body };
  if (init.redirect === 'manual' && location !== undefined) {
    if (status === 303) return { status, body, location };
    return request(url, { ...init, redirect: 'follow' }, timeoutMs, signal, send);
  }
  const { code } = (body ?? {}) as { code?: unknown };
  if (answer.status === 404 && errorCodeOf(code) === undefined) {
    throw badConfig(`${new URL(url).origin} has no ${new URL(url).pathname}: is it the url of the API?`);
  }
  throw errorOf(url, answer);
}

export interface BytesAnswer {
  readonly status: number;
  /** 2xx. */
  readonly ok: boolean;
  /** Of a redirect that was not followed. */
  readonly location?: string | undefined;
  /** Without its parameters. */
  readonly mediaType: string;
  readonly bytes: Uint8Array;
}

export interface RequestOptions {
  readonly timeoutMs: number;
  readonly signal?: AbortSignal | undefined;
  readonly send?: Fetch | undefined;
  /** No more of the answer is read. */
  readonly maxBytes: number;
  /** The url in errors. Default: as it is. */
  readonly shown?: string | undefined;
}

/**
 * @returns the answer, whatever its status
 * @throws timeout; too_large; queue_unavailable when the service is unreachable
 */
export async function requestBytes(
  url: string,
  init: RequestInit,
  { timeoutMs, signal, send = fetch, maxBytes, shown = url }: RequestOptions,
): Promise<BytesAnswer> {
  const timeout = AbortSignal.timeout(timeoutMs);
  try {
    const response = await send(url, {
      ...init,
      signal: signal ? AbortSignal.any([timeout, signal]) : timeout,
    });
    const [mediaType = ''] = (response.headers.get('content-type') ?? '').split(';');
    const bytes = await readUpTo(maxBytes, response, shown);
    const isRedirect = response.status >= 300 && response.status < 400;
    const location = isRedirect ? (response.headers.get('location') ?? undefined) : undefined;
    return { status: response.status, ok: response.ok, mediaType: mediaType.trim(), bytes, location };
  } catch (error) {
    if (error instanceof ServingError) throw error;
    if (timeout.aborted)
      throw new ServingError('timeout', `${shown} did not answer in ${timeoutMs} ms`, { cause: error });
    if (signal?.aborted) throw error;
    throw new ServingError('queue_unavailable', `${shown} cannot be reached: ${reason(error)}`, {
      cause: error,
    });
  }
}

async function readUpTo(maxBytes: number, response: Response, url: string): Promise<Uint8Array> {
  const pieces: Uint8Array[] = [];
  let size = Number(response.headers.get('content-length') ?? 0);
  if (size > maxBytes) await response.body?.cancel();
  else {
    size = 0;
    // Leaving the loop cancels the rest.
    for await (const piece of response.body ?? []) {
      size += piece.byteLength;
      if (size > maxBytes) break;
      pieces.push(piece);
    }
  }
  if (size > maxBytes)
    throw new ServingError('too_large', `the answer of ${url} is over the limit of ${maxBytes} bytes`);
  return Buffer.concat(pieces);
}

const WHO_CALLS =
  'say who calls, with AWS credentials that may execute-api:Invoke (auth iam), a token (auth jwt) or an API key';

/** The error of an answer that is none of 2xx. */
export function errorOf(url: string, { status, bytes }: BytesAnswer): ServingError {
  const body = parse(bytes) ?? {};
  const { error, code, message, error_message: text } = body as Readonly<Record<string, unknown>>;
  const shown = textOf(error) ?? textOf(text) ?? textOf(message) ?? `${url} answered ${status}`;
  const known = errorCodeOf(code) ?? codeOfStatus(status);
  // API Gateway says no more than Forbidden.
  const isBare = known === 'unauthorized' && error === undefined && text === undefined;
  return new ServingError(known, isBare ? `${shown} (${url}): ${WHO_CALLS}` : shown);
}

function textOf(value: unknown): string | undefined {
  return typeof value === 'string' ? value : undefined;
}

function reason(error: unknown): string {
  const { message, cause } = error as Error;
  return cause instanceof Error ? cause.message || message : message;
}

function parse(bytes: Uint8Array): unknown {
  try {
    return JSON.parse(new TextDecoder().decode(bytes));
  } catch {
    return undefined;
  }
}

function codeOfStatus(status: number): ErrorCode {
  if (status === 429) return 'rate_limited';
  if (status === 413) return 'too_large';
  if (status === 401 || status === 403) return 'unauthorized';
  if (status === 504) return 'timeout';
  return status < 500 ? 'bad_request' : status === 503 ? 'queue_unavailable' : 'internal';
}
