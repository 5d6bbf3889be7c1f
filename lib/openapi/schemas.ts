/** The schemas that operations share, as JSON Schema 2020-12. */
import { ERRORS } from '../contract/errors.ts';
import { LIMITS } from '../contract/limits.ts';
import { TIMERS } from '../metrics/timers.ts';
import type { Json, ServiceFacts } from './facts.ts';
import { instanceSchema, ref, tensorSchema } from './inputs.ts';

/** A JSON object with any keys. */
const OBJECT = { type: 'object' } as const;
export const TEXT = { type: 'string' } as const;
const COUNT = { type: 'integer', minimum: 0 } as const;

export const IDENTITY = {
  type: 'string',
  description: 'Names one enqueue of a uri.',
  pattern: '^[A-Za-z0-9._-]{1,64}$',
} as const;

export const URI = {
  type: 'string',
  description: `The client's name for a record: up to ${LIMITS.uriBytes} bytes of UTF-8 without control characters.`,
  minLength: 1,
  maxLength: LIMITS.uriBytes,
  pattern: '^[^\\u0000-\\u001f\\u007f]+$',
} as const;

/** An object with exactly these keys; those of `optional` may be missing. */
export function object(properties: Json, optional: readonly string[] = []): Json {
  return {
    type: 'object',
    properties,
    required: Object.keys(properties).filter((key) => !optional.includes(key)),
  };
}

export function list(items: Json, most?: number): Json {
  return { type: 'array', items, ...(most === undefined ? {} : { minItems: 1, maxItems: most }) };
}

const CODES = { type: 'string', enum: Object.keys(ERRORS) } as const;

const ERRORS_OF_ROUTES: Json = {
  Error: object({ error: TEXT, code: CODES, uri: TEXT }, ['uri']),
  GatewayError: {
    ...object({ message: { type: ['string', 'null'] } }),
    description: 'An answer of the gateway itself, which never asked the service.',
  },
  WorkerError: object({
    error_code: { type: 'integer', description: 'The status.' },
    error_message: TEXT,
    data: { type: 'null' },
    code: CODES,
  }),
  OpenAIError: object({
    error: object({ message: TEXT, type: TEXT, param: { type: 'null' }, code: CODES }),
  }),
};

const TENSOR = object({
  name: TEXT,
  dtype: TEXT,
  shape: list(COUNT),
  data: list({ type: ['number', 'string', 'boolean', 'null'] }),
});

const RECORDS: Json = {
  Records: {
    ...object(
      {
        instances: list({ type: 'object', minProperties: 1 }, LIMITS.instances),
        uri: URI,
        uris: { ...list(URI, LIMITS.instances), uniqueItems: true },
      },
      ['uri', 'uris'],
    ),
    not: { required: ['uri', 'uris'] },
    description: 'Instances with a uri (one) or uris (one each); missing ones are made.',
  },
  WireRecord: {
    ...object({ uri: URI, data: TEXT, serde: { type: 'string', enum: ['arrow', 'stream', 'safetensors'] } }, [
      'serde',
    ]),
    description: 'A record as the queue has it.',
  },
  Accepted: object({ uri: URI, identity: IDENTITY }),
  AllAccepted: object({ uris: list(URI), identities: list(IDENTITY) }),
};

const LARGE = object({ id: TEXT, bytes: COUNT, sha256: TEXT, location: TEXT }, ['location']);

const RESULTS: Json = {
  Succeeded: {
    ...object(
      {
        uri: TEXT,
        identity: TEXT,
        status: { type: 'string', const: 'succeeded' },
        model: { type: 'string', description: 'The version that ran it.' },
        finishedAt: { type: 'string', format: 'date-time' },
        outputs: list(TENSOR),
        filtered: { description: 'With postProcessing, in place of outputs: its text.', type: 'string' },
        value: { description: 'What a worker returned that is no arrays, in place of outputs.' },
        large: { ...LARGE, description: 'In place of outputs: where a result over 1 MiB is.' },
      },
      ['identity', 'outputs', 'filtered', 'value', 'large'],
    ),
  },
  Failed: object(
    {
      uri: TEXT,
      identity: TEXT,
      status: { type: 'string', enum: ['failed', 'cancelled'] },
      error: TEXT,
      code: CODES,
    },
    ['identity'],
  ),
  Result: { oneOf: [ref('Succeeded'), ref('Failed')] },
  Page: object({
    results: list(ref('Result')),
    more: { type: 'boolean', description: 'Whether to ask again.' },
  }),
};

const INFERENCE_TENSOR = object(
  { name: TEXT, datatype: TEXT, shape: list(COUNT), data: list({}), parameters: OBJECT },
  ['data', 'parameters'],
);

