/** Finds what answers a request among the routes of a function. */
import type { APIGatewayProxyEventV2 } from 'aws-lambda';
import { ServingError } from '../contract/errors.ts';
import type { InvocationClock } from '../pipeline/deadline.ts';
import type { HttpRequest } from './request.ts';
import type { ErrorBody, HttpResponse } from './response.ts';

/** Answers a route: its export `handle`. */
export interface Handle<D> {
  (request: HttpRequest, deps: D, clock: InvocationClock | undefined): Promise<HttpResponse>;
  /** How its errors are answered. Default: in our own form. */
  readonly errorBody?: ErrorBody;
}

/** By method and path, as API Gateway writes them: routes/lists. */
export type Handles<D> = Readonly<Record<string, Handle<D>>>;

/** Needed by all of them. */
export type DepsOf<H extends Handles<never>> = H[keyof H] extends Handle<infer D> ? D : never;

export function withErrors<D>(errorBody: ErrorBody, answer: Handle<D>): Handle<D> {
  return Object.assign(answer, { errorBody });
}

/**
 * @returns what finds the handle of an event by its path. A path that is not a key begins as a key does before its `{name}` or `{name+}`.
 * Below the base path of a domain no key fits, and the route that API Gateway took counts
 */
export function findHandle<D>(handles: Handles<D>): (event: APIGatewayProxyEventV2) => Handle<D> {
  const open = Object.keys(handles).filter((key) => key.includes('{'));
  return ({ routeKey, rawPath, requestContext: { http } }) => {
    // HEAD answers as GET does: the gateway leaves the body out.
    const asked = `${http.method === 'HEAD' ? 'GET' : http.method} ${rawPath}`;
    const begins = (key: string) => asked.startsWith(key.slice(0, key.indexOf('{')));
    const routed = Object.hasOwn(handles, routeKey) ? handles[routeKey] : undefined;
    return handles[asked] ?? handles[open.find(begins) ?? ''] ?? routed ?? refuse;
  };
}

const refuse: Handle<unknown> = ({ path }) => {
  throw new ServingError('not_found', `no such path: ${path}`);
};
