/**
 * Puts records into the queue: each is claimed, and its message is sent, or a pointer to it if it is too large. SQS
 * counts bytes, not characters.
 */
import { encodePointer } from '../codecs/pointer.ts';
import { ServingError } from '../contract/errors.ts';
import { LIMITS } from '../contract/limits.ts';

/** A record to send. */
export interface SentRecord {
  readonly uri: string;
  /** The body of its message. Encoding the same record always gives the same text. */
  readonly message: string;
}

export interface Claim {
  /** False when the record has an outcome, so that there is nothing to send. */
  readonly send: boolean;
  /** Call it when the record could not be sent. Never throws: a claim that is not released expires. */
  release(): Promise<void>;
}

export interface Claims {
  /** @throws conflict when the uri is in use for another payload, results_unavailable */
  claim(record: SentRecord): Promise<Claim>;
}

export interface Sender {
  /** @throws queue_unavailable */
  send(message: string): Promise<void>;
}

/** The store for records that are too large for a message. */
export interface LargeRecords {
  /** @returns the key for a pointer. @throws too_large, queue_unavailable */
  put(message: string): Promise<string>;
}

/**
 * @param payloads undefined without S3: a large record is then refused
 * @throws too_large, queue_unavailable
 */
export async function submit(
  sender: Sender,
  payloads: (() => Promise<LargeRecords>) | undefined,
  { uri, message }: SentRecord,
): Promise<void> {
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

/**
 * Claims all records, then sends them. If one claim is refused, nothing is sent. If one send fails, its claim is
 * released and the others stay sent.
 * @param claims undefined without Redis: everything is then sent and nothing refused
 * @throws conflict, results_unavailable, errors of `send`: the first one, after all have ended
 */
export async function sendClaimed<R extends SentRecord>(
  claims: Claims | undefined,
  records: readonly R[],
  send: (record: R) => Promise<void>,
): Promise<void> {
  if (!claims) return void (await allEnded(records.map(send)));
  const asked = records.map((record) => claims.claim(record));
  const held = await allEnded(asked).catch(async (error: unknown) => {
    await Promise.allSettled(asked.map(async (claim) => (await claim).send && (await claim).release()));
    throw error;
  });
  await allEnded(
    records.map(async (record, i) => {
      const claim = held[i] as Claim;
      if (!claim.send) return;
      await send(record).catch(async (error: unknown) => {
        await claim.release();
        throw error;
      });
    }),
  );
}

/** Like Promise.all, but nothing is in flight when it throws, because Lambda freezes after the answer. */
async function allEnded<T>(promises: readonly Promise<T>[]): Promise<T[]> {
  const settled = await Promise.allSettled(promises);
  return settled.map((outcome) => {
    if (outcome.status === 'rejected') throw outcome.reason;
    return outcome.value;
  });
}
