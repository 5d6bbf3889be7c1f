/**
 * The models as Triton's extensions show them: the entries of the repository's index, and the configuration. `cluster-serving model
 * push` publishes a model, and it is opened when it is asked for, so nothing is loaded or unloaded over HTTP.
 */
import { DATATYPES } from '../../codecs/open-inference/tensor.ts';
import { badRequest, ServingError } from '../../contract/errors.ts';
import type { DType } from '../../contract/tensor.ts';
import type { ModelNames, Runner, TensorSpec } from '../../contract/values.ts';
import { batchAxisOf, mayHaveClasses, rowShape } from '../../pipeline/batch/batch-axes.ts';
import type { ListedModel } from '../../pipeline/named-models.ts';
import { type InferenceDeps, jobOf } from './run.ts';

export interface IndexEntry {
  readonly name: string;
  /** Absent for a model that is not open in the process that answers. */
  readonly version?: string;
  readonly state: 'READY' | 'UNAVAILABLE';
  readonly reason: string;
}

/** @param readyOnly without models that cannot be opened; a further model that is closed is opened when it is asked for */
export async function repositoryIndex(deps: InferenceDeps, readyOnly: boolean): Promise<IndexEntry[]> {
  const named = (await (await deps.further?.())?.list()) ?? [];
  const entries = [await ownEntry(deps), ...named.map(entryOf)];
  return readyOnly ? entries.filter(({ state }) => state === 'READY') : entries;
}

async function ownEntry(deps: InferenceDeps): Promise<IndexEntry> {
  const name = jobOf(deps);
  try {
    return await deps.model.use(async ({ version }) => ({ name, version, state: 'READY', reason: '' }));
  } catch (error) {
    const { code, publicMessage: reason } = ServingError.from(error);
    if (code !== 'model_unavailable') throw error;
    return { name, state: 'UNAVAILABLE', reason };
  }
}

function entryOf({ name, version, error }: ListedModel): IndexEntry {
  if (error) return { name, state: 'UNAVAILABLE', reason: error.publicMessage };
  return { name, ...(version !== undefined && { version }), state: 'READY', reason: '' };
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
