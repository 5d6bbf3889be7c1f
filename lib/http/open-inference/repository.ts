/**
 * The model as Triton's extensions show it: the entry of the repository's index, and the configuration. A job has one model,
 * which `cluster-serving model push` publishes, so nothing is loaded or unloaded over HTTP.
 */
import { DATATYPES } from '../../codecs/open-inference/tensor.ts';
import { badRequest, ServingError } from '../../contract/errors.ts';
import type { DType } from '../../contract/tensor.ts';
import type { Model, ModelNames, Runner, TensorSpec } from '../../contract/values.ts';
import { batchAxisOf, mayHaveClasses, rowShape } from '../../pipeline/batch/batch-axes.ts';

interface IndexEntry {
  readonly name: string;
  readonly version?: string;
  readonly state: 'READY' | 'UNAVAILABLE';
  readonly reason: string;
}

/** @param readyOnly without a model that cannot be opened */
export async function repositoryIndex(model: Model, job: string, readyOnly: boolean): Promise<IndexEntry[]> {
  try {
    return [await model.use(async ({ version }) => ({ name: job, version, state: 'READY', reason: '' }))];
  } catch (error) {
    const { code, publicMessage } = ServingError.from(error);
    if (code !== 'model_unavailable') throw error;
    return readyOnly ? [] : [{ name: job, state: 'UNAVAILABLE', reason: publicMessage }];
  }
}

/** The error for a request to load or unload a model. */
export function noModelControl(): ServingError {
  return badRequest(
    "models are not loaded or unloaded by requests; a version of this job's model is published with: cluster-serving model push",
  );
}

export function platformOf({ inputs }: Runner): { readonly platform: string; readonly backend: string } {
  return inputs === undefined
    ? { platform: 'worker', backend: 'worker' }
    : { platform: 'onnxruntime_onnx', backend: 'onnxruntime' };
}

/** A dimension that is free is -1, as everywhere in the protocol. */
export function dimensions(shape: TensorSpec['shape']): number[] {
  return shape.map((dim) => (typeof dim === 'number' ? dim : -1));
}

/** Triton's name of a dtype in a configuration. */
function dataType(dtype: DType): string {
  return `TYPE_${dtype === 'string' ? 'STRING' : DATATYPES[dtype]}`;
}

/**
 * The fields of Triton's ModelConfig that say something here. Where the batch dimension of all tensors is the first, and
 * free, max_batch_size is above 0 and `dims` are without it, as in Triton. It is the number of rows that the job lets share a
 * run; a request may have more. The names of classes, for which Triton has files, are parameters.
 */
export function modelConfig(runner: Runner, job: string, batchSize = 32) {
  const { inputs = [], outputs = [], names } = runner;
  const specs = [...inputs, ...outputs];
  const isBatched =
    specs.length > 0 && specs.every((spec) => batchAxisOf(spec) === 0 && isFree(spec.shape[0]));
  const tensor = (spec: TensorSpec) => ({
    name: spec.name,
    data_type: dataType(spec.dtype),
    dims: dimensions(isBatched ? rowShape(spec) : spec.shape),
  });
  return {
    name: job,
    ...platformOf(runner),
    max_batch_size: isBatched ? batchSize : 0,
    input: inputs.map((spec) => ({ ...tensor(spec), ...(spec.optional && { optional: true }) })),
    output: outputs.map(tensor),
    parameters: labelParameters(outputs, names?.labels),
  };
}

function isFree(dim: number | string | undefined): boolean {
  return typeof dim === 'string';
}

function labelParameters(outputs: readonly TensorSpec[], labels: ModelNames['labels'] = {}) {
  const named = outputs.filter((spec) => mayHaveClasses(spec) && Object.hasOwn(labels, spec.name));
  return Object.fromEntries(
    named.map(({ name }) => [`labels:${name}`, { string_value: JSON.stringify(labels[name]) }]),
  );
}
