/**
 * Refuses an event of another kind than the function's own, as a test event of the console or a trigger that was added by
 * hand: it would fail in the middle of the function with a message about a missing property.
 */
import type { Context } from 'aws-lambda';
import { badRequest } from '../contract/errors.ts';

/** As Lambda calls it. */
export type Handler<E, R> = (event: E, context: Context) => Promise<R>;

/** The arguments of a function. */
export type EventKind = 'sqs' | 'http' | 'schedule';

const EXPECTED: Readonly<Record<EventKind, string>> = {
  sqs: 'an event of its SQS queue',
  http: 'a request of the HTTP API, payload format 2.0',
  schedule: 'an event of its schedule, or a replay',
};

/** A name of an event's property may be anything. */
const MAX_KEYS = 5;
const MAX_KEY_LENGTH = 40;

/** @throws bad_request for an event of another kind. Its error names the keys and no value. */
export function assertEvent(event: unknown, kind: EventKind): void {
  if (IS_OF[kind](event)) return;
  throw badRequest(
    `unknown event: expected ${EXPECTED[kind]}, got ${described(event)}; call the function through what feeds it`,
  );
}

const IS_OF: Readonly<Record<EventKind, (event: unknown) => boolean>> = {
  sqs: isQueueEvent,
  http: isHttpEvent,
  schedule: isScheduled,
};

/** Called by its schedule, or with what a person asks of it. No client waits for either. */
export function isScheduled(event: unknown): boolean {
  const { source, replay } = propertiesOf(event);
  return source === 'aws.events' || replay !== undefined;
}

function isQueueEvent(event: unknown): boolean {
  const { Records } = propertiesOf(event);
  return Array.isArray(Records) && Records.every(isMessage);
}

function isMessage(record: unknown): boolean {
  const { messageId, eventSource = 'aws:sqs' } = propertiesOf(record);
  return typeof messageId === 'string' && eventSource === 'aws:sqs';
}

function isHttpEvent(event: unknown): boolean {
  const { rawPath, requestContext } = propertiesOf(event);
  return typeof rawPath === 'string' && propertiesOf(requestContext)['http'] !== undefined;
}

function propertiesOf(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null ? (value as Readonly<Record<string, unknown>>) : {};
}

function described(event: unknown): string {
  if (typeof event !== 'object' || event === null) return event === null ? 'null' : `a ${typeof event}`;
  const keys = Object.keys(event);
  const shown = keys.slice(0, MAX_KEYS).map((key) => JSON.stringify(key.slice(0, MAX_KEY_LENGTH)));
  if (keys.length === 0) return 'an empty one';
  return `one with ${shown.join(', ')}${keys.length > MAX_KEYS ? ` and ${keys.length - MAX_KEYS} more` : ''}`;
}
