/**
 * The Open Inference Protocol (KServe V2 over REST, with the binary tensor extension) under /v2: health, metadata and
 * inference. Shapes always include the batch dimension, even if the job's POST /predict omits it: a request is one
 * record that runs as a whole. The model's name is the job's, its version the one that serves.
 */
import { NO_SHARED_MEMORY } from '../../codecs/open-inference/parameters.ts';
import {
  decodeIndexRequest,
  decodeInference,
  type InferenceRequest,
  JSON_LENGTH_HEADER,
  jsonLengthOf,
} from '../../codecs/open-inference/request.ts';
import { DATATYPES } from '../../codecs/open-inference/tensor.ts';
import { quoteName } from '../../codecs/quote.ts';
import { badRequest, ServingError } from '../../contract/errors.ts';
import { logError } from '../../contract/log.ts';
import { SERVER_VERSION } from '../../contract/names.ts';
import type { ModelNames, Runner, TensorSpec } from '../../contract/values.ts';
import { mayHaveClasses } from '../../pipeline/batch/batch-axes.ts';
import { withScratch } from '../../pipeline/batch/buffer-pool.ts';
import { type InvocationClock, requestPolicy } from '../../pipeline/deadline.ts';
import type { HttpRequest } from '../request.ts';
import { type HttpResponse, json, respond } from '../response.ts';
import { inferenceAnswer } from './answer.ts';
import { compressed } from './compression.ts';
import { rawInput } from './raw.ts';
import { dimensions, modelConfig, noModelControl, platformOf, repositoryIndex } from './repository.ts';
import { admitted, assertModel, assertVersion, type InferenceDeps, jobOf, runInference } from './run.ts';

/** The protocol's extensions that are served, by the names that Triton gives them. */
const EXTENSIONS = [
  'binary_tensor_data',
  'classification',
  'model_configuration',
  'model_repository',
  'statistics',
];

const MODEL_PATH =
  /^\/v2\/models\/(?<name>[^/]+)(?:\/versions\/(?<version>[^/]+))?(?:\/(?<what>ready|infer|config|stats))?$/;
const REPOSITORY_PATH =
  /^\/v2\/repository(?:\/[^/]+)?\/(?:(?<index>index)|models\/(?<name>[^/]+)\/(?:un)?load)$/;
const SHARED_MEMORY_PATH = /^\/v2\/(?:system|cuda)sharedmemory(?:\/|$)/;

/** The fields that are read from a request. */
type Asking = Pick<HttpRequest, 'method' | 'path' | 'headers' | 'body'>;

/** Never throws. KServe's client shows what an error says only where its type is exactly this one. */
export async function answerInference(
  request: Asking,
  deps: InferenceDeps,
  clock: InvocationClock | undefined,
): Promise<HttpResponse> {
  const response = await respond(() => answered(request, deps, clock), logError);
  if ((response.statusCode ?? 200) < 400) return response;
  return { ...response, headers: { ...response.headers, 'content-type': 'application/json' } };
}

/** @throws not_found for an unknown path, model or version, and any error of the request */
export async function answered(
  request: Asking,
  deps: InferenceDeps,
  clock: InvocationClock | undefined,
): Promise<HttpResponse> {
  const { method, path } = request;
  if (SHARED_MEMORY_PATH.test(path)) throw badRequest(NO_SHARED_MEMORY);
  const repository = method === 'POST' ? REPOSITORY_PATH.exec(path)?.groups : undefined;
  if (repository?.['index'] !== undefined) {
    return json(200, await repositoryIndex(deps, decodeIndexRequest(request.body())));
  }
  if (repository) throw noModelControl();
  if (path === '/v2/models/stats' && method !== 'POST') return ofModel(deps, {}, 'stats');
  const { name, version, what } = MODEL_PATH.exec(path)?.groups ?? {};
  if (method === 'POST') {
    if (what === 'infer') return inferred(request, deps, { name, version }, clock);
  } else if (name !== undefined && what !== 'infer') return ofModel(deps, { name, version }, what);
  else if (path === '/v2/health/ready') return ofModel(deps, {}, 'health');
  else if (path === '/v2/health/live') return json(200, { live: true });
  else if (path === '/v2') {
    return json(200, { name: 'cluster-serving', version: SERVER_VERSION, extensions: EXTENSIONS });
  }
  throw new ServingError('not_found', `no such path: ${method} ${quoteName(path)}`);
}

/** Opening the model shows whether it can serve. @throws not_found, model_unavailable */
function ofModel(deps: InferenceDeps, { name, version }: Asked, what: string | undefined) {
  const job = jobOf(deps);
  assertModel(name ?? job, job, deps.names);
  return deps.model.use(async (runner) => {
    assertVersion(version, runner, job);
    switch (what) {
      case 'health':
        return json(200, { ready: true });
      case 'ready':
        return json(200, { name: job, ready: true });
      case 'config':
        return json(200, modelConfig(runner, job, deps.batchSize));
      case 'stats':
        return json(200, { model_stats: deps.statistics ? [deps.statistics.of(runner.version, job)] : [] });
      default:
        return json(200, metadata(runner, job, deps.postProcessing?.trim()));
    }
  });
}

function metadata(runner: Runner, job: string, filter: string | undefined) {
  const { version, inputs = [], outputs = [], names } = runner;
  const tensors = (
    specs: readonly TensorSpec[],
    namesOf: ModelNames['labels'] = {},
    hasNames: (spec: TensorSpec) => boolean = () => true,
  ) =>
    specs.map((spec) => ({
      name: spec.name,
      datatype: DATATYPES[spec.dtype],
      shape: dimensions(spec.shape),
      ...parametersOf(spec, hasNames(spec) ? namesOf : {}),
    }));
  return {
    name: job,
    versions: [version],
    platform: platformOf(runner).platform,
    inputs: tensors(inputs, names?.columns),
    // As in answers: an output whose last axis counts rows has no classes.
    outputs: tensors(outputs, names?.labels, mayHaveClasses),
    ...(filter ? { parameters: { post_processing: filter } } : {}),
  };
}

/** More facts about a tensor, for those who describe the model; empty for most. */
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
  readonly name?: string | undefined;
  readonly version?: string | undefined;
}

async function inferred(
  request: Asking,
  deps: InferenceDeps,
  { name, version }: Asked,
  clock: InvocationClock | undefined,
): Promise<HttpResponse> {
  // The tensors are views of the body; the response keeps no reference to either.
  return admitted(name, deps, clock?.caller, (phases) =>
    withScratch(async (scratch) => {
      const allocate = (bytes: number) => scratch.take(bytes);
      const jsonLength = jsonLengthOf(request.headers[JSON_LENGTH_HEADER]);
      const body = request.body({ alignedAt: jsonLength, allocate });
      const read = jsonLength === 0 ? undefined : decodeInference(body, jsonLength);
      const asked = read ?? ((runner: Runner) => rawRequest(body, runner));
      const answer = await runInference(asked, deps, { version, policy: requestPolicy(clock), phases });
      return compressed(inferenceAnswer(answer, allocate), request.headers['accept-encoding']);
    }),
  );
}

/** A body without JSON, for which all outputs are binary. */
function rawRequest(body: Uint8Array | string, { inputs = [] }: Runner): InferenceRequest {
  return { id: undefined, inputs: [rawInput(body, inputs)], outputs: undefined, binary: true };
}
