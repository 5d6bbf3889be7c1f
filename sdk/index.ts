/** The client SDK and its types. Everything else in lib/ is internal. */

export { type ErrorCode, ServingError } from '../lib/contract/errors.ts';
export type { Dequeued, RecordStatus, Result } from '../lib/contract/result.ts';
export type { DType, Tensor } from '../lib/contract/tensor.ts';
export type { NamedTensor } from '../lib/contract/values.ts';
export { type AccessOptions, type AuthKind, authorizedFetch } from './access.ts';
export { type Connection, type ConnectOptions, connect } from './connect.ts';
export type { Fetch } from './fetch.ts';
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
export { InputQueue, type InputQueueOptions } from './input-queue.ts';
export type { InputValue, NestedNumbers, NestedStrings, RecordInputs } from './inputs.ts';
export type { CallOptions } from './limit.ts';
export { OutputQueue, type OutputQueueOptions } from './output-queue.ts';
export { findStack, type StackOptions, type StackPlaces } from './stack.ts';
