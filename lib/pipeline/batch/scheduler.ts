/**
 * What decides, in front of the processes of a model or a worker, how many records share a batch, how many may wait and
 * when the queue has its turn. A worker's numbers are those of its config (`FixedScheduler`); those of a model on a single
 * machine follow from how long its runs take (adaptive-scheduler.ts). docs/explanation/scaling.md has both as a table.
 */

/** What a batch was made of. */
export interface Batched {
  /** Requests, and their records. */
  readonly requests: number;
  readonly requested: number;
  /** Records of the queue. */
  readonly queued: number;
}

/** Requests that wait for a process. */
export interface Line {
  readonly requests: number;
  readonly records: number;
  /** Processes that run a batch or could. */
  readonly processes: number;
}

export interface Scheduler {
  /** Most records of a batch. One that has them starts at once. */
  readonly batchSize: number;
  /** Most records of requests in a batch. */
  readonly requested: number;
  /** Most records of the queue in a batch that has so many of requests. */
  queued(requested: number): number;
  /** Whether the queue was passed over long enough. */
  isQueueDue(): boolean;
  /** A request has come. @returns whether it may wait; `sheds`: neither it nor those that wait already */
  admit(line: Line): 'waits' | 'refused' | 'sheds';
  /** Whether a request would be refused now. */
  refuses(line: Line): boolean;
  /** The text of a refusal. */
  refusal(line: Line): string;
  /** Whether `admit` would refuse those that wait with this one. */
  isFull(line: Line): boolean;
  /** A request has come that may wait until it is known how many of those before it still wait. */
  arrived(line: Line): void;
  /** The callers of so many requests left before these ran: no load that repeats itself. */
  left(requests: number): void;
  /** A batch has run. */
  ran(batch: Batched, tookMs: number): void;
}

const MAX_WAITING = 512;

export class FixedScheduler implements Scheduler {
  readonly batchSize: number;
  readonly requested: number;
  readonly #maxWaiting: number;

  /** @param maxWaiting records of requests that may wait */
  constructor(batchSize: number, maxWaiting = MAX_WAITING) {
    this.batchSize = batchSize;
    this.requested = batchSize;
    this.#maxWaiting = maxWaiting;
  }

  queued(requested: number): number {
    return this.batchSize - requested;
  }

  isQueueDue(): boolean {
    return true;
  }

  admit(line: Line): 'waits' | 'refused' {
    return this.refuses(line) ? 'refused' : 'waits';
  }

  refuses({ records }: Line): boolean {
    return records >= this.#maxWaiting;
  }

  refusal({ records }: Line): string {
    return `${records} records wait already`;
  }

  isFull(): boolean {
    return false;
  }

  arrived(): void {}

  left(): void {}

  ran(): void {}
}
