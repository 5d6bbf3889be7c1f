/** What a worker in TypeScript is made of. It runs in a process of the service, so it is no part of the client. */

export type { DType, Tensor } from '../lib/contract/tensor.ts';
export { EncodedImage, Tuple, type WorkerValue } from '../lib/contract/worker-values.ts';
export { type BatchFunction, WKRHardWorker, type WorkerLogger } from '../lib/workers/hard-worker.ts';
export { type OnnxModel, WKROnnxWorker } from '../lib/workers/onnx-worker.ts';
