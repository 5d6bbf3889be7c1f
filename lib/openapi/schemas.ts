/** The schemas that operations share, as JSON Schema 2020-12. */
import { ERRORS } from '../contract/errors.ts';
import { LIMITS } from '../contract/limits.ts';
import { TIMERS } from '../metrics/timers.ts';
import type { Json, ServiceFacts } from './facts.ts';
import { instanceSchemas, ref, tensorSchema } from './inputs.ts';
import { COUNT, list, OBJECT, object, SAID, TEXT } from './json-schema.ts';
import { MODEL } from './model-schemas.ts';

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
  ServingError: object({ error: TEXT }),
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

const BASE64 = { contentEncoding: 'base64' } as const;
const IGNORED = { description: 'Of another server: ignored, with a header `Warning`.' };
/** Keys that a body may have beside its instances. */
const BESIDE = {
  bindByPosition: {
    type: 'boolean',
    description:
      'true: inputs of which none has a name of the model bind in their order; default for one input.',
  },
  id: IGNORED,
  parameters: IGNORED,
  signature_name: IGNORED,
};

/** An object in which any other key is refused. */
function closed(properties: Json, optional: readonly string[]): Json {
  return { ...object(properties, optional), additionalProperties: false };
}

/** The format tells a generator of requests what the text is. */
function wireRecord(serde: string, encoding: Json): Json {
  return closed(
    {
      uri: URI,
      data: { ...TEXT, ...encoding, format: serde },
      serde: { type: 'string', const: serde },
      ...SAID,
    },
    [...(serde === 'arrow' ? ['serde'] : []), ...Object.keys(SAID)],
  );
}

const RECORDS: Json = {
  Records: {
    ...closed(
      {
        instances: list({ type: 'object', minProperties: 1 }, LIMITS.instances),
        uri: URI,
        uris: { ...list(URI, LIMITS.instances), uniqueItems: true, type: ['array', 'null'] },
        ...SAID,
        ...BESIDE,
      },
      ['uri', 'uris', ...Object.keys(SAID), ...Object.keys(BESIDE)],
    ),
    anyOf: [{ properties: { uris: { type: 'null' } } }, { not: { required: ['uri'] } }],
    description: 'Instances with a uri (one) or uris (one each); missing ones are made.',
  },
  WireRecord: {
    anyOf: [wireRecord('arrow', BASE64), wireRecord('stream', {}), wireRecord('safetensors', BASE64)],
    description: 'A record as the queue has it; without serde its data is Arrow.',
  },
  Accepted: object({ uri: URI, identity: IDENTITY }),
  AllAccepted: object({ uris: list(URI), identities: list(IDENTITY) }),
  EachAccepted: {
    ...object({
      accepted: COUNT,
      refused: COUNT,
      records: list(
        object(
          {
            line: { type: 'integer', minimum: 1 },
            status: { type: 'integer', description: '202, or that of the error.' },
            uri: URI,
            identity: IDENTITY,
            location: TEXT,
            error: TEXT,
            code: CODES,
            retryable: { type: 'boolean', description: 'Whether the same record may be accepted later.' },
          },
          ['uri', 'identity', 'location', 'error', 'code', 'retryable'],
        ),
        LIMITS.recordsPerBody,
      ),
    }),
    description: 'The outcome of the record on each line, in the order of the body.',
  },
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
        filtered: { description: 'With postProcessing, instead of outputs: its text.', type: 'string' },
        value: { description: 'The return value of a worker that is not arrays, instead of outputs.' },
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
    description: 'A JPEG, PNG, WebP, BMP, GIF or TIFF.',
  },
  ImageText: {
    type: 'string',
    format: 'image',
    contentEncoding: 'base64',
    contentMediaType: 'image/*',
    description: 'A JPEG, PNG, WebP, BMP, GIF or TIFF; a prefix `data:…,` is removed.',
  },
};

/** Requests without names, and their answers. */
const PLAIN: Json = {
  Values: object({
    instances: {
      ...list({ not: { type: ['object', 'null'] } }, LIMITS.instances),
      description: 'Values of the only input.',
    },
  }),
  Columns: object({
    inputs: { description: 'By name, or of the only input: a list has a row for each of its elements.' },
  }),
  Dataframe: {
    anyOf: [
      object({
        dataframe_split: object(
          { columns: { type: 'array' }, data: list({ type: 'array' }, LIMITS.instances) },
          ['columns'],
        ),
      }),
      object({ dataframe_records: list({ type: 'object' }, LIMITS.instances) }),
    ],
    description: 'A table as clients of MLflow send it.',
  },
  PlainPredictions: object(
    {
      outputs: { type: 'object', additionalProperties: { type: 'array' } },
      labels: { type: 'object', additionalProperties: { type: 'array' } },
      filtered: { type: 'array' },
      values: { type: 'array' },
      model: TEXT,
    },
    ['outputs', 'labels', 'filtered', 'values'],
  ),
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
  const instance = model
    ? instanceSchemas(model, inputAlreadyBatched)
    : { Instance: { ...OBJECT, minProperties: 1, description: 'The inputs of a record by name.' } };
  const names = model?.outputs.length
    ? { type: 'string', enum: model.outputs.map(({ name }) => name) }
    : TEXT;
  return {
    ...ERRORS_OF_ROUTES,
    ...MODEL,
    ...RESULTS,
    ...RECORDS,
    ...VALUES,
    ...instance,
    Instances: closed({ instances: list(ref('Instance'), LIMITS.instances), ...BESIDE }, Object.keys(BESIDE)),
    ...PLAIN,
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
          ...list(object({ name: names, parameters: { type: ['object', 'null'] } }, ['parameters'])),
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
  };
}
