/**
 * Events on the path of a request and of a record. An observer records and changes nothing: it implements the methods
 * that it needs, each with one fact, and nothing waits for it but `flush`. An error that it throws is logged once and
 * dropped.
 */
import type { Reached } from '../contract/budget.ts';
import type { ErrorCode, ServingError } from '../contract/errors.ts';
import type { TraceSpan } from '../contract/trace.ts';
import type { Inputs, Outcome, RunPolicy } from '../contract/values.ts';
import type { FinishedRecord, ReturnedMessage } from './decode.ts';

/** Where records come from. */
export type Source = 'request' | 'queue';

/**
 * The timed steps. `request`: a request for predictions, as a whole. `run`: decoding and running records. `wait`: a
 * record in the queue. `write` and `read`: results. `figures`: reading the timers of all environments.
 */
export type Step = 'request' | 'run' | 'wait' | 'write' | 'read' | 'figures';

/** A chunk of an event: records with an outcome, and messages to deliver again. */
interface Chunk {
  /** The version of the model that ran them. */
  readonly version: string;
  readonly finished: readonly FinishedRecord[];
  readonly returned: readonly ReturnedMessage[];
}

/** An error of a message. */
export interface MessageProblem {
  readonly error: ServingError;
  readonly messageId: string;
  readonly traceId: string | undefined;
  /** The version that ran it; "" for none. */
  readonly model: string;
}

/** The records of a request, or a record of the queue, with what came of them. */
export interface AnsweredRecords {
  readonly source: Source;
  /** The version that ran them. */
  readonly model: string;
  /** The uri of a record of the queue, the id of a request. */
  readonly id: () => string;
  readonly traceId: string | undefined;
  readonly policy: Pick<RunPolicy, 'exactSignature' | 'isRow'>;
  readonly records: readonly Inputs[];
  /** The error of a request, which fails as a whole. */
  readonly outcomes: readonly Outcome[] | ServingError;
}

/** An event of the queue, with a span of its own and one for each of its records. */
export interface TracedEvent {
  readonly startedMs: number;
  /** Ids of the messages that are delivered again; undefined when the function threw. */
  readonly returned: ReadonlySet<string> | undefined;
  readonly queue: string;
  readonly span: TraceSpan;
  readonly records: readonly {
    /** The message's id. */
    readonly id: string;
    readonly identity: string;
    readonly attempt: number;
    readonly span: TraceSpan;
  }[];
}

/** A request at the gateway of a single machine. */
export interface GatewayRequest {
  readonly method: string;
  /** The pattern of its path, which no caller chooses. */
  readonly route: string;
  /** The function that answers it; undefined where no route is. */
  readonly functionName: string | undefined;
}

/** The phases of an inference, which add up to its time: it waits for the limit and the model, reads, runs and writes. */
export type InferencePhase = 'queue' | 'compute_input' | 'compute_infer' | 'compute_output';

