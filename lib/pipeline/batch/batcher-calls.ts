/** The calls that a batcher holds, and the places of their records in a batch. */
import type { ServingError } from '../../contract/errors.ts';
import type { Caller, Inputs, Outcome, RunPolicy } from '../../contract/values.ts';
import { callerIsGone, noTimeLeft } from '../deadline.ts';
import type { Batched } from './scheduler.ts';

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

/** Calls with records that have not started. The first one is next. */
export class CallLine {
  readonly calls: Call[] = [];
  /** Their records that have not started. */
  records = 0;

  push(call: Call): void {
    this.calls.push(call);
    this.records += call.records.length - call.next;
  }

  /** Removes the calls that `leaves` selects. @returns them, in their order */
  extract(leaves: (call: Call) => boolean): Call[] {
    const extracted = this.calls.filter(leaves);
    if (extracted.length === 0) return extracted;
    const all = new Set(extracted);
    this.calls.splice(0, this.calls.length, ...this.calls.filter((call) => !all.has(call)));
    for (const call of extracted) this.records -= call.records.length - call.next;
    return extracted;
  }
}

/** The lines of a batcher. */
export class CallLines {
  readonly requests = new CallLine();
  readonly queue = new CallLine();
  /** Requests that are not run until it is known whether their callers are still there. */
  readonly #doubtful = new CallLine();

  /** Records that wait. */
  get waiting(): number {
    return this.requests.records + this.queue.records;
  }

  get oldestMs(): number {
    return Math.min(...[...this.requests.calls, ...this.queue.calls].map(({ sinceMs }) => sinceMs));
  }

  /**
   * Sorts requests by whether their callers wait. What has not started of those who are gone fails.
   * @returns how many of those had not started at all
   */
  review(): number {
    const is = (presence: Caller['presence']) => (call: Call) => call.policy.caller?.presence === presence;
    const gone = [this.requests, this.#doubtful].flatMap((line) => line.extract(is('gone')));
    const unstarted = gone.filter(({ next }) => next === 0).length;
    for (const call of gone) fail(call, callerIsGone());
    for (const call of this.#doubtful.extract(is('waits'))) this.requests.push(call);
    for (const call of this.requests.extract(is('doubtful'))) this.#doubtful.push(call);
    return unstarted;
  }

  /** Calls that have no time left get their error before they cost a run. */
  dropLate(): void {
    for (const line of [this.requests, this.queue, this.#doubtful])
      for (const call of line.extract(({ policy }) => policy.isOver?.() ?? false))
        fail(call, call.policy.caller?.presence === 'gone' ? callerIsGone() : noTimeLeft());
  }
}

/** One record of a call, in a batch. */
export interface Place {
  readonly call: Call;
  readonly index: number;
  /** The same for all of a batch. */
  readonly key: string;
}

/** The composition of a batch, for the scheduler. */
export function made(batch: readonly Place[]): Batched {
  const ofRequests = batch.filter(({ call }) => call.policy.failFast);
  const requests = new Set(ofRequests.map(({ call }) => call)).size;
  return { requests, requested: ofRequests.length, queued: batch.length - ofRequests.length };
}

/** A batch goes on as long as one of its calls has time. */
export function policyOf(
  calls: ReadonlySet<Call>,
  policy: Pick<RunPolicy, 'failFast' | 'exactSignature' | 'isRow'>,
): RunPolicy {
  const isOver = () => [...calls].every((call) => call.policy.isOver?.() ?? false);
  return { ...policy, isOver };
}

/** The call's promise is resolved with its last outcome. */
export function finish(call: Call, index: number, outcome: Outcome): void {
  call.outcomes[index] = outcome;
  if (--call.unfinished === 0) call.resolve(call.outcomes);
}

/** Ends what has not started of a call that left its line. */
function fail(call: Call, error: ServingError): void {
  while (call.next < call.records.length) finish(call, call.next++, { ok: false, error });
}
