/**
 * One error class with a closed set of codes, each with its HTTP status. Errors cross Redis, SQS and HTTP as JSON,
 * where `instanceof` is lost and `code` survives, so test `code`.
 */

interface CodeFacts {
  /** HTTP status of the answer. */
  readonly status: number;
  /** True when the same request may succeed later: SQS redelivers it, an HTTP client may try again. */
  readonly retryable: boolean;
  /**
   * The message for untrusted callers instead of one that may quote S3, SQS, Redis or the file system, and so reveal
   * hosts, roles and paths. The log has the full message.
   */
  readonly shown?: string | undefined;
}

const final = (status: number, shown?: string): CodeFacts => ({ status, retryable: false, shown });
const transient = (status: number, shown?: string): CodeFacts => ({ status, retryable: true, shown });

/**
 * Every code. docs/reference/errors.md is generated from it: the first sentence is the meaning, the others say what
 * to do.
 */
export const ERRORS = {
  /** The request breaks the contract: no JSON, no instances, an unreadable record. Correct what the message names. */
  bad_request: final(400),
  /** An input does not fit the model: its name, shape, type or encoding. Send what the message expects. */
  bad_input: final(400),
  /** The API refused the caller with 401 or 403. Sign the request with credentials that may call it; a local service says what to do. */
  unauthorized: final(401),
  /** The host of an image's address is not allowed, or leads where it must not. Send the image itself, or allow its host under `worker.allowImgHost`. */
  forbidden: final(403),
  /** There is no result under this uri, or no such path, model or version. Wait for the result, or correct the name. */
  not_found: final(404),
  /** It is too late to cancel, an `Idempotency-Key` or a dead letter's uri was used again, or another model version came first. Look at what is there now; give another request a key of its own. */
  conflict: final(409),
  /** A size or count is over a limit, which the message names. Send less, or shorten answers with `postProcessing`. */
  too_large: final(413),
  /** An image format or content encoding that is not served. Send JPEG or TIFF with 8 bits, PNG, WebP, BMP or GIF, plain or compressed as gzip or deflate. */
  unsupported_media_type: final(415),
  /** The files of a model cannot be read or converted at import or upload. Correct the file that the message names. */
  bad_model: final(422),
  /** The model failed on this record; the message is from ONNX Runtime. Compare the values with its inputs. */
  model_failed: final(422),
  /** More requests came than `http.tokensPerSecond` or the machine allows, or the `budget` is used up. Try again after `Retry-After` seconds. */
  rate_limited: transient(429),
  /** The record was cancelled; in the body of a 200 this is its outcome. Nothing has to be done. */
  cancelled: final(409),
  /** No model is loaded, or not yet. Try again after `Retry-After` seconds; if it stays, the log says why. */
  model_unavailable: transient(503, 'no model is loaded (yet); the log says why'),
  /** Redis cannot be reached, or refuses, or S3 neither takes nor gives a large result. Try again; if it stays, the log says why. */
  results_unavailable: transient(503, 'the results cannot be reached; the log says why'),
  /** SQS, or S3 for a large record, did not take the record. Send it again under the same uri. */
  queue_unavailable: transient(503, 'the queue cannot take the record; the log says why'),
  /** No answer in time: the model was loading, or a run took long. Try again, or raise `function.timeoutSeconds`. */
  timeout: transient(504),
  /** The record waited longer than `queue.recordTtlSeconds`, or its own `expiresAfter`, and was not run. Send it again, or let it wait longer. */
  record_expired: final(410),
  /**
   * From its second delivery on the record ran `queue.maxReceiveCount` times without an outcome. Find the cause in the log, then run it
   * again with `cluster-serving dlq replay`.
   */
  max_receives_exceeded: final(500),
  /** A setting or an environment variable is wrong. Correct the one that the message or, over HTTP, the log names. */
  bad_config: final(500, 'a setting is wrong; the log says which'),
  /** An error that the service does not know. The log has it whole; please report it. */
  internal: transient(500, 'Internal error'),
};

export type ErrorCode = keyof typeof ERRORS;

/** Describes a file that has the name of a model but cannot be read as one. */
export const DAMAGED = 'the file is damaged or cut off, or no ONNX model: fetch it again, or export it again';

export interface ErrorRecord {
  readonly code: ErrorCode;
  readonly message: string;
}

export interface ErrorDetails {
  readonly cause?: unknown;
  readonly uri?: string | undefined;
  readonly retryAfterSeconds?: number;
}

export class ServingError extends Error {
  readonly code: ErrorCode;
  /** The record this error is about, when there is one. */
  readonly uri: string | undefined;

  /** When to try again, if that is known. */
  readonly retryAfterSeconds: number | undefined;

  constructor(code: ErrorCode, message: string, { cause, uri, retryAfterSeconds }: ErrorDetails = {}) {
    super(message, cause === undefined ? undefined : { cause });
    this.name = 'ServingError';
    this.code = code;
    this.uri = uri;
    this.retryAfterSeconds = retryAfterSeconds;
  }

  get status(): number {
    return ERRORS[this.code].status;
  }

  get retryable(): boolean {
    return ERRORS[this.code].retryable;
  }

  /**
   * The text that an untrusted caller may read: the message, or a fixed text for codes whose message may quote S3, SQS,
   * Redis or the file system.
   */
  get publicMessage(): string {
    return ERRORS[this.code].shown ?? this.message;
  }

  toJSON(): ErrorRecord {
    return { code: this.code, message: this.publicMessage };
  }

  /** Returns a ServingError unchanged; anything else becomes `internal` with the original as `cause`. */
  static from(error: unknown): ServingError {
    if (error instanceof ServingError) return error;
    return new ServingError('internal', error instanceof Error ? error.message : String(error), {
      cause: error,
    });
  }
}

/** Returns a thrown value as an Error; `code` is that of a system call. */
export function asError(error: unknown): Error & { readonly code?: unknown } {
  // Under Jest an error of Node is not an instance of the Error that a module sees.
  const isError = typeof error === 'object' && error !== null && 'message' in error;
  return isError ? (error as Error) : new Error(String(error));
}

export function isErrorCode(code: unknown): code is ErrorCode {
  return typeof code === 'string' && Object.hasOwn(ERRORS, code);
}

/** @returns a code that was stored or sent; undefined if it is unknown */
export function errorCodeOf(code: unknown): ErrorCode | undefined {
  return isErrorCode(code) ? code : undefined;
}

const errorsOf = (code: ErrorCode) => (message: string, details?: ErrorDetails) =>
  new ServingError(code, message, details);

export const badRequest = /* @__PURE__ */ errorsOf('bad_request');
export const badInput = /* @__PURE__ */ errorsOf('bad_input');
export const badModel = /* @__PURE__ */ errorsOf('bad_model');
export const badConfig = /* @__PURE__ */ errorsOf('bad_config');
export const modelUnavailable = /* @__PURE__ */ errorsOf('model_unavailable');

/** The error as that of a record. */
export function withUri(error: unknown, uri: string): ServingError {
  const { code, message } = ServingError.from(error);
  return new ServingError(code, message, { uri, cause: error });
}

/**
 * The error with another text for a path, such as that of a temporary file, which is gone when a person reads it. An
 * error without the path is returned unchanged.
 */
export function withPathAs(error: unknown, path: string, shown: string): unknown {
  const { code, message } = ServingError.from(error);
  if (!message.includes(path)) return error;
  return new ServingError(code, message.replaceAll(path, shown), { cause: error });
}
