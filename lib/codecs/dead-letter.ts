/**
 * The file in which a message that was delivered too often is archived. A listing reads only the first bytes of each file, so
 * short fields stand before the body, and the uri is found without the rest of the message.
 */
import { type Enqueue, isCanaryKey, isIdentity } from '../contract/enqueue.ts';
import { asError, badRequest } from '../contract/errors.ts';
import { assertUri } from '../contract/names.ts';
import { type Notified, readNotified } from '../contract/notice.ts';
import { isExpiresAfter } from '../contract/schedule.ts';
import { readTrace, type TraceContext, type TraceHeaders, traceHeaders } from '../contract/trace.ts';
import { decodeMessage } from './message.ts';

export interface DeadLetter extends Notified {
  /** SQS's id, which is also the file name. */
  readonly messageId: string;
  /** When its record was first sent, in ms since 1970; undefined if the file does not contain it. */
  readonly sentAt: number | undefined;
  /** The identity of its enqueue. */
  readonly identity: string;
  /** How often its record was replayed through the queue before. */
  readonly replays: number;
  /** The number of deliveries; undefined if the file does not contain it. */
  readonly attempts: number | undefined;
  /** The tenant of the record. */
  readonly groupId?: string | undefined;
  /** A canary runs it or not by this, if its sender chose that. */
  readonly canaryKey?: string | undefined;
  /** Seconds in the queue after which the record is not run any more, if its sender said that. A replay counts from its own time. */
  readonly expiresAfter?: number | undefined;
  /** The name of the model. Default: the job's own. */
  readonly model?: string | undefined;
  /** The trace context of the enqueue. */
  readonly trace?: TraceContext | undefined;
  readonly body: string;
}

export function encodeDeadLetter({ trace, body, ...facts }: DeadLetter): string {
  return JSON.stringify({ ...facts, ...traceHeaders(trace), body });
}

/** @throws bad_request when the text is not a dead letter */
export function decodeDeadLetter(text: string): DeadLetter {
  let parsed: Fields | null;
  try {
    parsed = JSON.parse(text);
  } catch (error) {
    throw badRequest(`not a dead letter: ${asError(error).message}`);
  }
  const { messageId, sentAt, identity, replays, attempts, groupId, canaryKey, expiresAfter, model, body } =
    parsed ?? {};
  if (typeof messageId !== 'string' || typeof body !== 'string') {
    throw badRequest('not a dead letter: expected {"messageId", "body"}');
  }
  return {
    messageId,
    sentAt: numberOf(sentAt),
    identity: isIdentity(identity) ? identity : messageId,
    replays: numberOf(replays) ?? 0,
    attempts: numberOf(attempts),
    ...(typeof groupId === 'string' && { groupId }),
    ...(isCanaryKey(canaryKey) && { canaryKey }),
    ...(isExpiresAfter(expiresAfter) && { expiresAfter }),
    ...(typeof model === 'string' && { model }),
    trace: readTrace(parsed ?? {}),
    ...readNotified(parsed ?? {}),
    body,
  };
}

/** The record sent again: it keeps its identity and its time, so what was enqueued later under its uri stays later. */
export function replayOf(letter: DeadLetter): Enqueue {
  const { identity, sentAt = 0, replays, trace, canaryKey, expiresAfter, model } = letter;
  return {
    identity,
    sentAt,
    replays: replays + 1,
    trace,
    canaryKey,
    expiresAfter,
    model,
    ...readNotified(letter),
  };
}

type Fields = Partial<Record<Exclude<keyof DeadLetter, 'trace'> | keyof TraceHeaders, unknown>>;

function numberOf(value: unknown): number | undefined {
  return typeof value === 'number' && Number.isFinite(value) ? value : undefined;
}

export interface DeadLetterFacts {
  /** Undefined for a message without a readable uri. */
  readonly uri: string | undefined;
  readonly sentAt: number | undefined;
  readonly attempts: number | undefined;
}

/** @returns undefined for a file that is not a dead letter */
export function deadLetterFacts(text: string): DeadLetterFacts | undefined {
  try {
    const { sentAt, attempts, body } = decodeDeadLetter(text);
    return { uri: uriOf(body), sentAt, attempts };
  } catch {
    return undefined;
  }
}

/** Undefined for a body without a valid uri. */
export function uriOf(body: string): string | undefined {
  try {
    return decodeMessage(body).uri;
  } catch {
    return undefined;
  }
}

const BODY = ',"body":"';
/** A message as our clients and the old ones write it begins with its uri. */
const URI_FIRST = /^\s*\{\s*"uri"\s*:\s*("(?:[^"\\]|\\.)*")\s*[,}]/;

/**
 * Like `deadLetterFacts`, from the first characters of a file.
 * @returns undefined when these are not enough and the whole file is needed
 */
export function deadLetterFactsOfHead(head: string): DeadLetterFacts | undefined {
  const at = head.indexOf(BODY);
  if (at < 0) return undefined;
  try {
    const fields: Fields = JSON.parse(`${head.slice(0, at)}}`);
    if (typeof fields.messageId !== 'string') return undefined;
    // The text may be cut inside an escape, of at most six characters, which is dropped.
    const inside = head.slice(at + BODY.length).replace(/\\(?:u[0-9a-f]{0,3})?$/i, '');
    const body = JSON.parse(`"${inside}"`) as string;
    const found = URI_FIRST.exec(body)?.[1];
    if (found === undefined) return undefined;
    const uri = assertUri(JSON.parse(found));
    return { uri, sentAt: numberOf(fields.sentAt), attempts: numberOf(fields.attempts) };
  } catch {
    return undefined;
  }
}
