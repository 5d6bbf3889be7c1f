/** Finds what answers a request among the routes of a function, and how errors of that route are answered. */
import type { APIGatewayProxyEventV2 } from 'aws-lambda';
import { ServingError } from '../contract/errors.ts';
import { logError } from '../contract/log.ts';
import type { InvocationClock } from '../pipeline/deadline.ts';
import { type HttpRequest, readRequest } from './request.ts';
import { type ErrorBody, type HttpResponse, respondWithin } from './response.ts';

/** Answers a route: its export `handle`. */
export interface Handle<D> {
  (request: HttpRequest, deps: D, clock: InvocationClock | undefined): Promise<HttpResponse>;
  /** How its errors are answered. Default: in our own form. */
  readonly errorBody?: ErrorBody;
}

/** By method and path, as API Gateway writes them: routes/handles.ts. */
export type Handles<D> = Readonly<Record<string, Handle<D>>>;

/** What all of them need. */
export type DepsOf<H extends Handles<never>> = H[keyof H] extends Handle<infer D> ? D : never;

export function withErrors<D>(errorBody: ErrorBody, answer: Handle<D>): Handle<D> {
  return Object.assign(answer, { errorBody });
}

type Answer<D> = (
  deps: D,
  event: APIGatewayProxyEventV2,
  clock?: InvocationClock,
  leftMs?: number,
) => Promise<HttpResponse>;

/** @returns what answers an event, with an error of its route where that throws; after `leftMs` with `timeout` */
export function answerRoutes<D>(handles: Handles<D>): Answer<D> {
  const patterns = Object.keys(handles)
    .filter((key) => key.includes('{'))
    .map((key) => ({ pattern: patternOf(key), handle: handles[key] }));
  return (deps, event, clock, leftMs) => {
    const { method } = event.requestContext.http;
    const path = event.rawPath;
    // HEAD answers as GET does: the gateway leaves the body out.
    const key = `${method === 'HEAD' ? 'GET' : method} ${path}`;
    const handle = handles[key] ?? patterns.find(({ pattern }) => pattern.test(key))?.handle;
    // Nothing is awaited here that is at hand: each await costs a request to POST /predict a microsecond with its promises.
    const work = () => {
      if (handle) return handle(readRequest(event), deps, clock);
      throw new ServingError('not_found', `no such path: ${path}`);
    };
    return respondWithin(leftMs, work, logError, handle?.errorBody);
  };
}

/** `{name+}` is the rest of the path, `{name}` one part of it. */
function patternOf(key: string): RegExp {
  return new RegExp(`^${key.replace(/\{\w+\+\}/, '[^]+').replaceAll(/\{\w+\}/g, '[^/]+')}$`);
}
