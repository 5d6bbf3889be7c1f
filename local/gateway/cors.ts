/**
 * Adds the CORS headers that API Gateway would add, and answers preflight requests. With CORS rules API Gateway
 * answers OPTIONS itself, and no function sees it.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { CorsRules } from '../../lib/http/cors.ts';

/** Returns true when the request was a preflight, which is then answered. */
export function applyCors(
  rules: CorsRules | undefined,
  request: IncomingMessage,
  response: ServerResponse,
): boolean {
  if (!rules) return false;
  const { origin } = request.headers;
  const isPreflight =
    request.method === 'OPTIONS' && request.headers['access-control-request-method'] !== undefined;
  if (origin === undefined) return false;
  const allowsAll = rules.allowedOrigins.includes('*');
  if (allowsAll || rules.allowedOrigins.includes(origin)) {
    response.setHeader('access-control-allow-origin', allowsAll ? '*' : origin);
    response.setHeader('access-control-expose-headers', rules.exposedResponseHeaders.join(','));
    if (!allowsAll) response.setHeader('vary', 'origin');
    if (isPreflight) {
      response.setHeader('access-control-allow-methods', rules.allowedMethods.join(','));
      response.setHeader('access-control-allow-headers', rules.allowedHeaders.join(','));
      response.setHeader('access-control-max-age', String(rules.maxAge));
    }
  }
  if (!isPreflight) return false;
  request.resume();
  response.statusCode = 204;
  response.end();
  return true;
}
