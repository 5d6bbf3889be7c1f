/** TensorFlow Serving's REST API. One greedy route serves all its operations; the rest of this folder is loaded at its first request. */
import { isObject } from '../../codecs/instances.ts';
import type { Verb } from '../../codecs/tensorflow-serving/request.ts';
import { LIMITS } from '../../contract/limits.ts';
import type { Declaration } from '../../openapi/declaration.ts';
import type { Json, ServiceFacts } from '../../openapi/facts.ts';
import { servingSchemas } from '../../openapi/inputs.ts';
import { list, object, TEXT } from '../../openapi/json-schema.ts';
import { answer, type Operation, parameter, RUN_ERRORS } from '../../openapi/operation.ts';
import { type Handle, withErrors } from '../handle.ts';
import type { InferenceDeps } from '../open-inference/run.ts';

/** Its errors are texts alone. */
export const handle: Handle<InferenceDeps> = withErrors(
  ({ publicMessage }) => ({ error: publicMessage }),
  async (request, deps, clock) => {
    const { answerServing } = await import('./endpoint.ts');
    return answerServing(request, deps, clock);
  },
);

export const declaration: Declaration = {
  // Greedy, so that unknown paths are refused with the API's own errors.
  routes: ['POST /v1/models/{path+}', 'GET /v1/models/{path+}', 'GET /v1/models'],
  function: 'predict',
  errorForm: 'ServingError',
  operations,
};

/** For each verb its summary, body and answer. */
function verbs({
  model,
  inputAlreadyBatched,
}: ServiceFacts): Readonly<Record<Verb, readonly [string, Json, Json]>> {
  const any: Json = {};
  const examples = { context: { type: 'object' }, examples: list({ type: 'object' }, LIMITS.instances) };
  const { instances, inputs } = (!inputAlreadyBatched && model && servingSchemas(model)) || {
    instances: list(any, LIMITS.instances),
    inputs: any,
  };
  return {
    predict: [
      'Runs the model on rows, or on tensors that have their batch dimension',
      { oneOf: [signed('predict', { instances }), signed('predict', { inputs })] },
      { oneOf: [object({ predictions: list(any) }), object({ outputs: any })] },
    ],
    classify: [
      'Label and score of each class',
      signed('classify', examples),
      object({ results: list(list(list(any))) }),
    ],
    regress: [
      'A value for each example',
      signed('regress', examples),
      object({ results: list({ type: 'number' }) }),
    ],
  };
}

/** A model has one signature, under two names: as the codec has them, which a start is not to load. */
function signed(verb: Verb, properties: Json): Json {
  return object(
    {
      signature_name: { type: 'string', enum: ['', 'serving_default', `tensorflow/serving/${verb}`] },
      ...properties,
    },
    ['signature_name', 'context'],
  );
}

function operations(facts: ServiceFacts): readonly Operation[] {
  const status = object({
    model_version_status: list(
      object({ version: TEXT, state: TEXT, status: object({ error_code: TEXT, error_message: TEXT }) }),
    ),
  });
  const metadata = object({
    model_spec: object({ name: TEXT, signature_name: TEXT, version: TEXT }),
    metadata: object({ signature_def: object({ signature_def: { type: 'object' } }) }),
  });
  const name = parameter('name', 'path', { type: 'string', const: facts.job });
  const version = parameter(
    'version',
    'path',
    { type: 'string', const: facts.version },
    'The version that serves.',
  );
  const at = (path: string, suffix: string, parameters: readonly Json[]): readonly Operation[] => {
    const common = { tag: 'v1', parameters };
    const get = (own: string, id: string, summary: string, schema: Json): Operation => ({
      ...common,
      method: 'get',
      path: own,
      id: id + suffix,
      summary,
      answers: { 200: answer(summary, schema) },
      errors: ['not_found', 'model_unavailable'],
    });
    const runs = Object.entries(verbs(facts)).map(
      ([verb, [summary, schema, answered]]): Operation => ({
        ...common,
        method: 'post',
        path: `${path}:${verb}`,
        id: verb + (suffix || 'Model'),
        summary,
        body: { 'application/json': { schema, ...(verb === 'predict' && exampleOf(facts)) } },
        answers: { 200: answer('Floats may be NaN, Infinity and -Infinity, which JSON has not.', answered) },
        errors: [...RUN_ERRORS, 'not_found'],
      }),
    );
    return [
      get(path, 'modelStatus', 'The version that serves', status),
      get(`${path}/metadata`, 'modelMetadata', 'The signature of the model', metadata),
      ...runs,
    ];
  };
  return [
    {
      method: 'get',
      path: '/v1/models',
      id: 'models',
      tag: 'v1',
      summary: "The model of this job, in the form of OpenAI's API",
      answers: { 200: answer('One model; `error` is what TensorFlow Serving answers.', models(facts)) },
      errors: [],
    },
    ...at('/v1/models/{name}', '', [name]),
    ...at('/v1/models/{name}/versions/{version}', 'Version', [name, version]),
  ];
}

function models({ job }: ServiceFacts): Json {
  const model = object({
    id: { type: 'string', const: job },
    object: { type: 'string', const: 'model' },
    created: { type: 'integer' },
    owned_by: TEXT,
  });
  return object({ object: { type: 'string', const: 'list' }, data: list(model), error: TEXT });
}

/** The example of POST /predict, where the API has a form for its values. */
function exampleOf({ example, inputAlreadyBatched }: ServiceFacts): Json {
  const isSparse = (value: unknown) => isObject(value) && 'indices' in value;
  if (!example || inputAlreadyBatched || Object.values(example).some(isSparse)) return {};
  return { example: { instances: [example] } };
}
