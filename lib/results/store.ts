/**
 * The contract of a store of results, for any storage. A folder owns a store (lib/redis), lib/compose/store.ts says
 * which one a service has, and test/lib/results/conformance.ts tests each of them against it.
 *
 * A uri may be enqueued again before its outcome is there, and SQS delivers twice and out of order. So every outcome comes
 * with its enqueue, and a uri has that of the latest one (`isLater`), which is written once and never by an earlier one.
 */
import type { Enqueue, EnqueueQuery, TakeQuery } from '../contract/enqueue.ts';
import type { ServingError } from '../contract/errors.ts';
import type { Dequeued, RecordStatus, Result } from '../contract/result.ts';
import type { Caller } from '../contract/values.ts';
import type { ServingVersion } from '../metrics/fields.ts';
import type { SharedTimers, TimerReport, Timers } from '../metrics/timers.ts';
import type { RunCounts } from '../pipeline/counted-runs.ts';
import type { RunningRecord } from '../pipeline/serve.ts';
import type { Announcer } from '../pipeline/submit.ts';
import type { ResultLimit, StoredFields } from './fields.ts';

/** An outcome to save. */
export interface Finished {
  readonly uri: string;
  readonly fields: StoredFields;
  /** The enqueue that this is the outcome of. Default unknown: earlier than all others, and the first outcome stays. */
  readonly enqueue?: Enqueue;
}

/** Called for each uri that cannot have a result, though others can. */
export type OnBlocked = (uri: string, error: ServingError) => void;

export interface WaitOptions extends EnqueueQuery {
  readonly timeoutMs: number;
  readonly signal?: AbortSignal | undefined;
}

export interface UseQuery extends TakeQuery {
  /** Uses the result; when it throws, the result is released. */
  readonly use?: (result: Result) => void;
}

/** The outcomes of a job. Every method may throw results_unavailable. */
export interface Results {
  /**
   * Writes the outcomes of one batch, and with them what the timers have measured.
   * @param model version of the model that made them; "" when none did
   * @param onBlocked without it, a record that cannot be saved throws
   * @returns how many were written
   * @throws results_unavailable; none, some or all are written then, and writing again is safe
   */
  save(finished: readonly Finished[], model: string, timers?: Timers, onBlocked?: OnBlocked): Promise<number>;
  /**
   * @returns undefined when there is no result (yet, or any more)
   * @throws the record's own error when it failed
   */
  get(uri: string, query?: EnqueueQuery): Promise<Result | undefined>;
  /**
   * Gets a result and deletes it, also when it is a failure; a cancellation stays, and so does a large result until it is
   * taken as fetched. After results_unavailable the same store can ask for it again for 10 minutes.
   * @throws the record's own error when it failed; what `use` throws
   */
  take(uri: string, query?: UseQuery): Promise<Result | undefined>;
  /**
   * Resolves with the result as soon as it is stored; with an identity, only with that of its enqueue.
   * @throws timeout, the signal's reason, the record's own error; bad_request for a time that is none (assertWaitMs)
   */
  wait(uri: string, options: WaitOptions): Promise<Result>;
  /** Waits up to a time limit; undefined when there is none by then. @throws the signal's reason, the record's own error */
  getWithin(
    uri: string,
    timeoutMs: number,
    query?: Omit<WaitOptions, 'timeoutMs'>,
  ): Promise<Result | undefined>;
  /**
   * Takes every finished result, page by page, in constant memory. Large ones stay under their uris until they are taken as
   * fetched. When the caller stops, what was taken and not yielded is released: it lives as long as it had left, and comes before
   * what is saved after that.
   */
  drain(): AsyncGenerator<Dequeued>;
  /**
   * Takes up to `count` finished results, the oldest first; undefined when none is left. Others may have taken all of a page
   * first: an empty one is not the last.
   * @param maxBytes of all stored values together. A single result above it is reported as `too_large`; it stays under its
   *   uri, and is not listed again
   */
  takePage(count: number, maxBytes?: number): Promise<Dequeued[] | undefined>;
  /** Every timer of the contract, over all environments of the job, and the seconds since its first measurement. */
  timers(): Promise<SharedTimers>;
  metrics(): Promise<TimerReport[]>;
  /** The versions of the model with which measurements were saved within the last hour, the latest first. */
  serving(): Promise<ServingVersion[]>;
  /** How many requests and records were to be captured and are lost, in all environments since the first measurement. */
  lostCaptures(): Promise<number>;
  /** Resolves when the store answers. */
  ping(): Promise<void>;
  /** Ends its connection too, and with it all other parts. May be called twice. */
  close(): Promise<void>;
}

/**
 * The state of a uri from its announcement to its outcome. An enqueue that is announced again counts once. The key of a
 * request is compared at least among the records of one uri.
 */
export interface States extends Announcer {
  /**
   * Marks records that are about to run, those that are announced and have no outcome; a mark expires after `forMs`. Never throws:
   * no outcome depends on it.
   */
  markRunning(records: readonly RunningRecord[], forMs: number): Promise<void>;
  /**
   * `queued` or `running` as long as an announced enqueue has no outcome, even when an earlier one has a result. With an
   * identity, the status of that enqueue.
   * @throws results_unavailable
   */
  status(uri: string, query?: EnqueueQuery): Promise<RecordStatus>;
  /**
   * Gives the uri the outcome `cancelled`. It stays for 15 days, until no earlier message can be left in the queue, even when
   * a client takes it; results of earlier enqueues are dropped. A record that is enqueued later gets its result as usual.
   * @returns false when it is too late, because every known enqueue has its outcome; true for a uri that is cancelled
   *   already, and for one of which nothing is known: its record may have been sent without an announcement
   * @throws results_unavailable
   */
  cancel(uri: string): Promise<boolean>;
}

