/** The operations of TensorFlow Serving's REST API. One greedy route of the gateway serves all of them. */
import { isObject } from '../codecs/instances.ts';
import { DEFAULT_SIGNATURE, methodOf, type Verb } from '../codecs/tensorflow-serving/request.ts';
import { LIMITS } from '../contract/limits.ts';
import type { Json, ServiceFacts } from './facts.ts';
import { servingSchemas } from './inputs.ts';
import { list, object, TEXT } from './json-schema.ts';
import { answer, type Operation, type Operations, parameter, RUN_ERRORS } from './operation.ts';

const ANY: Json = {};
const STATUS = object({
  model_version_status: list(
    object({ version: TEXT, state: TEXT, status: object({ error_code: TEXT, error_message: TEXT }) }),
  ),
});
const METADATA = object({
  model_spec: object({ name: TEXT, signature_name: TEXT, version: TEXT }),
  metadata: object({ signature_def: object({ signature_def: { type: 'object' } }) }),
});
const EXAMPLES = {
  context: { type: 'object' },
  examples: list({ type: 'object' }, LIMITS.instances),
} as const;
/** A model has one signature, under two names. */
const signed = (verb: Verb, properties: Json) =>
  object(
    { signature_name: { type: 'string', enum: ['', DEFAULT_SIGNATURE, methodOf(verb)] }, ...properties },
    ['signature_name', 'context'],
  );

/** For each verb its summary, body and answer. */
function verbs({
  model,
  inputAlreadyBatched,
}: ServiceFacts): Readonly<Record<Verb, readonly [string, Json, Json]>> {
  const { instances, inputs } = (!inputAlreadyBatched && model && servingSchemas(model)) || {
    instances: list(ANY, LIMITS.instances),
    inputs: ANY,
  };
  return {
    predict: [
      'Runs the model on rows, or on tensors that have their batch dimension',
      { oneOf: [signed('predict', { instances }), signed('predict', { inputs })] },
      { oneOf: [object({ predictions: list(ANY) }), object({ outputs: ANY })] },
    ],
    classify: [
      'Label and score of each class',
      signed('classify', EXAMPLES),
      object({ results: list(list(list(ANY))) }),
    ],
    regress: [
      'A value for each example',
      signed('regress', EXAMPLES),
      object({ results: list({ type: 'number' }) }),
    ],
  };
}

export const SERVING: Operations = (facts) => {
  const name = parameter('name', 'path', { type: 'string', const: facts.job });
  const version = parameter(
    'version',
    'path',
    { type: 'string', const: facts.version },
    'The version that serves.',
  );
  const at = (path: string, suffix: string, parameters: readonly Json[]): readonly Operation[] => {
    const common = { route: '/v1/models/{path+}', tag: 'v1', parameters };
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
      get(path, 'modelStatus', 'The version that serves', STATUS),
      get(`${path}/metadata`, 'modelMetadata', 'The signature of the model', METADATA),
      ...runs,
    ];
  };
  return [
    {
      method: 'get',
      path: '/v1/models',
      id: 'models',
      tag: 'v1',
      summary: 'Refused, as the name of the model is missing',
      answers: {},
      errors: [],
    },
    ...at('/v1/models/{name}', '', [name]),
    ...at('/v1/models/{name}/versions/{version}', 'Version', [name, version]),
  ];
};

/** The example of POST /predict, where the API has a form for its values. */
function exampleOf({ example, inputAlreadyBatched }: ServiceFacts): Json {
  const isSparse = (value: unknown) => isObject(value) && 'indices' in value;
  if (!example || inputAlreadyBatched || Object.values(example).some(isSparse)) return {};
  return { example: { instances: [example] } };
}
