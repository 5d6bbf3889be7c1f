/** Calls the handler of POST /predict for /v2 in this process, with tensors to send to a model. */
import { type PredictDeps, predict } from '../../functions/predict.ts';
import type { Runner } from '../../lib/contract/values.ts';
import { quietObservers } from './observers.ts';
import { answerOf, bytesOf, eventOf, type SentRequest, type SentTensor } from './open-inference.ts';

export function handlerOf(runner: Runner, deps: Partial<PredictDeps> = {}) {
  return predict({
    model: { use: (work) => work(runner) },
    filter: undefined,
    observers: quietObservers(),
    ...deps,
  });
}

export function endpointOf(runner: Runner, deps: Partial<PredictDeps> = {}) {
  const handle = handlerOf(runner, deps);
  return async (request: SentRequest, path?: string) => answerOf(await handle(eventOf(request, path)));
}

/** A request for all outputs as bytes. */
export const ALL_BINARY = { parameters: { binary_data_output: true } };

export const floats = (...values: number[]) => bytesOf(Float32Array.from(values));
/** Rows of two numbers for the input `x`. */
export const pairs = (...values: number[]): SentTensor => ({
  name: 'x',
  datatype: 'FP32',
  shape: [values.length / 2, 2],
  bytes: floats(...values),
});
