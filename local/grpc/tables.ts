/**
 * The messages of `inference.GRPCInferenceService` (KServe's Open Inference Protocol, with what Triton adds) as tables for
 * protobuf's wire format: the numbers, names and types of the fields that this service reads or writes.
 */
import type { Field, Table } from '../../convert/wire/table.ts';

type Fields = Readonly<Record<string, Field>>;
type FieldType = Field['type'];

const one = (name: string, type: FieldType = 'string'): Field => ({ name, type });
const many = (name: string, type: FieldType): Field => ({ name, type, repeated: true });

function map(name: string, value: Table): Field {
  const entry = { 1: one('key'), 2: one('value', () => value) };
  return { name, type: () => entry, map: true };
}

/** Of a request, an input or an output: one of these. */
const PARAMETER: Table = {
  1: one('bool_param', 'bool'),
  2: one('int64_param', 'int64'),
  3: one('string_param'),
  4: one('double_param', 'double'),
  5: one('uint64_param', 'uint64'),
};

const CONTENTS = {
  1: many('bool_contents', 'bool'),
  2: many('int_contents', 'int32'),
  3: many('int64_contents', 'int64'),
  4: many('uint_contents', 'uint32'),
  5: many('uint64_contents', 'uint64'),
  6: many('fp32_contents', 'float'),
  7: many('fp64_contents', 'double'),
  8: many('bytes_contents', 'bytes'),
} as const satisfies Fields;

const PARAMETERS = map('parameters', PARAMETER);
const SHAPE = many('shape', 'int64');

const INPUT: Table = {
  1: one('name'),
  2: one('datatype'),
  3: SHAPE,
  4: PARAMETERS,
  5: one('contents', () => CONTENTS),
};

export const INFER_REQUEST: Table = {
  1: one('model_name'),
  2: one('model_version'),
  3: one('id'),
  4: PARAMETERS,
  5: many('inputs', () => INPUT),
  6: many('outputs', () => ({ 1: one('name'), 2: PARAMETERS })),
  7: many('raw_input_contents', 'bytes'),
};

const TENSOR: Table = { 1: one('name'), 2: one('datatype'), 3: SHAPE };

export const INFER_RESPONSE: Table = {
  1: one('model_name'),
  2: one('model_version'),
  3: one('id'),
  5: many('outputs', () => TENSOR),
  6: many('raw_output_contents', 'bytes'),
};

export const NOTHING: Table = {};
export const LIVE: Table = { 1: one('live', 'bool') };
export const READY: Table = { 1: one('ready', 'bool') };
/** Of ModelReady, ModelMetadata, ModelConfig and ModelStatistics. */
export const MODEL: Table = { 1: one('name'), 2: one('version') };
export const SERVER_METADATA: Table = { 1: one('name'), 2: one('version'), 3: many('extensions', 'string') };
export const MODEL_METADATA: Table = {
  1: one('name'),
  2: many('versions', 'string'),
  3: one('platform'),
  4: many('inputs', () => TENSOR),
  5: many('outputs', () => TENSOR),
};

export const INDEX_REQUEST: Table = { 2: one('ready', 'bool') };
export const INDEX: Table = {
  1: many('models', () => ({ 1: one('name'), 2: one('version'), 3: one('state'), 4: one('reason') })),
};

/** Triton numbers its types in this order, from 1. */
const TYPES = [
  'BOOL',
  'UINT8',
  'UINT16',
  'UINT32',
  'UINT64',
  'INT8',
  'INT16',
  'INT32',
  'INT64',
  'FP16',
  'FP32',
  'FP64',
];
const DATA_TYPE: Field = {
  name: 'data_type',
  type: 'enum',
  enumNames: Object.fromEntries([...TYPES, 'STRING'].map((name, index) => [`TYPE_${name}`, index + 1])),
};

export const CONFIG: Table = {
  1: one('config', () => ({
    1: one('name'),
    2: one('platform'),
    17: one('backend'),
    4: one('max_batch_size', 'int32'),
    5: many('input', () => ({
      1: one('name'),
      2: DATA_TYPE,
      4: many('dims', 'int64'),
      8: one('optional', 'bool'),
    })),
    6: many('output', () => ({ 1: one('name'), 2: DATA_TYPE, 3: many('dims', 'int64') })),
    14: map('parameters', { 1: one('string_value') }),
  })),
};

/** Numbers its names from 1. */
const durations = (...names: string[]): Record<number, Field> =>
  Object.fromEntries(
    names.map((name, index) => [
      index + 1,
      one(name, () => ({ 1: one('count', 'uint64'), 2: one('ns', 'uint64') })),
    ]),
  );
const COMPUTE = ['compute_input', 'compute_infer', 'compute_output'];

export const STATISTICS: Table = {
  1: many('model_stats', () => ({
    1: one('name'),
    2: one('version'),
    3: one('last_inference', 'uint64'),
    4: one('inference_count', 'uint64'),
    5: one('execution_count', 'uint64'),
    6: one('inference_stats', () =>
      durations('success', 'fail', 'queue', ...COMPUTE, 'cache_hit', 'cache_miss'),
    ),
    7: many('batch_stats', () => ({
      ...durations('batch_size', ...COMPUTE),
      1: one('batch_size', 'uint64'),
    })),
  })),
};
