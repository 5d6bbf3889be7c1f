/**
 * Tells observers of calls. On its way out of a handler every request and every event passes the delivery of what is due, once,
 * before the answer.
 */
import type { Observers } from '../pipeline/observer.ts';
import { type EventKind, type Handler, isScheduled } from './events.ts';
import { observers } from './observers.ts';
import type { Scope } from './scope.ts';

/** The longest wait of an answer for its observers, and the time that is kept for sending it. */
const FLUSH_MS = 2_000;
const ANSWER_MS = 100;

/** @param kind of the handler's events. @param isTraced default: where anything is */
export function observeHandler<E, R>(
  scope: Scope,
  kind: EventKind,
  handler: Handler<E, R>,
  isTraced = true,
): Handler<E, R> {
  const told = scope.get(observers);
  const serve = (isTraced && scope.own.tracing?.handler(kind, handler, told)) || handler;
  return async (event, context) => {
    try {
      return await serve(event, context);
    } finally {
      if (kind === 'sqs') told.eventServed?.(event);
      const leftMs = () => Math.max(0, Math.min(FLUSH_MS, context.getRemainingTimeInMillis() - ANSWER_MS));
      const work = told.flush?.({ leftMs });
      if (work) await work;
    }
  };
}

function bodyBytes(event: unknown): number {
  const { body, isBase64Encoded }: { readonly body?: unknown; readonly isBase64Encoded?: boolean } =
    Object(event);
  return typeof body === 'string' ? Buffer.byteLength(body, isBase64Encoded ? 'base64' : 'utf8') : 0;
}

/** A call of a deployed function. @param event of any kind */
export async function observeCall<R>(
  told: Observers,
  event: unknown,
  ids: Readonly<Record<string, unknown>>,
  work: () => Promise<R>,
): Promise<R> {
  const { Records }: { readonly Records?: unknown } = Object(event);
  const messages = Array.isArray(Records) ? Records.length : undefined;
  told.functionCalled?.({ ids, messages, isScheduled: isScheduled(event), bytes: () => bodyBytes(event) });
  let answer: R | undefined;
  try {
    answer = await work();
    return answer;
  } finally {
    told.functionAnswered?.(answer);
  }
}
