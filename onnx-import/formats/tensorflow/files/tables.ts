/**
 * Field numbers of TensorFlow's protobuf messages, with only the fields that the conversion reads. Attributes of
 * nodes and values of tensors are large, so they are decoded only for the nodes that are needed.
 */
import type { Field, Table } from '../../../wire/table.ts';

const many = (name: string, type: Field['type']): Field => ({ name, type, repeated: true });
const one = (name: string, type: Field['type']): Field => ({ name, type });
/** A protobuf map from text to `value`. */
const map = (name: string, value: Field['type']): Field => {
  const entry: Table = { 1: one('key', 'string'), 2: one('value', value) };
  return { name, map: true, type: () => entry };
};

/** DataType names by number. Reference types are these plus 100. */
export const DATA_TYPES: Readonly<Record<number, string>> = {
  1: 'float',
  2: 'double',
  3: 'int32',
  4: 'uint8',
  5: 'int16',
  6: 'int8',
  7: 'string',
  8: 'complex64',
  9: 'int64',
  10: 'bool',
  11: 'qint8',
  12: 'quint8',
  13: 'qint32',
  14: 'bfloat16',
  15: 'qint16',
  16: 'quint16',
  17: 'uint16',
  18: 'complex128',
  19: 'half',
  20: 'resource',
  21: 'variant',
  22: 'uint32',
  23: 'uint64',
  24: 'float8_e5m2',
  25: 'float8_e4m3fn',
  29: 'int4',
  30: 'uint4',
};

const TYPE_NAMES: Readonly<Record<string, number>> = Object.fromEntries(
  Object.entries(DATA_TYPES).flatMap(([number, name]) => [
    [`DT_${name.toUpperCase()}`, Number(number)],
    [`DT_${name.toUpperCase()}_REF`, Number(number) + 100],
  ]),
);

const type = (name: string): Field => ({ name, type: 'enum', enumNames: TYPE_NAMES });

const DIM: Table = { 1: one('size', 'int64') };

const SHAPE: Table = { 2: many('dim', () => DIM), 3: one('unknown_rank', 'bool') };

const TENSOR: Table = {
  1: type('dtype'),
  2: one('tensor_shape', () => SHAPE),
  4: one('tensor_content', 'bytes'),
  5: many('float_val', 'float'),
  6: many('double_val', 'double'),
  7: many('int_val', 'int32'),
  8: many('string_val', 'bytes'),
  10: many('int64_val', 'int64'),
  11: many('bool_val', 'bool'),
  13: many('half_val', 'int32'),
  16: many('uint32_val', 'uint32'),
  17: many('uint64_val', 'uint64'),
};

const NAME_ATTR_LIST: Table = { 1: one('name', 'string'), 2: map('attr', () => ATTR_VALUE) };

const LIST_VALUE: Table = {
  2: many('s', 'bytes'),
  3: many('i', 'int64'),
  4: many('f', 'float'),
  5: many('b', 'bool'),
  6: { ...type('type'), repeated: true },
  7: many('shape', () => SHAPE),
  8: many('tensor', () => TENSOR),
  9: many('func', () => NAME_ATTR_LIST),
};

const ATTR_VALUE: Table = {
  1: one('list', () => LIST_VALUE),
  2: one('s', 'bytes'),
  3: one('i', 'int64'),
  4: one('f', 'float'),
  5: one('b', 'bool'),
  6: type('type'),
  7: one('shape', () => SHAPE),
  8: one('tensor', () => TENSOR),
  9: one('placeholder', 'string'),
  10: one('func', () => NAME_ATTR_LIST),
};

const NODE: Table = {
  1: one('name', 'string'),
  2: one('op', 'string'),
  3: many('input', 'string'),
  5: map('attr', () => ATTR_VALUE),
};

const ARGUMENT: Table = {
  1: one('name', 'string'),
  3: type('type'),
  4: one('type_attr', 'string'),
  5: one('number_attr', 'string'),
  6: one('type_list_attr', 'string'),
};

const OP: Table = {
  1: one('name', 'string'),
  2: many('input_arg', () => ARGUMENT),
  3: many('output_arg', () => ARGUMENT),
};

const FUNCTION: Table = {
  1: one('signature', () => OP),
  3: many('node_def', () => NODE),
  4: map('ret', 'string'),
  6: map('control_ret', 'string'),
};

const LIBRARY: Table = { 1: many('function', () => FUNCTION) };
const VERSIONS: Table = { 1: one('producer', 'int32') };

export const GRAPH: Table = {
  1: many('node', () => NODE),
  2: one('library', () => LIBRARY),
  4: one('versions', () => VERSIONS),
};

const OP_LIST: Table = { 1: many('op', () => OP) };
const META_INFO: Table = { 2: one('stripped_op_list', () => OP_LIST), 4: many('tags', 'string') };
const SAVER: Table = { 3: one('restore_op_name', 'string') };
const SPARSE: Table = { 1: one('values_tensor_name', 'string') };
const COMPOSITE: Table = {};

const TENSOR_INFO: Table = {
  1: one('name', 'string'),
  2: type('dtype'),
  3: one('tensor_shape', () => SHAPE),
  4: one('coo_sparse', () => SPARSE),
  5: one('composite_tensor', () => COMPOSITE),
};

const SIGNATURE: Table = {
  1: map('inputs', () => TENSOR_INFO),
  2: map('outputs', () => TENSOR_INFO),
  3: one('method_name', 'string'),
};

/** A file in the folder `assets`, and the tensor that holds its path. */
const ASSET_FILE: Table = { 1: one('tensor_info', () => TENSOR_INFO), 2: one('filename', 'string') };

export const META_GRAPH: Table = {
  1: one('meta_info_def', () => META_INFO),
  2: one('graph_def', () => GRAPH),
  3: one('saver_def', () => SAVER),
  5: map('signature_def', () => SIGNATURE),
  6: many('asset_file_def', () => ASSET_FILE),
};

export const SAVED_MODEL: Table = {
  1: one('saved_model_schema_version', 'int64'),
  2: many('meta_graphs', () => META_GRAPH),
};

/** The messages of a variables file. */
export const BUNDLE_HEADER: Table = {
  1: one('num_shards', 'int32'),
  2: { name: 'endianness', type: 'enum', enumNames: { LITTLE: 0, BIG: 1 } },
};

const EXTENT: Table = { 1: one('start', 'int64'), 2: one('length', 'int64') };
const SLICE: Table = { 1: many('extent', () => EXTENT) };

export const BUNDLE_ENTRY: Table = {
  1: type('dtype'),
  2: one('shape', () => SHAPE),
  3: one('shard_id', 'int32'),
  4: one('offset', 'int64'),
  5: one('size', 'int64'),
  6: one('crc32c', 'fixed32'),
  7: many('slices', () => SLICE),
};

const SERIALIZED_TENSOR: Table = {
  1: one('name', 'string'),
  2: one('full_name', 'string'),
  3: one('checkpoint_key', 'string'),
};
const TRACKABLE: Table = { 2: many('attributes', () => SERIALIZED_TENSOR) };

/** The content of `_CHECKPOINTABLE_OBJECT_GRAPH`. */
export const OBJECT_GRAPH: Table = { 1: many('nodes', () => TRACKABLE) };
