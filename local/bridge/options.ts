/** The options of a bridge, and its counts. */
import type { SentRecord } from '../../lib/pipeline/submit.ts';

export interface BridgeOptions {
  /** The Redis of the stream. */
  readonly redisUrl: string;
  readonly stream: string;
  /** Sends a record to the queue. @throws ServingError */
  readonly send: (record: SentRecord) => Promise<void>;
  readonly warn: (message: string) => void;
  readonly onMoved?: (moved: Moved) => void;
  /** Other bridges of the stream stand by. One that is silent for so long is replaced. Default 15 s. */
  readonly claimAfterMs?: number | undefined;
  /** Unique among the bridges of the stream that may run at the same time. Default: another one for each bridge. */
  readonly name?: string;
  /** Ends when nothing was left to read. */
  readonly once?: boolean;
}

/** Entries since the start. */
export interface Moved {
  readonly enqueued: number;
  readonly dead: number;
}
