/** What a description of a service is made from: the job, how it asks who calls, and what runs its records. */

import { isObject } from '../codecs/instances.ts';
import { DTYPES } from '../codecs/open-inference/tensor.ts';
import type { ModelNames, TensorSpec } from '../contract/values.ts';

/** JSON, as a schema or a document has it. */
export type Json = Readonly<Record<string, unknown>>;

/** How the API asks who calls; `token` is the one of a local service. */
export type Security = 'none' | 'token' | 'jwt' | 'iam' | 'api-key';

/** The inputs and outputs of a model, as a run takes and gives them. */
export interface ModelFacts {
  readonly inputs: readonly TensorSpec[];
  readonly outputs: readonly TensorSpec[];
  readonly names?: ModelNames | undefined;
}

export interface ServiceFacts {
  readonly job: string;
  /** Of the model or the worker. */
  readonly version: string;
  /** Undefined for a worker, which says nothing about its items. */
  readonly model: ModelFacts | undefined;
  readonly inputAlreadyBatched: boolean;
  /** An instance that the model has answered; undefined: none is known. */
  readonly example: Json | undefined;
  readonly security: Security;
  /** Where the API is. A path is relative to the document. */
  readonly url: string;
}

/**
 * The facts in an answer of `GET /v2/models/{job}`.
 * @returns undefined when it is none, or that of a worker
 */
export function modelOfMetadata(metadata: unknown): ModelFacts | undefined {
  const { inputs, outputs } = (isObject(metadata) ? metadata : {}) as Json;
  const [ins, outs] = [portsOf(inputs), portsOf(outputs)];
  if (!ins || !outs || ins.length === 0) return undefined;
  const named = (ports: readonly Port[]) =>
    Object.fromEntries(ports.flatMap(({ spec, names }) => (names ? [[spec.name, names] as const] : [])));
  return {
    inputs: ins.map(({ spec }) => spec),
    outputs: outs.map(({ spec }) => spec),
    names: { columns: named(ins), labels: named(outs) },
  };
}

interface Port {
  readonly spec: TensorSpec;
  readonly names: readonly string[] | undefined;
}

function portsOf(list: unknown): Port[] | undefined {
  if (!Array.isArray(list)) return undefined;
  const ports = list.map(portOf);
  return ports.every((port) => port !== undefined) ? ports : undefined;
}

function portOf(port: unknown): Port | undefined {
  if (!isObject(port)) return undefined;
  const { name, datatype, shape, parameters } = port;
  const dtype = DTYPES.get(String(datatype));
  if (typeof name !== 'string' || !dtype || !Array.isArray(shape)) return undefined;
  const { batch_axis: axis, text, optional, names } = (isObject(parameters) ? parameters : {}) as Json;
  return {
    spec: {
      name,
      dtype,
      shape: shape.map((dim) => (typeof dim === 'number' && dim >= 0 ? dim : '')),
      ...(axis === 'none' || Number.isInteger(axis) ? { batchAxis: axis as number | 'none' } : {}),
      ...(text === true && { isText: true }),
      ...(optional === true && { optional: true }),
    },
    names: Array.isArray(names) ? names.map(String) : undefined,
  };
}
