/**
 * Messages that get no outcome by being delivered again. They are archived as they were delivered before their failure is saved: if
 * the function stops in between, the message comes again and both steps are repeated.
 */

import { enqueueOf } from '../codecs/attributes.ts';
import { encodeDeadLetter } from '../codecs/dead-letter.ts';
import { ServingError } from '../contract/errors.ts';
import { logError } from '../contract/log.ts';
import { present } from '../contract/present.ts';
import type { Outcome } from '../contract/values.ts';
import type { Delivered } from './chunks.ts';

/**
 * Deliveries after which the queue itself gives a record up, the maximum of SQS. The batch function ends it long before, by its
 * runs: what is left comes back because Redis, S3 or the model is away.
 */
export const MOST_DELIVERIES = 1_000;

export interface DeadMessage {
  readonly id: string;
  /** How often its record ran; of one that cannot be read, its deliveries. */
  readonly attempts: number;
}

/**
 * Never throws.
 * @param isOver asked before each step; what was not archived by then comes again
 * @returns ids of those that could not be archived
 */
export type ArchiveDead = (
  dead: readonly DeadMessage[],
  isOver?: () => boolean,
) => Promise<ReadonlySet<string>>;

/** Stores one message under its id. */
export type Archive = (messageId: string, message: string) => Promise<void>;

/** The part of `Observer` about an archived message. Its file imports this one. */
interface ArchiveObserver {
  messageArchived?(messageId: string): void;
}

/** Messages that are archived at the same time. */
const TOGETHER = 16;

/** As ArchiveDead, for messages of `delivered`. */
export async function archiveDead(
  delivered: readonly Delivered[],
  dead: readonly DeadMessage[],
  { archive, observers }: { readonly archive: Archive; readonly observers: ArchiveObserver },
  isOver: () => boolean = () => false,
): Promise<ReadonlySet<string>> {
  const byId = new Map(delivered.map((message) => [message.messageId, message]));
  const lost = new Set<string>();
  const put = async ({ id, attempts }: DeadMessage) => {
    // The id is that of a message of this event.
    const message = present(byId.get(id), `message ${id} in the event`);
    try {
      await archive(id, deadLetterOf(message, attempts));
      observers.messageArchived?.(id);
    } catch (error) {
      lost.add(id);
      logError(error, { messageId: id, trace_id: enqueueOf(message).trace?.traceId });
    }
  };
  for (let i = 0; i < dead.length; i += TOGETHER) {
    const some = dead.slice(i, i + TOGETHER);
    if (isOver()) for (const { id } of some) lost.add(id);
    else await Promise.all(some.map(put));
  }
  return lost;
}

/** The file in which a message is archived. */
function deadLetterOf(delivered: Delivered, attempts: number): string {
  const { messageId, attributes, body } = delivered;
  const enqueue = enqueueOf(delivered);
  const { MessageGroupId: groupId } = attributes;
  return encodeDeadLetter({
    messageId,
    ...enqueue,
    sentAt: enqueue.sentAt || undefined,
    attempts,
    groupId,
    body,
  });
}

/** @param last how it failed the last time */
export function exceeded(id: string, times: number, last?: ServingError): ServingError {
  const why = last ? `; at last: ${last.publicMessage}` : '';
  const message = `the record failed ${times} times and was archived as ${id}${why}`;
  return new ServingError('max_receives_exceeded', message);
}

export function isExceeded(outcome: Outcome): boolean {
  return !outcome.ok && outcome.error.code === 'max_receives_exceeded';
}
