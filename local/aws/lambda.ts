/**
 * Invokes a handler as Lambda would, with its name and timeout. This process cannot kill a handler: after its timeout
 * it keeps running and its late answer is dropped, and one that blocks the thread is reported when it returns.
 */
import { randomUUID } from 'node:crypto';
import type { Context } from 'aws-lambda';
import { ServingError } from '../../lib/contract/errors.ts';
import type { Caller } from '../../lib/contract/values.ts';

/** The account id of all local resources, as in fauxqs. */
export const LOCAL_ACCOUNT_ID = '000000000000';
export const DEFAULT_REGION = 'us-east-1';
/** Lambda's limits for a synchronous invocation, in bytes of JSON. The response may be 100 bytes larger. */
export const MAX_EVENT_BYTES = 6 * 1024 * 1024;
export const MAX_RESULT_BYTES = MAX_EVENT_BYTES + 100;
export const MAX_FUNCTION_TIMEOUT_MS = 900_000;

/** The log of the local stack; `console` implements it. */
export interface LocalLog {
  info(message: string, fields?: Readonly<Record<string, unknown>>): void;
  warn(message: string, fields?: Readonly<Record<string, unknown>>): void;
  error(message: string, fields?: Readonly<Record<string, unknown>>): void;
}

export interface LocalFunction {
  readonly functionName: string;
  /** The timeout in ms; getRemainingTimeInMillis counts down from it. */
  readonly timeoutMs: number;
  /** Default 1769, one vCPU on Lambda. */
  readonly memoryMb?: number;
  readonly region?: string;
  /** The clock of the timeout, in ms. Default Date.now. */
  readonly clock?: () => number;
  /** Who waits for the answer, as the handlers of this repository know it (`InvocationClock`). */
  readonly caller?: Caller;
}

type Invocation<Result> =
  | { readonly kind: 'returned'; readonly result: Result }
  | { readonly kind: 'failed'; readonly error: unknown }
  | { readonly kind: 'timed_out'; readonly afterMs: number };

export function lambdaContext(facts: LocalFunction): Context {
  return new LocalContext(facts);
}

/** Makes what few handlers ask for when they do. */
class LocalContext implements Context {
  callbackWaitsForEmptyEventLoop = false;
  functionVersion = '$LATEST';
  logStreamName = 'local';
  readonly caller: Caller | undefined;
  done = callbacksAreGone;
  fail = callbacksAreGone;
  succeed = callbacksAreGone;
  readonly #facts: LocalFunction;
  readonly #clock: () => number;
  readonly #deadlineMs: number;
  #awsRequestId: string | undefined;

  constructor(facts: LocalFunction) {
    this.#facts = facts;
    this.caller = facts.caller;
    this.#clock = facts.clock ?? Date.now;
    this.#deadlineMs = this.#clock() + facts.timeoutMs;
  }

  get functionName(): string {
    return this.#facts.functionName;
  }

  get invokedFunctionArn(): string {
    const { region = DEFAULT_REGION, functionName } = this.#facts;
    return `arn:aws:lambda:${region}:${LOCAL_ACCOUNT_ID}:function:${functionName}`;
  }

  get memoryLimitInMB(): string {
    return String(this.#facts.memoryMb ?? 1769);
  }

  get awsRequestId(): string {
    return (this.#awsRequestId ??= randomUUID());
  }

  get logGroupName(): string {
    return `/aws/lambda/${this.functionName}`;
  }

  getRemainingTimeInMillis(): number {
    return Math.max(0, this.#deadlineMs - this.#clock());
  }
}

/** Runs one invocation; never rejects. `limitMs` can end it before the function's own timeout. */
export function invoke<Event, Result>(
  handler: (event: Event, context: Context) => Promise<Result>,
  event: Event,
  facts: LocalFunction,
  limitMs: number = facts.timeoutMs,
): Promise<Invocation<Result>> {
  const clock = facts.clock ?? Date.now;
  const startedMs = clock();
  const afterMs = Math.min(limitMs, facts.timeoutMs);
  return new Promise((resolve) => {
    // The clock may have been paused, so time may be left.
    const watch = () => {
      const leftMs = startedMs + afterMs - clock();
      if (leftMs > 0) timer = setTimeout(watch, leftMs);
      else resolve({ kind: 'timed_out', afterMs });
    };
    let timer = setTimeout(watch, afterMs);
    const end = (invocation: Invocation<Result>) => {
      clearTimeout(timer);
      resolve(clock() - startedMs > afterMs ? { kind: 'timed_out', afterMs } : invocation);
    };
    const fail = (error: unknown) => end({ kind: 'failed', error });
    try {
      handler(event, lambdaContext(facts)).then((result) => end({ kind: 'returned', result }), fail);
    } catch (error) {
      fail(error);
    }
  });
}

/** The log fields of an error. Lambda logs name, message and stack. */
export function errorFields(error: unknown): Record<string, unknown> {
  if (!(error instanceof Error)) return { error: String(error) };
  const code = 'code' in error ? error.code : undefined;
  return { error: error.message, errorType: error.name, code, stack: error.stack };
}

function callbacksAreGone(): never {
  throw new ServingError(
    'internal',
    'context callbacks are gone since Node.js 24 on Lambda: return a promise',
  );
}
