/** Asks the service. Addresses are relative, so that the page works below any path of a proxy. */
import { ACTION_HEADER, type Unavailable } from './api.ts';

export class ApiError extends Error {
  readonly status: number;

  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}

const TOKEN_KEY = 'cluster-serving-token';
const ASK_MS = 35_000;

/** Takes the token from the address, where `cluster-serving console` puts it, and out of the history. */
export function takeToken(): void {
  const [, given] = /^#token=(.+)$/.exec(location.hash) ?? [];
  if (given === undefined) return;
  token.set(decodeURIComponent(given));
  history.replaceState(null, '', location.pathname);
}

/** Kept for this tab alone. */
export const token = {
  get: () => sessionStorage.getItem(TOKEN_KEY) ?? '',
  set: (text: string) => sessionStorage.setItem(TOKEN_KEY, text),
};

/** @throws ApiError */
async function send(path: string, init: RequestInit = {}): Promise<Response> {
  const headers = new Headers(init.headers);
  if (token.get() !== '') headers.set('authorization', `Bearer ${token.get()}`);
  let response: Response;
  try {
    response = await fetch(path, {
      ...init,
      headers,
      signal: AbortSignal.timeout(ASK_MS),
      redirect: 'manual',
    });
  } catch (error) {
    const isLate = error instanceof Error && error.name === 'TimeoutError';
    throw new ApiError(
      0,
      isLate ? 'The service did not answer in time.' : 'The service cannot be reached. Does it run?',
    );
  }
  if (response.ok) return response;
  // A large result is behind a redirect, which this page does not follow.
  if (response.type === 'opaqueredirect') throw new ApiError(303, 'It is too large to be shown here.');
  const text = await response.text();
  throw new ApiError(response.status, messageOf(text) ?? `The service answered ${response.status}.`);
}

/** Reads the message of the service, of its gateway, or of the worker service's envelope. */
function messageOf(text: string): string | undefined {
  try {
    const { error, message, error_message }: Readonly<Record<string, unknown>> = JSON.parse(text);
    const found = error_message ?? error ?? message;
    return typeof found === 'string' ? found : undefined;
  } catch {
    return undefined;
  }
}

/** GET console/api/… @throws ApiError */
export async function ask<T>(part: string): Promise<T | Unavailable> {
  return (await send(`console/api/${part}`)).json() as Promise<T | Unavailable>;
}

/** POST console/api/… @throws ApiError */
export async function act<T>(what: string, body: Readonly<Record<string, string>>): Promise<T> {
  const headers = { 'content-type': 'application/json', [ACTION_HEADER]: '1' };
  const response = await send(`console/api/${what}`, { method: 'POST', headers, body: JSON.stringify(body) });
  return response.json() as Promise<T>;
}

export interface Answered {
  readonly text: string;
  /** From the request to the last byte of its answer, in ms. */
  readonly tookMs: number;
  readonly version: string | undefined;
}

/** @throws ApiError */
export async function post(path: string, body: string): Promise<Answered> {
  const begin = performance.now();
  const response = await send(path, {
    method: 'POST',
    body,
    headers: { 'content-type': 'application/json' },
  });
  const answer = await response.text();
  const version = response.headers.get('model-version') ?? undefined;
  return { text: answer, tookMs: performance.now() - begin, version };
}

/** @throws ApiError */
export async function resultOf(uri: string, identity: string | undefined): Promise<string> {
  const query = new URLSearchParams({ uri, ...(identity !== undefined && { identity }) });
  return (await send(`predictions?${query}`)).text();
}

export function errorText(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

export function isUnavailable(part: unknown): part is Unavailable {
  return typeof part === 'object' && part !== null && 'unavailable' in part;
}
