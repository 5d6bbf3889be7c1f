/** Enqueues as tests need them. */
import type { Enqueue } from '../../lib/contract/enqueue.ts';

export const enqueued = (identity: string, sentAt = 0, replays = 0): Enqueue => ({
  identity,
  sentAt,
  replays,
});
