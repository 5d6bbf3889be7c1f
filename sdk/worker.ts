/** The parts of a worker in TypeScript. It runs in a process of the service, so it is not part of the client. */

export type { DType, Tensor } from '../lib/contract/tensor.ts';
export { EncodedImage, Tuple, type WorkerValue } from '../lib/contract/worker-values.ts';
export { type BatchFunction, WKRHardWorker, type WorkerLogger } from '../lib/workers/hard-worker.ts';
export { type OnnxModel, WKROnnxWorker } from '../lib/workers/onnx-worker.ts';
