/** Archives messages of an event as dead letters, counts them, and logs what could not be archived. */
import { enqueueOf } from '../codecs/attributes.ts';
import { logError } from '../contract/log.ts';
import type { Delivered } from '../pipeline/chunks.ts';
import { type DeadMessage, deadLetterOf } from '../pipeline/dead-letters.ts';
import { measure } from './emf.ts';

/** Stores one message under its id. */
export type Archive = (messageId: string, message: string) => Promise<void>;

/** Messages that are archived at the same time. */
const TOGETHER = 16;

/** As ArchiveDead, for messages of `delivered`. */
export async function archiveDead(
  delivered: readonly Delivered[],
  dead: readonly DeadMessage[],
  archive: Archive,
  isOver: () => boolean = () => false,
): Promise<ReadonlySet<string>> {
  const byId = new Map(delivered.map((message) => [message.messageId, message]));
  const lost = new Set<string>();
  const put = async ({ id, attempts }: DeadMessage) => {
    // The id is that of a message of this event.
    const message = byId.get(id) as Delivered;
    try {
      await archive(id, deadLetterOf(message, attempts));
      measure('DeadLettered', 1);
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
