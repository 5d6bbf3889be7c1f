/** The client SDK and its types. Everything else in lib/ is internal. */

export { type ErrorCode, ServingError } from '../lib/contract/errors.ts';
export type { Dequeued, RecordStatus, Result } from '../lib/contract/result.ts';
export type { DType, Tensor } from '../lib/contract/tensor.ts';
export type { NamedTensor } from '../lib/contract/values.ts';
export type { Fetch } from './fetch.ts';
export { InputQueue, type InputQueueOptions, type QueueRecord } from './input-queue.ts';
export type { InputValue, NestedNumbers, NestedStrings, RecordInputs } from './inputs.ts';
export { OutputQueue, type OutputQueueOptions, type WaitForOptions } from './output-queue.ts';
