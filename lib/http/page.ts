/** What pages of HTML need. They have no scripts and load nothing. */
import type { HttpResponse } from './response.ts';

/** Pages of other sites cannot frame it. */
export function page(html: string): HttpResponse {
  const headers = {
    'content-type': 'text/html; charset=utf-8',
    'content-security-policy': "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'",
    'cache-control': 'no-store',
    'x-content-type-options': 'nosniff',
  };
  return { statusCode: 200, headers, body: html };
}
