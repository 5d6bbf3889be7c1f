/** Who sent a request, as API Gateway says it: it has checked the signature or the token. */

/** Every caller of an API that asks nobody who calls, such as that of a single machine. */
export const ANYONE = 'anyone';

/**
 * @param requestContext of an event of API Gateway
 * @returns the IAM user or role, regardless of its session; the issuer and subject of a token; or ANYONE
 */
export function callerOf(requestContext: unknown): string {
  const { authorizer }: { readonly authorizer?: unknown } = Object(requestContext);
  const { iam, jwt }: { readonly iam?: unknown; readonly jwt?: unknown } = Object(authorizer);
  const { callerId }: { readonly callerId?: unknown } = Object(iam);
  // AROA…:session of a role, whose credentials may be new between two requests; AIDA… of a user.
  if (typeof callerId === 'string' && callerId !== '') return `iam:${callerId.split(':', 1)[0]}`;
  const { claims }: { readonly claims?: unknown } = Object(jwt);
  const { iss, sub, client_id: client }: Readonly<Record<string, unknown>> = Object(claims);
  const subject = sub ?? client;
  return typeof subject === 'string' ? `jwt:${String(iss)} ${subject}` : ANYONE;
}
