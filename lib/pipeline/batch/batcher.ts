/**
 * Gathers records of several calls into batches, in front of a runner that takes one batch for each free process. A batch
 * starts when it is full or its oldest record has waited long enough; requests go before the queue, but every fifth
 * batch begins with a record of the queue, and calls take turns, so that a large one does not keep the others waiting.
 */
import { ServingError } from '../../contract/errors.ts';
import { elementAt, present } from '../../contract/present.ts';
import type { Inputs, Outcome, Runner, RunPolicy, TensorSpec } from '../../contract/values.ts';
import { type Call, type CallLine, CallLines, finish, made, type Place, policyOf } from './batcher-calls.ts';
import type { Line, Scheduler } from './scheduler.ts';

/** A runner that takes several batches at once, up to a number that changes. */
export interface BatchRunner extends Runner {
  /** Batches that could start now. */
  readonly free: number;
  /** Set by the batcher, called when a batch could start. */
  onFree: () => void;
}

export interface Clock {
  readonly now: () => number;
  /** @returns a function that cancels it */
  readonly after: (ms: number, call: () => void) => () => void;
}

export interface BatcherOptions {
  readonly scheduler: Scheduler;
  /** How long the oldest record waits for others, in ms. 0: a batch takes only what waits. */
  readonly timeoutMs: number;
  readonly clock: Clock;
  /** Only records with the same key share a batch. Default: all. */
  readonly keyOf?: (record: Inputs) => string;
  /** True: the records of a request are one batch, alone or with those of others, because they have one budget. */
  readonly wholeRequests?: boolean;
  /**
   * Calls back in the next turn of the event loop, when what has arrived by now has been read. Calls that come together then share
   * a batch, or the batches that could start. Default: what comes to an idle runner starts at once, alone.
   */
  readonly nextTurn?: (call: () => void) => void;
}

const QUEUE_TURN = 5;
/** How often calls are asked for their deadline while no batch can start. */
const LATE_CHECK_MS = 250;
/** When a batch has ended, its answers are written in one turn, and the calls that they bring are read in the next. */
const TURNS_AFTER_BATCH = 2;
/** Keeps waiting, up to 16 turns, as long as each turn adds calls to the batch. */
const MOST_TURNS = 16;

export class Batcher implements Runner {
  readonly inputs?: readonly TensorSpec[];
  readonly outputs?: readonly TensorSpec[];
  readonly runIsolated?: NonNullable<Runner['runIsolated']>;
  readonly #runner: BatchRunner;
  readonly #options: BatcherOptions;
  readonly #lines = new CallLines();
  /** Batches since the queue's turn. */
  #batches = 0;
  #running = 0;
  #isDispatchDue = false;
  #isReviewDue = false;
  #isVerdictDue = false;
  #stopTimer: (() => void) | undefined;

  constructor(runner: BatchRunner, options: BatcherOptions) {
    this.#runner = runner;
    this.#options = options;
    if (runner.inputs) this.inputs = runner.inputs;
    if (runner.outputs) this.outputs = runner.outputs;
    if (runner.runIsolated) this.runIsolated = runner.runIsolated.bind(runner);
    runner.onFree = () => this.#dispatchIn(TURNS_AFTER_BATCH);
  }

  get version(): string {
    return this.#runner.version;
  }

  /** Records that wait. */
  get waiting(): number {
    return this.#lines.waiting;
  }

  /** True if a request would be refused now. Call it before spending anything on one. */
  refuses(): boolean {
    return this.#options.scheduler.refuses(this.#line());
  }

