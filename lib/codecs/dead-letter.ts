/**
 * The file in which a message that ran out of tries is parked. A listing reads only the first bytes of each file, so
 * short fields stand before the body, and the uri is found without the rest of the message.
 */
import { badRequest } from '../contract/errors.ts';
import { assertUri } from '../contract/names.ts';
import { decodeMessage } from './message.ts';

export interface ParkedMessage {
  /** SQS's own; the file's name. */
  readonly messageId: string;
  /** When it was sent, in ms since 1970; undefined in a file that does not say. */
  readonly sentAt: number | undefined;
  /** Deliveries it had; undefined in a file that does not say. */
  readonly tries: number | undefined;
  readonly body: string;
}

export function encodeParked({ messageId, sentAt, tries, body }: ParkedMessage): string {
  return JSON.stringify({ messageId, sentAt, tries, body });
}

/** @throws bad_request when the text is no parked message */
export function decodeParked(text: string): ParkedMessage {
  let parsed: Partial<Record<keyof ParkedMessage, unknown>> | null;
  try {
    parsed = JSON.parse(text) as typeof parsed;
  } catch (error) {
    throw badRequest(`no parked message: ${(error as Error).message}`);
  }
  const { messageId, sentAt, tries, body } = parsed ?? {};
  if (typeof messageId !== 'string' || typeof body !== 'string') {
    throw badRequest('no parked message: expected {"messageId", "body"}');
  }
  return { messageId, sentAt: numberOf(sentAt), tries: numberOf(tries), body };
}

function numberOf(value: unknown): number | undefined {
  return typeof value === 'number' && Number.isFinite(value) ? value : undefined;
}

export interface ParkedFacts {
  /** Undefined for a message that nobody can be told about. */
  readonly uri: string | undefined;
  readonly sentAt: number | undefined;
  readonly tries: number | undefined;
}

/** @returns undefined for a file that is no parked message */
export function parkedFacts(text: string): ParkedFacts | undefined {
  try {
    const { sentAt, tries, body } = decodeParked(text);
    return { uri: uriOf(body), sentAt, tries };
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
export function parkedFactsOfHead(head: string): ParkedFacts | undefined {
  const at = head.indexOf(BODY);
  if (at < 0) return undefined;
  try {
    const { messageId, sentAt, tries } = JSON.parse(`${head.slice(0, at)}}`) as Record<string, unknown>;
    if (typeof messageId !== 'string') return undefined;
    // Cut in the middle of an escape, the rest would be no JSON text; six characters are the longest escape.
    const inside = head.slice(at + BODY.length).replace(/\\(?:u[0-9a-f]{0,3})?$/i, '');
    const body = JSON.parse(`"${inside}"`) as string;
    const found = URI_FIRST.exec(body)?.[1];
    if (found === undefined) return undefined;
    return { uri: assertUri(JSON.parse(found)), sentAt: numberOf(sentAt), tries: numberOf(tries) };
  } catch {
    return undefined;
  }
}
