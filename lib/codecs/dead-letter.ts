/**
 * The file in which a message that was delivered too often is archived. A listing reads only the first bytes of each file, so
 * short fields stand before the body, and the uri is found without the rest of the message.
 */
import { badRequest } from '../contract/errors.ts';
import { assertUri } from '../contract/names.ts';
import { decodeMessage } from './message.ts';

export interface DeadLetter {
  /** SQS's own; the file's name. */
  readonly messageId: string;
  /** When it was sent, in ms since 1970; undefined in a file that does not say. */
  readonly sentAt: number | undefined;
  /** Deliveries it had; undefined in a file that does not say. */
  readonly attempts: number | undefined;
  readonly body: string;
}

export function encodeDeadLetter({ messageId, sentAt, attempts, body }: DeadLetter): string {
  return JSON.stringify({ messageId, sentAt, attempts, body });
}

/** @throws bad_request when the text is not a dead letter */
export function decodeDeadLetter(text: string): DeadLetter {
  let parsed: Fields | null;
  try {
    parsed = JSON.parse(text) as typeof parsed;
  } catch (error) {
    throw badRequest(`not a dead letter: ${(error as Error).message}`);
  }
  const { messageId, sentAt, body } = parsed ?? {};
  if (typeof messageId !== 'string' || typeof body !== 'string') {
    throw badRequest('not a dead letter: expected {"messageId", "body"}');
  }
  return { messageId, sentAt: numberOf(sentAt), attempts: attemptsIn(parsed), body };
}

/** Earlier versions wrote `tries` for `attempts`. */
type Fields = Partial<Record<keyof DeadLetter | 'tries', unknown>>;

function attemptsIn(fields: Fields | null): number | undefined {
  return numberOf(fields?.attempts ?? fields?.tries);
}

function numberOf(value: unknown): number | undefined {
  return typeof value === 'number' && Number.isFinite(value) ? value : undefined;
}

export interface DeadLetterFacts {
  /** Undefined for a message that nobody can be told about. */
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

/** Undefined for a body that has none, or none that is a uri. */
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
 * The same from the first characters of a file, where they tell it.
 * @returns undefined when they do not: then the whole file is needed
 */
export function deadLetterFactsOfHead(head: string): DeadLetterFacts | undefined {
  const at = head.indexOf(BODY);
  if (at < 0) return undefined;
  try {
    const fields = JSON.parse(`${head.slice(0, at)}}`) as Fields;
    if (typeof fields.messageId !== 'string') return undefined;
    // Cut in the middle of an escape, the rest would be no JSON text; six characters are the longest escape.
    const inside = head.slice(at + BODY.length).replace(/\\(?:u[0-9a-f]{0,3})?$/i, '');
    const body = JSON.parse(`"${inside}"`) as string;
    const found = URI_FIRST.exec(body)?.[1];
    if (found === undefined) return undefined;
    const uri = assertUri(JSON.parse(found));
    return { uri, sentAt: numberOf(fields.sentAt), attempts: attemptsIn(fields) };
  } catch {
    return undefined;
  }
}
