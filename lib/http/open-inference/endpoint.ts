/**
 * The Open Inference Protocol (KServe V2 over REST, with the binary tensor extension) under /v2: health, metadata and
 * inference. Shapes always include the batch dimension, whatever the job sets for POST /predict: a request is one
 * record that runs as a whole. The model's name is the job's, its version the one that serves.
 */
import {
  decodeInference,
  type InferenceRequest,
  JSON_LENGTH_HEADER,
  jsonLengthOf,
} from '../../codecs/open-inference/request.ts';
import { DATATYPES } from '../../codecs/open-inference/tensor.ts';
import { quoteName } from '../../codecs/quote.ts';
import { ServingError } from '../../contract/errors.ts';
import { SERVER_VERSION } from '../../contract/names.ts';
import type { ModelNames, Runner, TensorSpec } from '../../contract/values.ts';
import { withScratch } from '../../pipeline/buffer-pool.ts';
import { type InvocationClock, requestDeadline } from '../../pipeline/deadline.ts';
import type { HttpRequest } from '../request.ts';
import { type HttpResponse, json } from '../response.ts';
import { inferenceAnswer } from './answer.ts';
import { rawInput } from './raw.ts';
import { admitted, assertModel, assertVersion, type InferenceDeps, jobOf, runInference } from './run.ts';

const PATH =
  /^\/v2(?:\/health\/(?<health>live|ready)|\/models\/(?<name>[^/]+)(?:\/versions\/(?<version>[^/]+))?(?:\/(?<what>ready|infer))?)?$/;

export function isInferencePath(path: string): boolean {
  return path === '/v2' || path.startsWith('/v2/');
}

/** What is read of a request. */
type Asking = Pick<HttpRequest, 'method' | 'path' | 'headers' | 'body'>;

/** @throws not_found for an unknown path, model or version, and any error of the request */
export async function answerInference(
  request: Asking,
  deps: InferenceDeps,
  clock: InvocationClock | undefined,
): Promise<HttpResponse> {
  const { groups } = PATH.exec(request.path) ?? {};
  if (!groups || (request.method === 'POST') !== (groups['what'] === 'infer')) {
    throw new ServingError('not_found', `no such path: ${request.method} ${quoteName(request.path)}`);
  }
  const { health, name, version, what } = groups;
  if (what === 'infer') return inferred(request, deps, { name, version }, clock);
  if (health === 'live') return json(200, { live: true });
  if (health === undefined && name === undefined) {
    return json(200, {
      name: 'cluster-serving',
      version: SERVER_VERSION,
      extensions: ['binary_tensor_data'],
    });
  }
  const job = jobOf(deps);
  assertModel(name ?? job, job);
  // Opening the model shows whether it can serve; otherwise this throws model_unavailable.
  return deps.model.use(async (runner) => {
    assertVersion(version, runner, job);
    if (health === 'ready') return json(200, { ready: true });
    return json(200, what === 'ready' ? { name: job, ready: true } : metadata(runner, job));
  });
}

function metadata({ version, inputs = [], outputs = [], names }: Runner, job: string) {
  const tensors = (specs: readonly TensorSpec[], namesOf: ModelNames['labels'] = {}) =>
    specs.map((spec) => ({
      name: spec.name,
      datatype: DATATYPES[spec.dtype],
      shape: spec.shape.map((dim) => (typeof dim === 'number' ? dim : -1)),
      ...parametersOf(spec, namesOf),
    }));
  return {
    name: job,
    versions: [version],
    platform: 'onnxruntime_onnx',
    inputs: tensors(inputs, names?.columns),
    outputs: tensors(outputs, names?.labels),
  };
}

/** What else is known of a tensor, for those who describe the model; nothing for most. */
function parametersOf({ name, batchAxis = 0, isText, optional }: TensorSpec, names: ModelNames['labels']) {
  const parameters = {
    ...(batchAxis !== 0 && { batch_axis: batchAxis }),
    ...(isText && { text: true }),
    ...(optional && { optional: true }),
    ...(Object.hasOwn(names, name) && { names: names[name] }),
  };
  return Object.keys(parameters).length > 0 ? { parameters } : {};
}

interface Asked {
  readonly name: string | undefined;
  readonly version: string | undefined;
}

async function inferred(
  request: Asking,
  deps: InferenceDeps,
  { name, version }: Asked,
  clock: InvocationClock | undefined,
): Promise<HttpResponse> {
  // The tensors are views of the body; the response keeps no reference to either.
  return admitted(name, deps, () =>
    withScratch(async (scratch) => {
      const allocate = (bytes: number) => scratch.take(bytes);
      const jsonLength = jsonLengthOf(request.headers[JSON_LENGTH_HEADER]);
      const body = request.body({ alignedAt: jsonLength, allocate });
      const read = jsonLength === 0 ? undefined : decodeInference(body, jsonLength);
      const asked = read ?? ((runner: Runner) => rawRequest(body, runner));
      const answer = await runInference(asked, deps, { version, isOver: requestDeadline(clock) });
      return inferenceAnswer(answer, allocate);
    }),
  );
}

/** A body without JSON, for which all outputs are binary. */
function rawRequest(body: Uint8Array | string, { inputs = [] }: Runner): InferenceRequest {
  return { id: undefined, inputs: [rawInput(body, inputs)], outputs: undefined, binary: true };
}
