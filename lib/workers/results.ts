/** Makes the outcome of a record of what a worker returned for its item. */
import { isTensorLike } from '../codecs/values/tensor-like.ts';
import { ServingError } from '../contract/errors.ts';
import { LIMITS, overLimit } from '../contract/limits.ts';
import type { Tensor } from '../contract/tensor.ts';
import type { NamedTensor, Outcome } from '../contract/values.ts';
import type { WorkerValue } from '../contract/worker-values.ts';
import type { WorkerFault, WorkerOutcome } from './messages.ts';

/** The name of an array that a worker returns alone. */
const OUTPUT = 'output';

export function outcomeOf(outcome: WorkerOutcome): Outcome {
  if ('error' in outcome) {
    return { ok: false, error: new ServingError('model_failed', faultText(outcome.error)) };
  }
  // It was read from a frame.
  const value = outcome.value as WorkerValue;
  const outputs = outputsOf(value);
  if (!outputs) return { ok: true, outputs: [], value };
  const names = outputs.length;
  if (isTensorLike(value)) return { ok: true, outputs, isArray: true };
  if (names <= LIMITS.arrowFields) return { ok: true, outputs };
  return { ok: false, error: overLimit('arrowFields', `${names} arrays are`) };
}

/** The text of an error of a worker's code: its class and what it says. */
export function faultText({ type, message }: WorkerFault): string {
  return message === '' ? type : `${type}: ${message}`;
}

/** @returns undefined for what is neither an array nor a dict of arrays */
function outputsOf(value: WorkerValue): NamedTensor[] | undefined {
  if (typeof value !== 'object' || value === null) return undefined;
  if (isTensorLike(value)) return [named(OUTPUT, value)];
  const prototype: unknown = Object.getPrototypeOf(value);
  if (prototype !== null && prototype !== Object.prototype) return undefined;
  const entries = Object.entries(value);
  const outputs = entries.flatMap(([name, item]) => (isTensorLike(item) ? [named(name, item)] : []));
  return outputs.length > 0 && outputs.length === entries.length ? outputs : undefined;
}

function named(name: string, { dtype, shape, data }: Tensor): NamedTensor {
  return dtype === 'string' ? { name, dtype, shape, data } : { name, dtype, shape, data };
}
