import type { Json } from './facts.ts';
import { ref } from './inputs.ts';
import { COUNT, list, OBJECT, object, TEXT } from './json-schema.ts';

/** The model's description in the Open Inference Protocol and in Triton's extensions. */
export const MODEL: Json = {
  ModelMetadata: object(
    {
      name: TEXT,
      versions: list(TEXT),
      platform: TEXT,
      inputs: list(ref('TensorMetadata')),
      outputs: list(ref('TensorMetadata')),
      parameters: { ...OBJECT, description: 'post_processing: the filter of the answers beside /v2.' },
    },
    ['parameters'],
  ),
  TensorMetadata: object(
    { name: TEXT, datatype: TEXT, shape: list({ type: 'integer', minimum: -1 }), parameters: OBJECT },
    ['parameters'],
  ),
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
};
