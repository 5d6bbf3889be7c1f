/**
 * Decodes messages of the queue to records. A record that can never work gets a failed result. A record with a
 * retryable error goes back to the queue, and so does a message without a uri, because its failure could not be
 * stored.
 */
import { decodeMessage } from '../codecs/message.ts';
import { parseInstances } from '../codecs/numbers/parse.ts';
import type { Enqueue } from '../contract/enqueue.ts';
import { ServingError } from '../contract/errors.ts';
import type { TraceContext } from '../contract/trace.ts';
import type { Inputs, Outcome } from '../contract/values.ts';
import type { Scratch } from './buffer-pool.ts';
import type { Message } from './chunks.ts';

export interface QueuedRecord {
  /** Of its message. */
  readonly id: string;
  readonly enqueue: Enqueue;
  readonly uri: string;
  /** The number of deliveries of its message. */
  readonly attempts: number;
  readonly inputs: Inputs;
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

/** @param buffers memory for tensors. Never throws because of a record */
export function decodeMessages(messages: readonly Message[], buffers: Scratch): Decoded {
  const allocate = (bytes: number) => buffers.take(bytes);
  const records: QueuedRecord[] = [];
  const finished: FinishedRecord[] = [];
  const returned: ReturnedMessage[] = [];
  for (const { id, enqueue, attempts, body } of messages) {
    try {
      const { uri, inputs } =
        body instanceof ServingError ? unread(body) : decodeMessage(body, allocate, parseInstances);
      if (!(inputs instanceof ServingError)) records.push({ id, enqueue, uri, attempts, inputs });
      else if (inputs.retryable) returned.push({ id, error: inputs, trace: enqueue.trace });
      else finished.push({ id, enqueue, uri, outcome: { ok: false, error: inputs } });
    } catch (error) {
      returned.push({ id, error: ServingError.from(error), trace: enqueue.trace });
    }
  }
  return { records, finished, returned };
}

/** @throws the error if it has no uri to store it under */
function unread(error: ServingError): { uri: string; inputs: ServingError } {
  if (error.uri === undefined) throw error;
  return { uri: error.uri, inputs: error };
}
