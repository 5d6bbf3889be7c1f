/** /v2, the Open Inference Protocol. One greedy route serves all its operations; the rest of this folder is loaded at the first request. */
import type { Declaration } from '../../openapi/declaration.ts';
import type { Json, ServiceFacts } from '../../openapi/facts.ts';
import { inferenceExample, ref } from '../../openapi/inputs.ts';
import { list, object, TEXT } from '../../openapi/json-schema.ts';
import { answer, type Operation, parameter, RUN_ERRORS } from '../../openapi/operation.ts';
import type { Handle } from '../handle.ts';
import type { answerInference as AnswerInference } from './endpoint.ts';
import type { InferenceDeps } from './run.ts';

/** Kept once it is loaded: an import of a loaded module still waits for a turn of the event loop. */
let answerInference: typeof AnswerInference | undefined;

export const handle: Handle<InferenceDeps> = async (request, deps, clock) => {
  answerInference ??= (await import('./endpoint.ts')).answerInference;
  return answerInference(request, deps, clock);
};

export const declaration: Declaration = {
  // Greedy, so that unknown paths are refused with the protocol's own errors.
  routes: ['POST /v2/{path+}', 'GET /v2/{path+}', 'HEAD /v2/{path+}', 'GET /v2', 'HEAD /v2'],
  function: 'predict',
  operations,
};

function operations(facts: ServiceFacts): readonly Operation[] {
  const { job, version, model, example: instance, inputAlreadyBatched } = facts;
  const server = object({ name: TEXT, version: TEXT, extensions: list(TEXT) });
  const isTrue = { type: 'boolean', const: true };
  const name = parameter('name', 'path', { type: 'string', const: job });
  const versioned = parameter(
    'version',
    'path',
    { type: 'string', const: version },
    'The version that serves.',
  );
  const get = (path: string, id: string, summary: string, schema: Json): Operation => ({
    method: 'get',
    path,
    id,
    tag: 'v2',
    summary,
    parameters: [
      ...(path.includes('{name}') ? [name] : []),
      ...(path.includes('{version}') ? [versioned] : []),
    ],
    answers: { 200: answer(summary, schema) },
    errors: ['not_found', 'model_unavailable', 'timeout'],
  });
  const example = model && instance && inferenceExample(model, instance, inputAlreadyBatched);
  const infer = (path: string, id: string): Operation => ({
    ...get(path, id, 'The outputs for tensors', ref('InferenceAnswer')),
    method: 'post',
    summary: 'Runs the model on tensors that have their batch dimension',
    body: {
      'application/json': { schema: ref('InferenceRequest'), ...(example && { example }) },
      // What follows the JSON, as the header says, no schema describes.
      'application/octet-stream': { schema: ref('InferenceRequest') },
    },
    answers: { 200: outputs() },
    errors: [...RUN_ERRORS, 'not_found'],
  });
  const at = (path: string, suffix: string, ready: string): readonly Operation[] => [
    get(path, `v2Model${suffix}`, 'The inputs and outputs of the model', ref('ModelMetadata')),
    get(`${path}/ready`, `v2ModelReady${suffix}`, ready, object({ name: TEXT, ready: isTrue })),
    get(
      `${path}/config`,
      `v2ModelConfig${suffix}`,
      "The model as Triton's configuration",
      ref('ModelConfig'),
    ),
    get(`${path}/stats`, `v2ModelStats${suffix}`, 'What this process has counted', ref('ModelStatistics')),
    infer(`${path}/infer`, `v2Infer${suffix}`),
  ];
  return [
    get('/v2', 'v2Server', 'Name, version and extensions of the service', server),
    get('/v2/health/live', 'v2Live', 'Whether the service runs', object({ live: isTrue })),
    get('/v2/health/ready', 'v2Ready', 'Whether the model is open', object({ ready: isTrue })),
    get('/v2/models/stats', 'v2Stats', 'What this process has counted', ref('ModelStatistics')),
    index(),
    ...at('/v2/models/{name}', '', 'Whether the model is open'),
    ...at('/v2/models/{name}/versions/{version}', 'Version', 'Whether this version is open'),
  ];
}

function outputs(): Json {
  return {
    description: 'The outputs; binary where the request asks for that.',
    content: {
      'application/json': { schema: ref('InferenceAnswer') },
      'application/octet-stream': { schema: { type: 'string', format: 'binary' } },
    },
  };
}

function index(): Operation {
  return {
    method: 'post',
    path: '/v2/repository/index',
    id: 'v2Index',
    tag: 'v2',
    summary: 'The model of this job',
    body: { 'application/json': { schema: object({ ready: { type: ['boolean', 'null'] } }, ['ready']) } },
    isBodyOptional: true,
    answers: { 200: answer('The model of this job', ref('RepositoryIndex')) },
    errors: ['bad_request', 'too_large', 'unsupported_media_type', 'timeout'],
  };
}