/** Limits the requests per second of all environments of a job together. */
export interface Limiter {
  /**
   * Takes one token, waiting for it. A caller who leaves while it waits gives its token back. Without an answer of the store
   * the request goes on.
   * @throws rate_limited, which says after how long to retry; cancelled
   */
  acquire(caller?: Caller): Promise<void>;
}

/**
 * Sums to which all environments of a job add, by group: those of a canary's trial, of the costs of a month. They are
 * forgotten some time after the last addition: those of a trial after two days, of a month after 32.
 */
export interface Sums {
  /**
   * Adds amounts. May be called again after a failure, and then counts twice at worst.
   * @param group as the name of a trial
   * @returns the sums of the same names, with what was added
   * @throws results_unavailable
   */
  add(group: string, amounts: ReadonlyMap<string, number>): Promise<ReadonlyMap<string, number>>;
  /** Empty where nothing was counted. @throws results_unavailable */
  read(group: string): Promise<ReadonlyMap<string, number>>;
}

/** A dead letter that was replayed. */
export interface ReplacedRecord {
  readonly uri: string;
  /**
   * The identity of this replay. It is later than the same enqueue before, and earlier than every later one of the uri.
   */
  readonly enqueue: Enqueue;
  /** The record's message, not a pointer to it. */
  readonly message: string;
}

/**
 * `replaced`: the uri has the new result, or is free and the record is announced.
 * `superseded`: the record has a result already, or was cancelled; nothing is left to do.
 * `conflict`: the uri was used again for another record.
 */
export type Replacement = 'replaced' | 'superseded' | 'conflict';

/** The part of a uri's stored result that a listing shows. */
export interface StoredOutcome {
  readonly status: string;
  /** Error code of a failed record. */
  readonly code: string | undefined;
  readonly message: string | undefined;
}

/** Replaces the failure `max_receives_exceeded` of a dead letter that was replayed, and nothing else. */
export interface Replacer {
  /** @returns one entry for each uri, in order; undefined where nothing is stored. @throws results_unavailable */
  outcomes(uris: readonly string[]): Promise<(StoredOutcome | undefined)[]>;
  /** Replaces the failure by the new result. @throws results_unavailable; repeating the call is safe */
  store(record: ReplacedRecord, fields: StoredFields, model: string): Promise<Replacement>;
  /** Deletes the failure and announces the record, which may then be sent again. @throws as `store` */
  free(record: ReplacedRecord): Promise<Replacement>;
}

export interface ResultsOptions {
  /** The job's name in stored names. */
  readonly job: string;
  readonly ttlSeconds: number;
  /** How long the queue keeps a message. Default 4 days. */
  readonly retentionSeconds?: number;
  /** Ms since 1970: when results are finished and measurements are made. What expires does so by the store's clock. */
  readonly now: () => number;
}

export interface StatesOptions {
  readonly job: string;
  /** When a cancellation is finished. */
  readonly now: () => number;
  /** At least the place in the order of every enqueue so far, on a single machine. Without it, the store's clock says that. */
  readonly latestOrder?: (() => number) | undefined;
}

export interface RunCountsOptions {
  readonly job: string;
  /** How long the queue keeps a message. */
  readonly retentionSeconds: number;
  /** The runs after which a record is not run again. */
  readonly most: number;
}

export interface SumsOptions {
  readonly job: string;
  /** Groups of different kinds are never the same. */
  readonly kind: 'trial' | 'budget';
}

export interface LimiterOptions {
  readonly job: string;
  readonly tokensPerSecond: number;
  /** Longest wait for a token, in ms. */
  readonly acquireTimeoutMs: number;
  /** Ends early when the signal is aborted. */
  readonly sleep: (ms: number, signal?: AbortSignal) => Promise<void>;
  /** Called when the store did not answer; the request goes on. */
  readonly onError: (error: unknown) => void;
}

export type ReplacerOptions = Omit<ResultsOptions, 'retentionSeconds'>;

/** The connection that all parts of an environment share. Its first command connects, unless it is opened before. */
export interface StoreConnection {
  /** Never throws: the first command says why it cannot. */
  open(): Promise<void>;
  /** May be called twice. */
  close(): Promise<void>;
}

/** How long a client waits for a store that is far away. */
export interface StoreTimeouts {
  readonly connectTimeoutMs?: number;
  readonly commandTimeoutMs?: number;
}

/**
 * The exports of a store's module, as separate functions so that a function's bundle has only those it calls. P: the
 * store's part of the environment (lib/config/environment.ts).
 */
export interface Store<C extends StoreConnection, P = never> {
  /** That of one result, as text. A larger one goes to S3. */
  readonly resultLimit: ResultLimit;
  /** Opens nothing. @throws bad_config for an address of another form */
  readonly connect: (place: P, timeouts?: StoreTimeouts) => C;
  readonly openResults: (connection: C, options: ResultsOptions) => Results;
  readonly openStates: (connection: C, options: StatesOptions) => States;
  readonly openRunCounts: (connection: C, options: RunCountsOptions) => RunCounts;
  readonly openLimiter: (connection: C, options: LimiterOptions) => Limiter;
  readonly openSums: (connection: C, options: SumsOptions) => Sums;
  readonly openReplacer: (connection: C, options: ReplacerOptions) => Replacer;
}
