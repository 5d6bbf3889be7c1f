/** The calls that a batcher holds, and the places of their records in a batch. */
import type { Inputs, Outcome, RunPolicy } from '../contract/values.ts';
import type { Batched } from './pace.ts';

/** One call of the batcher's `run`. */
export interface Call {
  readonly records: readonly Inputs[];
  readonly policy: RunPolicy;
  readonly outcomes: Outcome[];
  readonly sinceMs: number;
  /** The first record that has not started. */
  next: number;
  unfinished: number;
  /** Batches with its records that run now. */
  running: number;
  readonly resolve: (outcomes: Outcome[]) => void;
  readonly reject: (error: unknown) => void;
}

/** One record of a call, in a batch. */
export interface Place {
  readonly call: Call;
  readonly index: number;
  /** The same for all of a batch. */
  readonly key: string;
}

/** What a batch was made of, for the pace. */
export function made(batch: readonly Place[]): Batched {
  const ofRequests = batch.filter(({ call }) => call.policy.failFast);
  const requests = new Set(ofRequests.map(({ call }) => call)).size;
  return { requests, requested: ofRequests.length, queued: batch.length - ofRequests.length };
}

/** The call's promise is resolved with its last outcome. */
export function finish(call: Call, index: number, outcome: Outcome): void {
  call.outcomes[index] = outcome;
  if (--call.unfinished === 0) call.resolve(call.outcomes);
}
