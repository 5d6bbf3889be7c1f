/** Every operation of the HTTP API, with its requests and answers. test/lib/openapi compares them with the routes. */
import { LIMITS } from '../contract/limits.ts';
import type { ServiceFacts } from './facts.ts';
import { INFERENCE } from './inference-operations.ts';
import { ref } from './inputs.ts';
import { list, object, TEXT } from './json-schema.ts';
import { answer, type Operation, type Operations, parameter, RUN_ERRORS } from './operation.ts';
import { ENQUEUED, FILES, QUEUE, WARNING } from './queue-operations.ts';
import { SERVING } from './serving-operations.ts';
import { WORKER } from './worker-operations.ts';

const TOKENS = { ...list({ type: 'integer', minimum: 0, maximum: 2 ** 31 - 1 }), minItems: 1 };
const ASYNC = parameter('Prefer', 'header', TEXT, '`respond-async` enqueues the instances.');
/** One text, several, the tokens of one, or those of several. */
const EMBEDDED = { anyOf: [TEXT, list(TEXT, LIMITS.instances), TOKENS, list(TOKENS, LIMITS.instances)] };

const FORM = parameter('form', 'query', { type: 'string', const: 'plain' }, 'Answers as PlainPredictions.');
const PREDICTED = {
  200: {
    ...answer('A prediction for each instance; plain where values have no names, and for files.', {
      anyOf: [ref('Predictions'), ref('PlainPredictions')],
    }),
    ...WARNING,
  },
  ...ENQUEUED,
};
const SERVED = object({ version: TEXT, at: { ...TEXT, format: 'date-time' } });
/** `model` was pushed; environments have answered with those of `serving`. */
const READY = object({ ready: { type: 'boolean', const: true }, model: TEXT, serving: list(SERVED) }, [
  'serving',
]);

export function operationsOf(facts: ServiceFacts): readonly Operation[] {
  const all = [
    ...PREDICT(facts),
    ...QUEUE(facts),
    ...SERVING(facts),
    ...INFERENCE(facts),
    ...WORKER(facts),
    ...STATE(facts),
  ];
  return all.filter(
    ({ isLocal, id }) => (facts.isLocal || !isLocal) && (facts.hasControl || id !== 'control'),
  );
}

const PREDICT: Operations = ({ example, model, job }) => [
  {
    method: 'post',
    path: '/predict',
    id: 'predict',
    tag: 'predict',
    summary: 'Answers instances at once',
    parameters: [ASYNC, FORM],
    body: {
      'application/json': {
        schema: { anyOf: [ref('Instances'), ref('Values'), ref('Columns')] },
        ...(example && { example: { instances: [example] } }),
      },
      ...FILES,
    },
    answers: PREDICTED,
    errors: [...RUN_ERRORS, 'conflict', 'queue_unavailable'],
  },
  {
    method: 'post',
    path: '/v1/embeddings',
    id: 'embeddings',
    tag: 'predict',
    summary: "Vectors of texts, in the form of OpenAI's API",
    body: {
      'application/json': {
        schema: object(
          {
            input: EMBEDDED,
            model: { type: 'string', const: job },
            encoding_format: { type: 'string', enum: ['float', 'base64'] },
            dimensions: { type: 'integer', minimum: 1, maximum: 2 ** 31 - 1 },
            prompt_name: { type: 'string' },
          },
          ['encoding_format', 'dimensions', 'prompt_name'],
        ),
        ...(isEmbedding(model) && { example: { input: 'a text', model: job } }),
      },
    },
    answers: {
      200: answer(
        'A vector for each text.',
        object({
          object: { type: 'string', const: 'list' },
          data: list(
            object({
              object: { type: 'string', const: 'embedding' },
              index: { type: 'integer' },
              embedding: { anyOf: [list({ type: 'number' }), TEXT] },
            }),
          ),
          model: TEXT,
          usage: object({ prompt_tokens: { type: 'integer' }, total_tokens: { type: 'integer' } }),
        }),
      ),
    },
    errors: [...RUN_ERRORS, 'not_found'],
  },
];

function isEmbedding(model: ServiceFacts['model']): boolean {
  return model?.inputs[0]?.isText === true && model.outputs[0]?.name === 'embedding';
}

const STATE: Operations = () => [
  {
    method: 'get',
    path: '/',
    id: 'welcome',
    tag: 'service',
    summary: 'A welcome',
    answers: { 200: answer('A text.', TEXT, 'text/plain') },
    errors: [],
  },
  {
    method: 'get',
    path: '/ready',
    id: 'ready',
    tag: 'service',
    summary: 'Whether a prediction can work',
    answers: { 200: answer('It can.', READY) },
    errors: ['model_unavailable', 'results_unavailable'],
  },
  {
    method: 'get',
    path: '/metrics',
    id: 'metrics',
    tag: 'service',
    summary: 'Timers of all functions of the job; for Prometheus by Accept',
    answers: {
      200: {
        description: 'The timers.',
        content: {
          'application/json': { schema: list(ref('Timer')) },
          'text/plain': { schema: TEXT },
          'application/openmetrics-text': { schema: TEXT },
        },
      },
    },
    errors: ['results_unavailable'],
  },
  {
    method: 'get',
    path: '/openapi.json',
    id: 'openapi',
    tag: 'service',
    summary: 'This document',
    isLocal: true,
    answers: { 200: answer('OpenAPI 3.1.', { type: 'object' }) },
    errors: ['model_unavailable'],
  },
  {
    method: 'get',
    path: '/docs',
    id: 'docs',
    tag: 'service',
    summary: 'This document as a page',
    isLocal: true,
    answers: { 200: answer('HTML without scripts.', TEXT, 'text/html') },
    errors: ['model_unavailable'],
  },
];
