/**
 * Builds API Gateway responses; the only place where errors become HTTP. Unknown errors may contain secrets, so they
 * are logged in full and answered with "Internal error".
 */
import type { APIGatewayProxyStructuredResultV2 } from 'aws-lambda';
import { ServingError } from '../contract/errors.ts';

export type HttpResponse = APIGatewayProxyStructuredResultV2;

/** Called with every error of status 500 and above. */
export type LogError = (error: ServingError) => void;

/** A body may contain what a caller sent, so browsers must not render it. */
function headersFor(type: string): Record<string, string> {
  return { 'content-type': `${type}; charset=utf-8`, 'x-content-type-options': 'nosniff' };
}

export function json(statusCode: number, body: unknown, headers: Record<string, string> = {}): HttpResponse {
  return jsonText(statusCode, JSON.stringify(body), headers);
}

/** A body that is JSON text already. */
export function jsonText(
  statusCode: number,
  body: string,
  headers: Record<string, string> = {},
): HttpResponse {
  return { statusCode, headers: { ...headersFor('application/json'), ...headers }, body };
}

/** A body of bytes, as base64. */
export function binary(statusCode: number, body: string, headers: Record<string, string> = {}): HttpResponse {
  const type = { 'content-type': 'application/octet-stream', 'x-content-type-options': 'nosniff' };
  return { statusCode, headers: { ...type, ...headers }, body, isBase64Encoded: true };
}

export function text(statusCode: number, body: string): HttpResponse {
  return { statusCode, headers: headersFor('text/plain'), body };
}

/** The body of an answer that is an error. */
export type ErrorBody = (error: ServingError) => Readonly<Record<string, unknown>>;

export const ownBody: ErrorBody = ({ publicMessage, code, uri }) => ({
  error: publicMessage,
  code,
  ...(uri ? { uri } : {}),
});

/** Runs `work`; an error becomes `{"error": message, "code": code}` with its status. Never throws. */
export async function respond(
  work: () => Promise<HttpResponse>,
  log: LogError,
  bodyOf: ErrorBody = ownBody,
): Promise<HttpResponse> {
  try {
    return await work();
  } catch (error) {
    return errorResponse(ServingError.from(error), log, bodyOf);
  }
}

/** Reserved for the answer. */
const ANSWER_MS = 500;

/**
 * `respond` with a 504 before Lambda ends the function, which clients would see as the gateway's 503. It ends waiting
 * (for a model to load, for a token) but not a run, because onnxruntime blocks the thread.
 * @param leftMs the time that Lambda has left; undefined for no limit
 */
export async function respondWithin(
  leftMs: number | undefined,
  work: () => Promise<HttpResponse>,
  log: LogError,
  bodyOf?: ErrorBody,
): Promise<HttpResponse> {
  if (leftMs === undefined) return respond(work, log, bodyOf);
  return respond(() => within(Math.max(0, leftMs - ANSWER_MS), work), log, bodyOf);
}

/** Ends waiting, but not what is waited for. @throws timeout */
export function within<T>(limitMs: number, work: () => Promise<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    const working = work();
    const late = () => reject(new ServingError('timeout', `no answer within ${limitMs} ms`));
    const timer = setTimeout(late, limitMs);
    const settle =
      <Value>(end: (value: Value) => void) =>
      (value: Value) => {
        clearTimeout(timer);
        end(value);
      };
    working.then(settle(resolve), settle(reject));
  });
}

export function errorResponse(error: ServingError, log: LogError, bodyOf: ErrorBody): HttpResponse {
  if (error.status >= 500) log(error);
  // Temporary errors say when to retry: opening a model takes a moment.
  const passing = error.status === 503 || error.status === 429;
  const headers: Record<string, string> = passing
    ? { 'retry-after': String(error.retryAfterSeconds ?? 1) }
    : {};
  return json(error.status, bodyOf(error), headers);
}
