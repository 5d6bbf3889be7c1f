/**
 * The CORS rules for the origins that a job allows, the same on AWS and locally. Without an origin there are no
 * rules, and browsers block calls.
 */

/** In the form of API Gateway. */
export interface CorsRules {
  readonly allowedOrigins: readonly string[];
  readonly allowedMethods: readonly string[];
  readonly allowedHeaders: readonly string[];
  readonly exposedResponseHeaders: readonly string[];
  /** How long a browser caches the rules, in seconds. */
  readonly maxAge: number;
}

export function corsRules(allowedOrigins: readonly string[]): CorsRules | undefined {
  if (allowedOrigins.length === 0) return undefined;
  return {
    allowedOrigins,
    allowedMethods: ['GET', 'POST', 'DELETE'],
    // The last three are headers of signed requests.
    allowedHeaders: [
      'content-type',
      'prefer',
      'idempotency-key',
      'canary-key',
      'inference-header-content-length',
      'traceparent',
      'tracestate',
      'authorization',
      'x-amz-date',
      'x-amz-security-token',
    ],
    exposedResponseHeaders: [
      'location',
      'retry-after',
      'model-version',
      'model-runtime',
      'run-rows',
      'inference-header-content-length',
      'traceparent',
      'warning',
    ],
    maxAge: 3_600,
  };
}
