/** The client SDK and the types it speaks in. Everything else under lib/ is the service's own. */
export type { Fetch } from './client/fetch.ts';
export { InputQueue, type InputQueueOptions, type QueueRecord } from './client/input-queue.ts';
export type { InputValue, NestedNumbers, NestedStrings, RecordInputs } from './client/inputs.ts';
export { OutputQueue, type OutputQueueOptions, type WaitForOptions } from './client/output-queue.ts';
export { type ErrorCode, ServingError } from './contract/errors.ts';
export type { DType, Tensor } from './contract/tensor.ts';
export type { NamedTensor } from './contract/values.ts';
export type { RecordStatus } from './redis/record-states.ts';
export type { Result } from './redis/result-fields.ts';
export type { Dequeued } from './redis/results.ts';
