/** Reads the answer of POST /predict: a text for each instance, in which an output has no name and no dtype. */
import { isObject } from '../../lib/codecs/instances.ts';
import { badRequest } from '../../lib/contract/errors.ts';
import type { NamedTensor } from '../../lib/contract/values.ts';
import { malformed, parse } from '../fetch.ts';
import { type DeclaredOutput, labelled, type ModelFacts } from './served-model.ts';
import { tensorOf } from './tensors.ts';

/** The result of the model, or of a worker, for one record. */
export interface Prediction {
  /** The contract's text, `{value=…}`. */
  readonly text: string;
  /**
   * The model's outputs in its order. Where a filter or a worker answered with something else there are none. NaN stands for
   * NaN and for infinity, which JSON lacks.
   */
  readonly outputs: readonly NamedTensor[];
  /**
   * The only output. It throws bad_request where there is not exactly one, as for a job whose filter or worker answers with
   * something else, and says where the answer is.
   */
  readonly output: NamedTensor;
  /** The answer of a filter or a worker, as JSON; with `topN(n, labels)` the classes by their labels. */
  readonly value?: unknown;
  /** The version of the model. */
  readonly model: string;
}

/**
 * @param facts of the model; without them, arrays are bool, string or float64, as JSON has them, and the names are output0,
 *   output1 and so on
 * @throws internal
 */
export function predictionOf(text: unknown, model: string, facts: ModelFacts | undefined): Prediction {
  const isText = typeof text === 'string' && /^\{value=.*\}$/s.test(text);
  const value = isText ? parse(text.slice('{value='.length, -1)) : undefined;
  if (!isText || value === undefined) throw malformed('a prediction is no {value=…}');
  const tensors: readonly unknown[] = Array.isArray(value) ? value : [value];
  if (tensors.length === 0 || !tensors.every(isTensor))
    return withOutput({ text, outputs: [], value, model }, facts);
  const declared = facts?.outputs.length === tensors.length ? facts.outputs : [];
  const outputs = tensors.map(({ data, shape }, i) => {
    const output: DeclaredOutput = declared[i] ?? { name: `output${i}`, dtype: dtypeOf(data) };
    return labelled(tensorOf(output.name, { dtype: output.dtype, shape, data }), output);
  });
  return withOutput({ text, outputs, model }, facts);
}

/** The property is hidden from comparing, copying and JSON, because it may throw. */
function withOutput(prediction: Omit<Prediction, 'output'>, facts: ModelFacts | undefined): Prediction {
  const { outputs } = prediction;
  const get = () => {
    const [first, second] = outputs;
    if (first && !second) return first;
    if (first) throw badRequest(`there are ${outputs.length} outputs: read .outputs`);
    throw badRequest(`the job answers with ${sourceOf(facts)}: read .value`);
  };
  // It has the property from here on.
  return Object.defineProperty(prediction, 'output', { get }) as Prediction;
}

/** Where an answer without outputs comes from. */
function sourceOf(facts: ModelFacts | undefined): string {
  if (facts === undefined) return 'its filter or its worker';
  const { filter = '', isWorker } = facts;
  return isWorker && filter === '' ? 'its worker' : `its filter ${filter}`.trim();
}

interface BareTensor {
  readonly data: readonly unknown[];
  readonly shape: readonly number[];
}

function isTensor(value: unknown): value is BareTensor {
  return (
    isObject(value) && Object.keys(value).length === 2 && Array.isArray(value['data']) && 'shape' in value
  );
}

function dtypeOf(data: readonly unknown[]): string {
  if (data.some((element) => typeof element === 'string')) return 'string';
  return data.length > 0 && data.every((element) => typeof element === 'boolean') ? 'bool' : 'float64';
}
