/** Turns a client's value into a worker's item, and an outcome into the client's value. */
import { asDict } from '../../codecs/values/tensor-like.ts';
import { VALUE_LIMITS } from '../../codecs/values/write-value.ts';
import { ServingError } from '../../contract/errors.ts';
import type { Outcome, Runner } from '../../contract/values.ts';
import type { WorkerValue } from '../../contract/worker-values.ts';

/**
 * JSON as an item: its objects are dicts, with any keys.
 * @throws too_large when it is nested deeper than values may be
 */
export function asItem(json: unknown, depth = 0): WorkerValue {
  if (typeof json !== 'object' || json === null) return json as WorkerValue;
  if (depth >= VALUE_LIMITS.depth) {
    throw new ServingError('too_large', `the body is nested deeper than ${VALUE_LIMITS.depth} levels`);
  }
  for (const item of Array.isArray(json) ? json : Object.values(json)) asItem(item, depth + 1);
  return (Array.isArray(json) ? json : asDict(json)) as WorkerValue;
}

/** The value of a record that succeeded. A model with one output answers as a worker that returns an array. */
export function valueOf(outcome: Outcome & { readonly ok: true }, runner: Runner): WorkerValue {
  const { outputs, value, isArray } = outcome;
  if (value !== undefined) return value;
  const [first] = outputs;
  if (first && outputs.length === 1 && (isArray || runner.inputs)) return first;
  return Object.fromEntries(outputs.map((output) => [output.name, output]));
}
