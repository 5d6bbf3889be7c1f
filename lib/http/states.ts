/**
 * GET /status?uri=... and POST /cancel?uri=... The uri is in the query, because a path would lose its slashes and
 * question marks.
 */
import type { EnqueueQuery } from '../contract/enqueue.ts';
import { ServingError } from '../contract/errors.ts';
import type { RecordStatus } from '../contract/result.ts';
import type { HttpRequest } from './request.ts';
import { type HttpResponse, json } from './response.ts';

export interface States {
  status(uri: string, query: EnqueueQuery): Promise<RecordStatus>;
  /** @returns false when it is too late: every enqueue that is known has its outcome */
  cancel(uri: string): Promise<boolean>;
}

export function isStatePath(path: string): boolean {
  return path === '/status' || path === '/cancel';
}

/** @throws bad_request for a bad uri, conflict when it is too late to cancel */
export async function answerState(request: HttpRequest, states: States): Promise<HttpResponse> {
  const { path } = request;
  const uri = request.uri();
  if (path === '/status') {
    const identity = request.identity();
    return json(200, { uri, identity, status: await states.status(uri, { identity }) });
  }
  if (await states.cancel(uri)) return json(200, { uri, status: 'cancelled' });
  throw new ServingError('conflict', 'too late to cancel: the record has, or had, its result', { uri });
}
