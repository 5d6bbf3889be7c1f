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
}

/**
 * `fetch`, or a function that signs each request first: a deployed API requires AWS Signature Version 4 by default.
 */
export type Fetch = (url: string, init: RequestInit) => Promise<Response>;

/** Whether a text can be the token of a service. */
export function isToken(text: string): boolean {
  return text.length >= 16 && text.length <= 512 && /^[\w.~+/-]+=*$/.test(text);
}

/** Sends a token with each request, if there is one. @throws bad_config, which does not show the token */
export function withToken(send: Fetch | undefined, token: string | undefined): Fetch | undefined {
  if (token === undefined) return send;
  if (!isToken(token)) throw badConfig('token: expected 16 to 512 letters, digits and - . _ ~ + /');
  return (url, init) => {
    const headers = new Headers(init.headers);
    headers.set('authorization', `Bearer ${token}`);
    return (send ?? fetch)(url, { ...init, headers });
  };
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

/** @throws as postJson; `not_found` is one of the codes */
export async function request(
  url: string,
  init: RequestInit,
  timeoutMs: number,
  signal?: AbortSignal,
  send: Fetch = fetch,
): Promise<Answer> {
  const timeout = AbortSignal.timeout(timeoutMs);
  let response: Response;
  let text: string;
  try {
    response = await send(url, { ...init, signal: signal ? AbortSignal.any([timeout, signal]) : timeout });
    text = await response.text();
  } catch (error) {
    if (timeout.aborted)
      throw new ServingError('timeout', `${url} did not answer in ${timeoutMs} ms`, { cause: error });
    if (signal?.aborted) throw error;
    throw new ServingError('queue_unavailable', `${url} cannot be reached: ${reason(error)}`, {
      cause: error,
    });
  }
  if (text.length > MAX_ANSWER_BYTES)
    throw new ServingError('too_large', `the answer of ${url} is ${text.length} bytes`);
  const body = parse(text);
  if (response.ok) return { status: response.status, body };
  const { error, code, message } = (body ?? {}) as { error?: unknown; code?: unknown; message?: unknown };
  const known = errorCodeOf(code);
  if (response.status === 404 && known === undefined) {
    throw badConfig(`${new URL(url).origin} has no ${new URL(url).pathname}: is it the url of the API?`);
  }
  const shown = textOf(error) ?? textOf(message) ?? `${url} answered ${response.status}`;
  throw new ServingError(known ?? codeOfStatus(response.status), shown);
}

function textOf(value: unknown): string | undefined {
  return typeof value === 'string' ? value : undefined;
}

function reason(error: unknown): string {
  const { message, cause } = error as Error;
  return cause instanceof Error ? cause.message || message : message;
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
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
