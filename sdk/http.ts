/**
 * The client for browsers, Deno and Workers: what works over HTTPS, without a dependency and without a module of Node. It
 * reads neither files nor variables, and signs nothing.
 */
import { type HttpAccess, withSecret } from './http/access.ts';
import { RecordWriter } from './http/input-queue.ts';
import { ResultReader } from './http/output-queue.ts';
import { HttpResults } from './http-results.ts';
import { retrying } from './retries.ts';

export { type ErrorCode, ServingError } from '../lib/contract/errors.ts';
export type { Dequeued, RecordStatus, Result } from '../lib/contract/result.ts';
export type { DType, Tensor } from '../lib/contract/tensor.ts';
export type { NamedTensor } from '../lib/contract/values.ts';
export type { Fetch } from './fetch.ts';
export type { HttpAccess } from './http/access.ts';
export type {
  Enqueued,
  EnqueueManyOptions,
  EnqueueOptions,
  PredictRequest,
  QueueRecord,
} from './http/input-queue.ts';
export type {
  DrainOptions,
  Outcome,
  QueryOptions,
  RecordName,
  ResultsOptions,
  WaitOptions,
} from './http/output-queue.ts';
export type { Prediction } from './http/predictions.ts';
export { type RecordEvent, type UnwrapOptions, unwrap } from './http/webhook.ts';
export type { InputValue, NestedNumbers, NestedStrings, RecordInputs } from './inputs.ts';
export type { CallOptions } from './limit.ts';

export interface InputQueueOptions extends HttpAccess {
  /** Name of the job. Default: the job that the service serves. */
  readonly name?: string;
  /** The HTTPS API. */
  readonly frontendUrl: string;
}

export class InputQueue extends RecordWriter {
  /** @throws bad_config */
  constructor(options: InputQueueOptions) {
    const { name, frontendUrl: url } = options;
    super(name, { url, send: retrying(withSecret(url, options)) });
  }
}

export interface OutputQueueOptions extends HttpAccess {
  /** The HTTPS API. */
  readonly url: string;
}

export class OutputQueue extends ResultReader {
  /** @throws bad_config */
  constructor(options: OutputQueueOptions) {
    const { url } = options;
    const results = new HttpResults(url, retrying(withSecret(url, options)));
    super(() => results);
  }
}
