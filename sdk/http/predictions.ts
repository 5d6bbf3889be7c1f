/** Reads the answer of POST /predict: a text for each instance, in which an output has no name and no dtype. */
import { isObject } from '../../lib/codecs/instances.ts';
import type { NamedTensor } from '../../lib/contract/values.ts';
import { malformed, parse } from '../fetch.ts';
import { tensorOf } from './tensors.ts';

/** What the model, or a worker, made of one record. */
export interface Prediction {
  /** The contract's text, `{value=…}`. */
  readonly text: string;
  /**
   * The model's outputs in its order. Where a filter or a worker answered with something else there are none. NaN stands for
   * NaN and for infinity, which JSON lacks.
   */
  readonly outputs: readonly NamedTensor[];
  /** What a filter or a worker answered, as JSON; with `topN(n, labels)` the classes by their labels. */
  readonly value?: unknown;
  /** The version of the model. */
  readonly model: string;
}

/** An output as a model declares it. */
export interface DeclaredOutput {
  readonly name: string;
  readonly dtype: string;
}

/** @throws internal */
export function declaredOutputs(metadata: unknown): DeclaredOutput[] {
  const outputs: unknown = isObject(metadata) ? metadata['outputs'] : undefined;
  if (!Array.isArray(outputs)) throw malformed('the metadata has no outputs');
  return outputs.map((output: unknown) => {
    const { name, datatype } = isObject(output) ? output : {};
    // A datatype that is unknown is refused where its elements are read.
    return { name: String(name), dtype: dtypeIn(String(datatype)) };
  });
}

/**
 * @param declared the model's outputs; without them, arrays are bool, string or float64, as JSON has them, and the names are
 *   output0, output1 and so on
 * @throws internal
 */
export function predictionOf(
  text: unknown,
  model: string,
  declared: readonly DeclaredOutput[] | undefined,
): Prediction {
  const isText = typeof text === 'string' && /^\{value=.*\}$/s.test(text);
  const value = isText ? parse(text.slice('{value='.length, -1)) : undefined;
  if (!isText || value === undefined) throw malformed('a prediction is no {value=…}');
  const tensors: readonly unknown[] = Array.isArray(value) ? value : [value];
  if (tensors.length === 0 || !tensors.every(isTensor)) return { text, outputs: [], value, model };
  const isDeclared = declared?.length === tensors.length;
  const outputs = tensors.map(({ data, shape }, i) => {
    const { name, dtype } = (isDeclared && declared[i]) || { name: `output${i}`, dtype: dtypeOf(data) };
    return tensorOf(name, { dtype, shape, data });
  });
  return { text, outputs, model };
}

/** The datatypes of /v2 are FP16, FP32, FP64, BYTES, and otherwise the names in capital letters. */
function dtypeIn(datatype: string): string {
  return datatype.replace('FP', 'float').replace('BYTES', 'string').toLowerCase();
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
