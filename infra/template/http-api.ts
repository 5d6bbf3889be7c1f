/** The HTTP API of a stack: its routes by function, who may call them, and its access log. */
import { ROUTES, type Route, type RoutedFunction } from '../../lib/http/routes.ts';
import { functionOf } from './convention-parameters.ts';
import type { Deployment } from './parameters.ts';

export type Authorizer =
  | { readonly type: 'aws_iam' }
  | { readonly name: 'jwt'; readonly scopes?: readonly string[] };

export interface HttpEvent {
  readonly httpApi: { readonly method: string; readonly path: string; readonly authorizer?: Authorizer };
}

/**
 * The fields of a request in the access log: what was asked, who answered, and why it was refused. The route replaces
 * the path, which may hold a uri. Address, caller and headers are omitted, because they are personal data.
 */
const ACCESS_LOG = {
  requestId: '$context.requestId',
  requestTime: '$context.requestTime',
  routeKey: '$context.routeKey',
  status: '$context.status',
  error: '$context.error.message',
  errorType: '$context.error.responseType',
  authorizerError: '$context.authorizer.error',
  integrationStatus: '$context.integration.integrationStatus',
  integrationError: '$context.integration.error',
  integrationLatencyMs: '$context.integrationLatency',
  latencyMs: '$context.responseLatency',
  responseBytes: '$context.responseLength',
} as const;

/** Who called: the user or role of a signed request, the subject of a token. */
const CALLER = {
  sourceIp: '$context.identity.sourceIp',
  userArn: '$context.identity.userArn',
  subject: '$context.authorizer.claims.sub',
} as const;

/** One line of JSON for each request. */
export function accessLogFormat({ callerLog }: Pick<Deployment, 'callerLog'>): string {
  return JSON.stringify({ ...ACCESS_LOG, ...(callerLog === 'on' ? CALLER : {}) });
}

export function httpEventsOf(
  authorizer: Authorizer | null,
  jwtScopes: readonly string[],
  takesFileJobs: boolean,
): Readonly<Record<RoutedFunction, readonly HttpEvent[]>> {
  const of = (name: RoutedFunction): readonly HttpEvent[] => {
    const scopes = jwtScopes
      .find((one) => functionOf(one) === name)
      ?.slice(name.length + 1)
      .split(' ');
    const isThere = ({ needs }: Route) => needs === undefined || takesFileJobs;
    return ROUTES.filter((route) => route.function === name && isThere(route)).map(({ method, path }) => ({
      httpApi: {
        method,
        path,
        ...(authorizer && { authorizer: { ...authorizer, ...(scopes && { scopes }) } }),
      },
    }));
  };
  return {
    predict: of('predict'),
    submit: of('submit'),
    predictions: of('predictions'),
    status: of('status'),
  };
}

export function authorizerOf({ auth, jwtIssuer, jwtAudience }: Deployment) {
  if (auth === 'iam') return { authorizer: { type: 'aws_iam' }, authorizers: {} } as const;
  if (auth === 'none') return { authorizer: null, authorizers: {} };
  const jwt = {
    type: 'jwt',
    identitySource: '$request.header.Authorization',
    issuerUrl: jwtIssuer,
    audience: jwtAudience,
  };
  return { authorizer: { name: 'jwt' }, authorizers: { jwt } } as const;
}
