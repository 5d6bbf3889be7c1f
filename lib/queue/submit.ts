/**
 * In: a record's message. Out: SQS has it, or a pointer to it when it is too large for a message.
 * Trap: SQS counts bytes, not characters.
 */
import { encodePointer } from '../codecs/pointer.ts';
import { ServingError } from '../contract/errors.ts';
import { LIMITS } from '../contract/limits.ts';
import type { PayloadStore } from '../s3/payloads.ts';
import type { QueueSender } from './sender.ts';

/**
 * @param payloads undefined where nothing can be put into S3: then a large record is refused
 * @throws too_large, queue_unavailable
 */
export async function submit(
  sender: Pick<QueueSender, 'send'>,
  payloads: (() => Promise<Pick<PayloadStore, 'put'>>) | undefined,
  record: { readonly uri: string; readonly message: string },
): Promise<void> {
  const { uri, message } = record;
  const bytes = Buffer.byteLength(message);
  if (bytes <= LIMITS.messageBytes) return sender.send(message);
  if (!payloads) {
    throw new ServingError(
      'too_large',
      `the record is ${bytes} bytes as a message, over the limit of ${LIMITS.messageBytes}; with a bucket it would travel through S3`,
      { uri },
    );
  }
  const store = await payloads();
  return sender.send(encodePointer(uri, await store.put(message), bytes));
}