  /** @throws rate_limited for a request when too many wait; where the scheduler sheds them, for those that wait too */
  async run(records: readonly Inputs[], policy: RunPolicy = {}): Promise<Outcome[]> {
    if (records.length === 0) return [];
    if (policy.failFast) this.#admit();
    return new Promise((resolve, reject) => {
      const call: Call = {
        records,
        policy,
        outcomes: new Array<Outcome>(records.length),
        sinceMs: this.#options.clock.now(),
        next: 0,
        unfinished: records.length,
        running: 0,
        resolve,
        reject,
      };
      (policy.failFast ? this.#lines.requests : this.#lines.queue).push(call);
      // Where no batch can start, those that wait are looked at when one has ended, or at the next check for late ones.
      if (this.#runner.free > 0 || !this.#stopTimer) this.#dispatchIn(1);
    });
  }

  /** To be called when the presence of a caller has changed. What has not started of those who are gone fails soon. */
  review(): void {
    if (this.#isReviewDue) return;
    this.#isReviewDue = true;
    (this.#options.nextTurn ?? queueMicrotask)(() => {
      this.#reviewed();
      this.#dispatchIn(1);
    });
  }

  close(): Promise<void> {
    this.#stopTimer?.();
    return this.#runner.close();
  }

  #line(): Line {
    this.#reviewed();
    const { calls, records } = this.#lines.requests;
    return { requests: calls.length, records, processes: Math.max(1, this.#running + this.#runner.free) };
  }

  /** @throws rate_limited */
  #admit(): void {
    const { scheduler, nextTurn } = this.#options;
    const line = this.#line();
    if (nextTurn && scheduler.isFull(line)) {
      scheduler.arrived(line);
      return this.#decideIn(nextTurn);
    }
    const verdict = scheduler.admit(line);
    if (verdict === 'waits') return;
    if (verdict === 'sheds') this.#shed();
    throw this.#refusal();
  }

  /** Refuses all that wait if they are still too many when what has arrived was read, because clients may have left. */
  #decideIn(nextTurn: (call: () => void) => void): void {
    if (this.#isVerdictDue) return;
    const { scheduler } = this.#options;
    this.#isVerdictDue = true;
    nextTurn(() =>
      nextTurn(() => {
        this.#isVerdictDue = false;
        const line = this.#line();
        if (scheduler.isFull({ ...line, requests: line.requests - 1 }) && scheduler.admit(line) === 'sheds')
          this.#shed();
      }),
    );
  }

  #refusal(): ServingError {
    const text = this.#options.scheduler.refusal(this.#line());
    return new ServingError('rate_limited', text, { retryAfterSeconds: 1 });
  }

  #shed(): void {
    const error = this.#refusal();
    for (const call of this.#lines.requests.extract(() => true)) call.reject(error);
  }

  #reviewed(): void {
    if (!this.#isReviewDue) return;
    this.#isReviewDue = false;
    const left = this.#lines.review();
    this.#options.scheduler.left(left);
  }

  #dispatchIn(turns: number): void {
    const { nextTurn } = this.#options;
    if (!nextTurn) return this.#dispatch();
    if (this.#isDispatchDue || this.waiting === 0) return;
    this.#isDispatchDue = true;
    let left = MOST_TURNS;
    const wait = (more: number, before: number) =>
      nextTurn(() => {
        left--;
        const isComing =
          this.waiting > before && this.waiting < this.#options.scheduler.batchSize && left > 0;
        if (more > 1 || isComing) return wait(more - 1, this.waiting);
        this.#isDispatchDue = false;
        this.#dispatch();
      });
    wait(turns, this.waiting);
  }

  #dispatch(): void {
    this.#stopTimer?.();
    this.#stopTimer = undefined;
    this.#reviewed();
    this.#lines.dropLate();
    while (this.waiting > 0) {
      const dueMs = this.#runner.free > 0 ? this.#dueMs() : LATE_CHECK_MS;
      if (dueMs > 0) {
        this.#stopTimer = this.#options.clock.after(dueMs, () => this.#dispatch());
        return;
      }
      void this.#start(this.#take());
    }
  }

  /** In how many ms the next batch is to start. */
  #dueMs(): number {
    const { scheduler, timeoutMs, clock } = this.#options;
    if (timeoutMs === 0 || this.waiting >= scheduler.batchSize) return 0;
    return Math.max(0, this.#lines.oldestMs + timeoutMs - clock.now());
  }

