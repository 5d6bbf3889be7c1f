/**
 * In: what a handler made, or its error. Out: an API Gateway response. The one place where errors become HTTP.
 * Trap: what is not ours may hold secrets: it is logged whole and answered as "Internal error".
 */
import type { APIGatewayProxyStructuredResultV2 } from 'aws-lambda';
import { ServingError } from '../errors.ts';

export type HttpResponse = APIGatewayProxyStructuredResultV2;

/** Hears of every answer of 500 and above. */
export type LogError = (error: ServingError) => void;

const JSON_TYPE = 'application/json; charset=utf-8';

export function json(statusCode: number, body: unknown, headers: Record<string, string> = {}): HttpResponse {
  return { statusCode, headers: { 'content-type': JSON_TYPE, ...headers }, body: JSON.stringify(body) };
}

/** A body that is JSON text already. */
export function jsonText(statusCode: number, body: string): HttpResponse {
  return { statusCode, headers: { 'content-type': JSON_TYPE }, body };
}

export function text(statusCode: number, body: string): HttpResponse {
  return { statusCode, headers: { 'content-type': 'text/plain; charset=utf-8' }, body };
}

/** Runs `work`; an error becomes `{"error": message, "code": code}` with its status. Never throws. */
export async function respond(work: () => Promise<HttpResponse>, log: LogError): Promise<HttpResponse> {
  try {
    return await work();
  } catch (error) {
    return errorResponse(ServingError.from(error), log);
  }
}

function errorResponse(error: ServingError, log: LogError): HttpResponse {
  if (error.status >= 500) log(error);
  // The passing ones say when to come back: an environment that opens its model needs a moment.
  const passing = error.status === 503 || error.status === 429;
  const headers: Record<string, string> = passing
    ? { 'retry-after': String(error.retryAfterSeconds ?? 1) }
    : {};
  const body = { error: error.publicMessage, code: error.code, ...(error.uri ? { uri: error.uri } : {}) };
  return json(error.status, body, headers);
}
