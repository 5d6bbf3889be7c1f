/**
 * Puts records into the queue: each is announced, and its message is sent, or a pointer to it if it is too large. SQS
 * counts bytes, not characters, and attributes too.
 */

import { attributesBytes, type MessageAttributes, newAttributes } from '../codecs/attributes.ts';
import { encodePointer } from '../codecs/pointer.ts';
import { forSqs } from '../codecs/sqs-text.ts';
import { ServingError } from '../contract/errors.ts';
import { LIMITS } from '../contract/limits.ts';
import type { Notified } from '../contract/notice.ts';
import { elementAt } from '../contract/present.ts';
import type { Schedule } from '../contract/schedule.ts';
import type { TraceContext } from '../contract/trace.ts';
import { allEnded } from '../contract/under-way.ts';

/** A record to send. */
export interface SentRecord extends Notified, Schedule {
  readonly uri: string;
  /** Made once per enqueue; sending the same record again because an answer was lost keeps it. */
  readonly identity: string;
  /** The body of its message: its payload. */
  readonly message: string;
  /** The tenant, for a fair queue. Default: the name of its model, so that none holds up the others. */
  readonly groupId?: string | undefined;
  /** By its value a canary takes the record or not. Default: its tenant, or its uri. */
  readonly canaryKey?: string | undefined;
  /** The name of the model that runs it. Default: the job's own. */
  readonly model?: string | undefined;
  /** The request that it came with, where its client named that. */
  readonly request?: NamedRequest | undefined;
  /** Travels with its message. */
  readonly trace?: TraceContext | undefined;
}

/** A request that its client may send again. Its name is never used for another one. */
export interface NamedRequest {
  readonly key: string;
  /** Digest of all records of the request. Default: that of its only record. */
  readonly digest?: string | undefined;
}

export interface Announcement {
  /** Call it when the record could not be sent. Never throws: what is not withdrawn expires. */
  withdraw(): Promise<void>;
}

/** Lets `status` know what is queued. */
export interface Announcer {
  /** @throws results_unavailable; conflict when the key of its request was used for another one */
  announce(record: SentRecord): Promise<Announcement>;
}

export interface Sender {
  /** @throws queue_unavailable */
  send(body: string, attributes: MessageAttributes, groupId?: string, delaySeconds?: number): Promise<void>;
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
  { trace, ...record }: SentRecord,
): Promise<void> {
  const { uri, identity, model, groupId = model, delaySeconds } = record;
  const message = forSqs(record.message);
  const attributes = newAttributes(identity, trace, record);
  const bytes = Buffer.byteLength(message);
  if (bytes + attributesBytes(attributes) <= LIMITS.messageBytes)
    return sender.send(message, attributes, groupId, delaySeconds);
  if (!payloads) {
    // A record that fits without its trace is sent.
    if (trace) return submit(sender, payloads, record);
    const limit = LIMITS.messageBytes - attributesBytes(attributes);
    throw new ServingError(
      'too_large',
      `the record is ${bytes} bytes as a message, over the limit of ${limit}; with a bucket it would travel through S3`,
      { uri },
    );
  }
  const store = await payloads();
  const pointer = encodePointer(uri, await store.put(message), bytes);
  return sender.send(forSqs(pointer), attributes, groupId, delaySeconds);
}

/**
 * Announces all records, then sends them. If one cannot be announced, nothing is sent. If one cannot be sent, its
 * announcement is withdrawn and the others stay sent.
 * @param announcer undefined without Redis: `status` then knows a record only when it has its outcome
 * @throws results_unavailable, conflict, errors of `send`: the first one, after all have ended
 */
export async function sendAnnounced<R extends SentRecord>(
  announcer: Announcer | undefined,
  records: readonly R[],
  send: (record: R) => Promise<void>,
): Promise<void> {
  if (!announcer) return void (await allEnded(records.map(send)));
  const asked = records.map((record) => announcer.announce(record));
  const announced = await allEnded(asked).catch(async (error: unknown) => {
    await Promise.allSettled(asked.map(async (announcement) => (await announcement).withdraw()));
    throw error;
  });
  await allEnded(
    records.map(async (record, i) => {
      await send(record).catch(async (error: unknown) => {
        await elementAt(announced, i, 'announced').withdraw();
        throw error;
      });
    }),
  );
}
