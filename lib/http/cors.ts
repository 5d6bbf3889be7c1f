/**
 * The CORS rules for the origins a job allows, the same deployed and local. Without an origin there are no rules, and
 * browsers refuse.
 */

/** As API Gateway takes them. */
export interface CorsRules {
  readonly allowedOrigins: readonly string[];
  readonly allowedMethods: readonly string[];
  readonly allowedHeaders: readonly string[];
  readonly exposedResponseHeaders: readonly string[];
  /** How long a browser remembers what it may, in seconds. */
  readonly maxAge: number;
}

export function corsRules(allowedOrigins: readonly string[]): CorsRules | undefined {
  if (allowedOrigins.length === 0) return undefined;
  return {
    allowedOrigins,
    allowedMethods: ['GET', 'POST', 'DELETE'],
    // The last three are what a signed request brings.
    allowedHeaders: [
      'content-type',
      'prefer',
      'inference-header-content-length',
      'authorization',
      'x-amz-date',
      'x-amz-security-token',
    ],
    exposedResponseHeaders: ['location', 'retry-after', 'model-version', 'inference-header-content-length'],
    maxAge: 3_600,
  };
}
