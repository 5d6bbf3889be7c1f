/**
 * One error class with a closed set of codes, each with its HTTP status. Errors cross Redis, SQS and HTTP as JSON,
 * where `instanceof` is lost and `code` survives, so test `code`.
 */

interface CodeFacts {
  /** HTTP status a door answers with. */
  readonly status: number;
  /** True when the same request may succeed later: SQS redelivers it, an HTTP client may try again. */
  readonly retryable: boolean;
}

/** Every code there is. */
const FACTS = {
  /** The request is not what the contract says: not JSON, no instances, an unreadable record. */
  bad_request: { status: 400, retryable: false },
  /** One input does not fit the model: name, shape, type, encoding. */
  bad_input: { status: 400, retryable: false },
  /** API Gateway let nobody in: what the SDK makes of its 401 and 403. */
  unauthorized: { status: 401, retryable: false },
  not_found: { status: 404, retryable: false },
  /** The uri is in use for another payload. */
  conflict: { status: 409, retryable: false },
  /** A size or count limit; the message names the limit and the value. */
  too_large: { status: 413, retryable: false },
  unsupported_media_type: { status: 415, retryable: false },
  /** A model's files cannot be read or converted; the message names file and node. */
  bad_model: { status: 422, retryable: false },
  /** The model itself refused the record at run time. */
  model_failed: { status: 422, retryable: false },
  rate_limited: { status: 429, retryable: true },
  cancelled: { status: 409, retryable: false },
  /** The model cannot be loaded (yet). */
  model_unavailable: { status: 503, retryable: true },
  /** Redis cannot be reached or refuses. */
  results_unavailable: { status: 503, retryable: true },
  /** SQS cannot take the record. */
  queue_unavailable: { status: 503, retryable: true },
  timeout: { status: 504, retryable: true },
  /** The record was delivered `maxReceiveCount` times without an outcome. */
  max_receives_exceeded: { status: 500, retryable: false },
  /** A setting is wrong; the message names it. */
  bad_config: { status: 500, retryable: false },
  /** A defect of ours: logged whole, shown as "Internal error". */
  internal: { status: 500, retryable: true },
} as const satisfies Record<string, CodeFacts>;

export type ErrorCode = keyof typeof FACTS;

/**
 * What a stranger reads in place of a message that may quote S3, SQS, Redis or the file system, and so names hosts, roles
 * and paths. The log has the message. `timeout` and `max_receives_exceeded` quote nobody.
 */
const SHOWN: Partial<Record<ErrorCode, string>> = {
  model_unavailable: 'no model is loaded (yet); the log says why',
  results_unavailable: 'the results cannot be reached; the log says why',
  queue_unavailable: 'the queue cannot take the record; the log says why',
  bad_config: 'a setting is wrong; the log says which',
  internal: 'Internal error',
};

/** Said of a file that is named like a model and cannot be read as one. */
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

  /** When trying again makes sense, where that is known. */
  readonly retryAfterSeconds: number | undefined;

  constructor(code: ErrorCode, message: string, options: ErrorDetails = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.name = 'ServingError';
    this.code = code;
    this.uri = options.uri;
    this.retryAfterSeconds = options.retryAfterSeconds;
  }

  get status(): number {
    return FACTS[this.code].status;
  }

  get retryable(): boolean {
    return FACTS[this.code].retryable;
  }

  /**
   * What an untrusted caller may read: the message, or a fixed text for codes whose message may quote S3, SQS, Redis or
   * the file system.
   */
  get publicMessage(): string {
    return SHOWN[this.code] ?? this.message;
  }

  toJSON(): ErrorRecord {
    return { code: this.code, message: this.publicMessage };
  }

  /** Ours as it is; anything else becomes `internal` with the original as `cause`. */
  static from(error: unknown): ServingError {
    if (error instanceof ServingError) return error;
    return new ServingError('internal', error instanceof Error ? error.message : String(error), {
      cause: error,
    });
  }
}

export function isErrorCode(code: unknown): code is ErrorCode {
  return typeof code === 'string' && Object.hasOwn(FACTS, code);
}

/** Codes of earlier releases. Results in Redis and deployments of those releases still have them. */
const RENAMED_CODES: Readonly<Record<string, ErrorCode>> = { out_of_tries: 'max_receives_exceeded' };

/** @returns the code of this release for one that was stored or sent, perhaps by an earlier one; undefined if unknown */
export function errorCodeOf(code: unknown): ErrorCode | undefined {
  if (isErrorCode(code)) return code;
  return typeof code === 'string' && Object.hasOwn(RENAMED_CODES, code) ? RENAMED_CODES[code] : undefined;
}

export function badRequest(message: string, details?: ErrorDetails): ServingError {
  return new ServingError('bad_request', message, details);
}

export function badInput(message: string, details?: ErrorDetails): ServingError {
  return new ServingError('bad_input', message, details);
}

export function badModel(message: string, details?: ErrorDetails): ServingError {
  return new ServingError('bad_model', message, details);
}

export function badConfig(message: string, details?: ErrorDetails): ServingError {
  return new ServingError('bad_config', message, details);
}

export function modelUnavailable(message: string, details?: ErrorDetails): ServingError {
  return new ServingError('model_unavailable', message, details);
}