  #take(): Place[] {
    const { scheduler } = this.#options;
    const { requests, queue } = this.#lines;
    const queueFirst = ++this.#batches >= QUEUE_TURN && scheduler.isQueueDue();
    if (queueFirst) this.#batches = 0;
    const batch: Place[] = [];
    const addQueue = (requested: number) =>
      this.#add(batch, queue, batch.length + scheduler.queued(requested));
    if (queueFirst) addQueue(0);
    this.#add(batch, requests, Math.min(scheduler.requested, batch.length + this.#share()));
    if (!queueFirst) addQueue(batch.length);
    return batch;
  }

  /** Most records of requests in this batch, so that those that came together leave no process idle. */
  #share(): number {
    if (!this.#options.nextTurn) return Number.POSITIVE_INFINITY;
    return Math.ceil(this.#lines.requests.records / Math.max(1, this.#runner.free));
  }

  /** Adds records of calls that take turns. A call whose next record does not fit into this batch comes first in the next. */
  #add(batch: Place[], line: CallLine, batchSize: number): void {
    const { calls } = line;
    const skipped: Call[] = [];
    while (batch.length < batchSize && calls.length > 0) {
      const call = present(calls.shift(), 'call');
      const key = this.#keyOf(call);
      const fits = key === (batch[0]?.key ?? key);
      const taken = fits ? this.#fitting(call, batch.length, batchSize) : 0;
      for (let i = 0; i < taken; i++) batch.push({ call, key, index: call.next++ });
      line.records -= taken;
      if (taken === 0) skipped.push(call);
      else if (call.next < call.records.length) calls.push(call);
    }
    calls.unshift(...skipped);
  }

  /** How many records of a call go into a batch at once. */
  #fitting({ records, policy }: Call, taken: number, batchSize: number): number {
    if (!this.#options.wholeRequests || !policy.failFast) return 1;
    return taken === 0 || taken + records.length <= batchSize ? records.length : 0;
  }

  #keyOf({ records, next, policy }: Call): string {
    const key = this.#options.keyOf?.(elementAt(records, next, 'records')) ?? '';
    return policy.exactSignature ? `exact ${key}` : policy.isRow ? `row ${key}` : key;
  }

  async #start(batch: readonly Place[]): Promise<void> {
    const calls = new Set(batch.map(({ call }) => call));
    const first = elementAt(batch, 0, 'batch').call;
    const isRequest = calls.size === 1 && batch.length === first.records.length;
    const failFast = isRequest && Boolean(this.#options.wholeRequests && first.policy.failFast);
    const { exactSignature = false, isRow = false } = first.policy;
    const policy = policyOf(calls, { failFast, exactSignature, isRow });
    const records = batch.map(({ call, index }) => elementAt(call.records, index, 'call.records'));
    const startedMs = this.#options.clock.now();
    this.#running++;
    for (const call of calls) if (call.running++ === 0) call.policy.onWait?.(false);
    try {
      const outcomes = await this.#runner.run(records, policy);
      const text = `the runner gave ${outcomes.length} outcomes for ${records.length} records`;
      if (outcomes.length !== records.length) throw new ServingError('internal', text);
      for (const [i, { call, index }] of batch.entries()) finish(call, index, elementAt(outcomes, i, 'run'));
    } catch (error) {
      // The error of a whole request names its place in it.
      if (failFast) first.reject(error);
      const failed: Outcome = { ok: false, error: ServingError.from(error) };
      for (const { call, index } of batch) finish(call, index, failed);
    }
    this.#running--;
    this.#options.scheduler.ran(made(batch), this.#options.clock.now() - startedMs);
    for (const call of calls) if (--call.running === 0 && call.unfinished > 0) call.policy.onWait?.(true);
    this.#dispatchIn(TURNS_AFTER_BATCH);
  }
}
