/**
 * Gathers received messages into batches as Lambda's event source mapping does: a batch closes at batchSize, at the
 * end of the window that its first message opened, or before the event exceeds 6 MB. Each message keeps its arrival
 * time, so what is left of a full batch does not wait a second window. Pure: the time is a parameter.
 */
import type { SQSRecord } from 'aws-lambda';

export interface HeldMessage {
  readonly messageId: string;
  readonly receiptHandle: string;
  readonly record: SQSRecord;
  /** The size of the record as JSON in the event. */
  readonly bytes: number;
  readonly arrivedMs: number;
}

interface GatherLimits {
  readonly batchSize: number;
  readonly windowMs: number;
  /** The limit for all records together. */
  readonly maxBytes: number;
}

export class Gatherer {
  readonly #limits: GatherLimits;
  readonly #held: HeldMessage[] = [];
  #bytes = 0;

  constructor(limits: GatherLimits) {
    this.#limits = limits;
  }

  get size(): number {
    return this.#held.length;
  }

  get bytes(): number {
    return this.#bytes;
  }

  add(messages: readonly HeldMessage[]): void {
    for (const message of messages) {
      this.#held.push(message);
      this.#bytes += message.bytes;
    }
  }

  /** When the window of the oldest message ends; undefined when nothing is held. */
  dueAtMs(): number | undefined {
    const oldest = this.#held[0];
    return oldest === undefined ? undefined : oldest.arrivedMs + this.#limits.windowMs;
  }

  /** The next closed batch, or undefined while the open one may still grow. */
  take(nowMs: number): HeldMessage[] | undefined {
    const { batchSize, maxBytes } = this.#limits;
    const dueAtMs = this.dueAtMs();
    if (dueAtMs === undefined) return undefined;
    const isClosed = this.#held.length >= batchSize || this.#bytes > maxBytes || nowMs >= dueAtMs;
    if (!isClosed) return undefined;
    let count = 0;
    let bytes = 0;
    for (const message of this.#held) {
      if (count === batchSize || (count > 0 && bytes + message.bytes > maxBytes)) break;
      count += 1;
      bytes += message.bytes;
    }
    this.#bytes -= bytes;
    return this.#held.splice(0, count);
  }

  /** All messages, whether the batch is closed or not. */
  drain(): HeldMessage[] {
    this.#bytes = 0;
    return this.#held.splice(0);
  }
}