const VALUES: Json = {
  Image: {
    ...object({
      b64: { type: 'string', format: 'image', contentEncoding: 'base64', contentMediaType: 'image/*' },
    }),
    description: 'A JPEG or PNG.',
  },
  ImageText: {
    type: 'string',
    format: 'image',
    contentEncoding: 'base64',
    contentMediaType: 'image/*',
    description: 'A JPEG or PNG; a prefix `data:…,` is removed.',
  },
  Sparse: {
    ...object({
      shape: list(COUNT),
      data: list({ type: ['number', 'boolean'] }),
      indices: list(list(COUNT)),
    }),
    description: 'A sparse tensor: indices count from 0, one row per value of data.',
  },
};

const TIMER = object(
  Object.fromEntries([
    ['name', { type: 'string', enum: TIMERS }],
    ['count', COUNT],
    ...[
      'meanRate',
      'min',
      'max',
      'mean',
      'median',
      'stdDev',
      '_75thPercentile',
      '_95thPercentile',
      '_98thPercentile',
      '_99thPercentile',
      '_999thPercentile',
    ].map((key) => [key, { type: 'number' }]),
  ]) as Json,
);

export function schemasOf({ model, inputAlreadyBatched }: ServiceFacts): Json {
  const instance = model ? instanceSchema(model, inputAlreadyBatched) : { ...OBJECT, minProperties: 1 };
  const names = model?.outputs.length
    ? { type: 'string', enum: model.outputs.map(({ name }) => name) }
    : TEXT;
  return {
    ...ERRORS_OF_ROUTES,
    ...RESULTS,
    ...RECORDS,
    ...VALUES,
    Instance: { ...instance, description: 'The inputs of a record by name.' },
    Instances: object({ instances: list(ref('Instance'), LIMITS.instances) }),
    Predictions: object({
      predictions: {
        ...list({ type: 'string', pattern: '^\\{value=' }),
        description: 'One text for each instance, in their order.',
      },
    }),
    Timer: { ...TIMER, description: 'Times in ms; meanRate in events per second.' },
    Tensor: INFERENCE_TENSOR,
    InferenceRequest: object(
      {
        id: { type: ['string', 'null'], maxLength: LIMITS.uriBytes },
        inputs: model
          ? {
              ...list({ anyOf: model.inputs.map((spec) => tensorSchema(spec, undefined, true)) }),
              minItems: 1,
              maxItems: model.inputs.length,
            }
          : list(ref('Tensor')),
        outputs: {
          ...list(object({ name: names, parameters: OBJECT }, ['parameters'])),
          type: ['array', 'null'],
        },
        parameters: { type: ['object', 'null'] },
      },
      ['id', 'outputs', 'parameters'],
    ),
    InferenceAnswer: object(
      {
        model_name: TEXT,
        model_version: TEXT,
        id: TEXT,
        outputs: list(
          model && model.outputs.length > 0
            ? { anyOf: model.outputs.map((spec) => tensorSchema(spec, model.names?.labels[spec.name])) }
            : ref('Tensor'),
        ),
      },
      ['id'],
    ),
    ModelMetadata: object({
      name: TEXT,
      versions: list(TEXT),
      platform: TEXT,
      inputs: list(ref('TensorMetadata')),
      outputs: list(ref('TensorMetadata')),
    }),
    RepositoryIndex: list(
      object(
        {
          name: TEXT,
          version: TEXT,
          state: { type: 'string', enum: ['READY', 'UNAVAILABLE'] },
          reason: TEXT,
        },
        ['version'],
      ),
    ),
    ModelConfig: object({
      name: TEXT,
      platform: TEXT,
      backend: TEXT,
      max_batch_size: {
        ...COUNT,
        description: 'Rows that may share a run; 0: dims have the batch dimension.',
      },
      input: list(ref('TensorConfig')),
      output: list(ref('TensorConfig')),
      parameters: OBJECT,
    }),
    TensorConfig: object(
      {
        name: TEXT,
        data_type: TEXT,
        dims: list({ type: 'integer', minimum: -1 }),
        optional: { type: 'boolean' },
      },
      ['optional'],
    ),
    ModelStatistics: object({
      model_stats: list(
        object({
          name: TEXT,
          version: TEXT,
          last_inference: { ...COUNT, description: 'Milliseconds since 1970; 0: none yet.' },
          inference_count: COUNT,
          execution_count: COUNT,
          inference_stats: { type: 'object', additionalProperties: ref('Durations') },
          batch_stats: list({ type: 'object', properties: { batch_size: COUNT } }),
        }),
      ),
    }),
    Durations: object({ count: COUNT, ns: COUNT }),
    TensorMetadata: object(
      { name: TEXT, datatype: TEXT, shape: list({ type: 'integer', minimum: -1 }), parameters: OBJECT },
      ['parameters'],
    ),
  };
}
