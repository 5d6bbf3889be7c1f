/** The operations of the Open Inference Protocol. One greedy route of the gateway serves all of them. */
import type { Json } from './facts.ts';
import { inferenceExample, ref } from './inputs.ts';
import { list, object, TEXT } from './json-schema.ts';
import { answer, type Operation, type Operations, parameter, RUN_ERRORS } from './operation.ts';

const ROUTE = '/v2/{path+}';
const TRUE = { type: 'boolean', const: true } as const;

const OUTPUTS: Json = {
  description: 'The outputs; binary where the request asks for that.',
  content: {
    'application/json': { schema: ref('InferenceAnswer') },
    'application/octet-stream': { schema: { type: 'string', format: 'binary' } },
  },
};

const SERVER = object({ name: TEXT, version: TEXT, extensions: list(TEXT) });

const INDEX: Operation = {
  method: 'post',
  path: '/v2/repository/index',
  route: ROUTE,
  id: 'v2Index',
  tag: 'v2',
  summary: 'The model of this job',
  body: { 'application/json': { schema: object({ ready: { type: ['boolean', 'null'] } }, ['ready']) } },
  isBodyOptional: true,
  answers: { 200: answer('The model of this job', ref('RepositoryIndex')) },
  errors: ['bad_request', 'too_large', 'unsupported_media_type', 'timeout'],
};

export const INFERENCE: Operations = ({ job, version, model, example: instance, inputAlreadyBatched }) => {
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
    ...(path === '/v2' ? {} : { route: ROUTE }),
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
      // The binary data after the JSON has no schema; the header gives its length.
      'application/octet-stream': { schema: ref('InferenceRequest') },
    },
    answers: { 200: OUTPUTS },
    errors: [...RUN_ERRORS, 'not_found'],
  });
  const at = (path: string, suffix: string, ready: string): readonly Operation[] => [
    get(path, `v2Model${suffix}`, 'The inputs and outputs of the model', ref('ModelMetadata')),
    get(`${path}/ready`, `v2ModelReady${suffix}`, ready, object({ name: TEXT, ready: TRUE })),
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
    get('/v2', 'v2Server', 'Name, version and extensions of the service', SERVER),
    get('/v2/health/live', 'v2Live', 'Whether the service runs', object({ live: TRUE })),
    get('/v2/health/ready', 'v2Ready', 'Whether the model is open', object({ ready: TRUE })),
    get('/v2/models/stats', 'v2Stats', 'What this process has counted', ref('ModelStatistics')),
    INDEX,
    ...at('/v2/models/{name}', '', 'Whether the model is open'),
    ...at('/v2/models/{name}/versions/{version}', 'Version', 'Whether this version is open'),
  ];
};