export interface Observer {
  /** The gateway of a single machine has the head of a request. */
  requestArrived?(request: Partial<GatewayRequest>): void;
  /** The gateway hands a whole request to its function. */
  requestAccepted?(request: GatewayRequest & { readonly client: string; readonly bytes: number }): void;
  /** A request has left the gateway: answered, refused, or without a status because its client left. */
  requestAnswered?(
    request: GatewayRequest & { readonly status: number | undefined; readonly tookMs: number },
  ): void;
  /** A deployed function has opened what it needs. */
  functionOpened?(opened: { readonly tookMs: number }): void;
  /** A deployed function is called. `messages`: those of an event of the queue; undefined for a request, and for a schedule. */
  functionCalled?(call: {
    readonly ids: Readonly<Record<string, unknown>>;
    readonly messages: number | undefined;
    readonly isScheduled?: boolean;
    /** The size of a request's body. */
    readonly bytes: () => number;
  }): void;
  /** A deployed function has answered; undefined when it threw. */
  functionAnswered?(answer: unknown): void;
  /** A request was read: its rows go to the model. */
  rowsRead?(rows: number): void;
  /** A request of the Open Inference Protocol that reached the model was answered, or has failed. */
  inferenceEnded?(inference: {
    readonly version: string;
    readonly rows: number;
    readonly ns: Readonly<Record<InferencePhase, number>>;
    readonly hasFailed: boolean;
  }): void;
  /** Records wait to be run together, or one after the other. Those of a later delivery may do so several times. */
  recordsArrived?(arrived: { readonly source: Source; readonly records: number }): void;
  /** Those records have run, or failed. A record of a request so has its outcome, one of the queue when it is stored. */
  recordsRan?(ran: {
    readonly source: Source;
    readonly outcomes: readonly Outcome[];
    readonly tookMs: number;
    /** The further model that ran them, and how many there are. Undefined: the job's own. */
    readonly further?: { readonly name: string; readonly among: number } | undefined;
  }): void;
  /** Records have their outcomes, which no client has yet. Their memory is reused afterwards. */
  recordsAnswered?(answered: AnsweredRecords): void;
  /** A process of a single machine has run records. `samples`: what a worker's code recorded. */
  runEnded?(run: {
    readonly records: number;
    readonly tookMs: number;
    readonly samples?: Readonly<Record<string, readonly number[]>> | undefined;
  }): void;
  /** Results of records of the queue are stored, except for those of the messages `unsaved`. */
  recordsStored?(stored: {
    readonly finished: readonly FinishedRecord[];
    readonly unsaved: readonly string[];
    /** The version that ran them; "" for none. */
    readonly model: string;
  }): void;
  /** A step of the path has ended. */
  stepEnded?(ended: { readonly step: Step; readonly tookMs: number }): void;
  /** A result cannot be stored, so that its message is delivered again. */
  resultRefused?(problem: MessageProblem): void;
  /** A message was archived as a dead letter. */
  messageArchived?(messageId: string): void;
  /** A notice was dropped, because the task of Step Functions that waited for it has ended. */
  noticeDropped?(target: string): void;
  /** So many requests and records were to be captured, and could not be stored. */
  capturesLost?(records: number): void;
  /** A request was refused, or an event of the queue served, over the budget. */
  budgetExceeded?(reached: Reached): void;
  /** A request or an event of the queue is served while the sums of the budget are away. */
  budgetUnknown?(error: ServingError): void;
  /** A canary was rolled back without anybody's order. */
  canaryRolledBack?(version: string): void;
  /** A shadow was asked captured records. */
  shadowAsked?(asked: { readonly compared: number; readonly flips: number; readonly differ: number }): void;
  /** The records of a chunk have their outcomes, which are stored. */
  chunkServed?(chunk: Chunk): void;
  /** An event failed as a whole, and all of its messages are delivered again. */
  eventFailed?(failed: { readonly error: ServingError; readonly messages: number }): void;
  /** A function has answered a request that is traced. */
  requestServed?(request: {
    readonly span: TraceSpan;
    readonly routeKey: string;
    readonly method: string;
    /** 500 when it threw. */
    readonly status: number;
    /** The version of the model that its answer names. */
    readonly model: string | undefined;
    /** By the clock of the path (`Observers.now`). */
    readonly startedMs: number;
  }): void;
  /** A message that is traced was sent to the queue, or was refused by it with a code. */
  messageSent?(sent: {
    readonly span: TraceSpan;
    readonly queue: string;
    /** By the clock of the path (`Observers.now`). */
    readonly startedMs: number;
    readonly error: ErrorCode | undefined;
  }): void;
  /** An event of the queue that is traced was returned. */
  eventReturned?(event: TracedEvent): void;
  /** A function is about to return an event of the queue. Its results, if it had any, have been stored. */
  eventServed?(event: unknown): void;
  /** Another version of the model serves. */
  modelChanged?(version: string): void;
  /**
   * Called once before a function answers, after which its process may be frozen. What takes longer is left, and counted.
   * @returns undefined when there is nothing to do
   */
  flush?(limit: FlushLimit): Promise<unknown> | undefined;
}

/** The argument of one of the methods. */
export type Fact<Name extends keyof Observer> = Parameters<NonNullable<Observer[Name]>>[0];

export interface FlushLimit {
  /** How long the answer may wait, in ms. */
  leftMs(): number;
}

/** All observers of an environment as one, with the methods that any of them has. */
export interface Observers extends Observer {
  /** A clock in ms that never goes back. */
  readonly now: () => number;
  /** Begins a step. Call the result when it has ended; a step that fails is not told. */
  readonly start: (step: Step) => () => void;
}
