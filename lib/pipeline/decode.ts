/**
 * Decodes messages of the queue to records. A record that can never work gets a failed result. A record with a
 * retryable error goes back to the queue. So does a message that cannot be read, because a newer release may read it; after
 * some deliveries it is a dead letter.
 */
import { decodeMessage } from '../codecs/message.ts';
import { parseInstances } from '../codecs/numbers/parse.ts';
import type { Enqueue } from '../contract/enqueue.ts';
import { ServingError } from '../contract/errors.ts';
import type { TraceContext } from '../contract/trace.ts';
import type { Inputs, Outcome } from '../contract/values.ts';
import type { Scratch } from './batch/buffer-pool.ts';
import type { Message } from './chunks.ts';
import { type DeadMessage, exceeded } from './dead-letters.ts';

export interface QueuedRecord {
  /** The message's id. */
  readonly id: string;
  readonly enqueue: Enqueue;
  readonly uri: string;
  /** The number of deliveries of its message. */
  readonly attempts: number;
  readonly inputs: Inputs;
  /** Its sender's choice of what decides whether a canary runs it. Default: its uri. */
  readonly key?: string | undefined;
}

export interface FinishedRecord {
  readonly id: string;
  readonly enqueue: Enqueue;
  readonly uri: string;
  readonly outcome: Outcome;
}

/** A message to deliver again, with the reason. */
export interface ReturnedMessage {
  readonly id: string;
  readonly error: ServingError;
  readonly trace?: TraceContext | undefined;
  /** Set when it cannot be read and was delivered often enough to be archived instead. */
  readonly dead?: DeadMessage;
}

export interface Decoded {
  readonly records: readonly QueuedRecord[];
  /** Records that failed before they could run. */
  readonly finished: readonly FinishedRecord[];
  readonly returned: readonly ReturnedMessage[];
}

/** True when no time was left for any message of a chunk. */
export function isLate({ finished, returned }: Pick<Decoded, 'finished' | 'returned'>): boolean {
  return (
    finished.length === 0 && returned.length > 0 && returned.every(({ error }) => error.code === 'timeout')
  );
}

/**
 * Never throws because of a record.
 * @param buffers memory for tensors
 * @param most deliveries of a message that cannot be read. Default: it is delivered for as long as the queue does
 */
export function decodeMessages(
  messages: readonly Message[],
  buffers: Scratch,
  most = Number.POSITIVE_INFINITY,
): Decoded {
  const allocate = (bytes: number) => buffers.take(bytes);
  const records: QueuedRecord[] = [];
  const finished: FinishedRecord[] = [];
  const returned: ReturnedMessage[] = [];
  for (const { id, enqueue, attempts, body, key } of messages) {
    // A text is all that reading takes. An error stands for what is not here: S3 is away, or the time is over.
    const isDead = typeof body === 'string' && attempts >= most;
    try {
      const { uri, inputs } =
        body instanceof ServingError ? unread(body) : decodeMessage(body, allocate, parseInstances);
      if (!(inputs instanceof ServingError)) records.push({ id, enqueue, uri, attempts, inputs, key });
      else {
        const error = isDead && inputs.retryable ? exceeded(id, attempts, inputs) : inputs;
        if (error.retryable) returned.push({ id, error, trace: enqueue.trace });
        else finished.push({ id, enqueue, uri, outcome: { ok: false, error } });
      }
    } catch (error) {
      const dead = isDead && { dead: { id, attempts } };
      returned.push({ id, error: ServingError.from(error), trace: enqueue.trace, ...dead });
    }
  }
  return { records, finished, returned };
}

/** @throws the error if it has no uri to store it under */
function unread(error: ServingError): { uri: string; inputs: ServingError } {
  if (error.uri === undefined) throw error;
  return { uri: error.uri, inputs: error };
}
