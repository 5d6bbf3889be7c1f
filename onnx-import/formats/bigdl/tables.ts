/** Field tables of BigDL's one protobuf schema, which old files (weight, bias) and new ones (parameters) share. */
import type { Field, ScalarType, Table } from '../../wire/table.ts';

function scalar(name: string, type: ScalarType): Field {
  return { name, type };
}

function list(name: string, type: ScalarType | (() => Table)): Field {
  return { name, type, repeated: true };
}

const STORAGE: Table = {
  1: scalar('datatype', 'enum'),
  2: list('float_data', 'float'),
  3: list('double_data', 'double'),
  4: list('bool_data', 'bool'),
  6: list('int_data', 'int32'),
  7: list('long_data', 'int64'),
  9: scalar('id', 'int32'),
};

const TENSOR: Table = {
  1: scalar('datatype', 'enum'),
  2: list('size', 'int32'),
  3: list('stride', 'int32'),
  4: scalar('offset', 'int32'),
  7: scalar('isScalar', 'bool'),
  8: { name: 'storage', type: () => STORAGE },
  9: scalar('id', 'int32'),
  10: scalar('tensorType', 'enum'),
};

const SHAPE: Table = {
  1: scalar('shapeType', 'enum'),
  3: list('shapeValue', 'int32'),
  4: list('shape', () => SHAPE),
};

const ARRAY: Table = {
  1: scalar('size', 'int32'),
  3: list('i32', 'int32'),
  4: list('i64', 'int64'),
  5: list('flt', 'float'),
  6: list('dbl', 'double'),
  7: list('str', 'string'),
  8: list('boolean', 'bool'),
  10: list('tensor', () => TENSOR),
  13: list('module', () => MODULE),
};

const ENTRY: Table = { 1: scalar('key', 'string'), 2: { name: 'value', type: () => ATTRIBUTE } };

const NAMED: Table = {
  1: scalar('name', 'string'),
  2: { name: 'attr', type: () => ENTRY, map: true },
};

const ATTRIBUTE: Table = {
  1: scalar('dataType', 'enum'),
  3: scalar('int32', 'int32'),
  4: scalar('int64', 'int64'),
  5: scalar('float', 'float'),
  6: scalar('double', 'double'),
  7: scalar('string', 'string'),
  8: scalar('bool', 'bool'),
  10: { name: 'tensor', type: () => TENSOR },
  13: { name: 'module', type: () => MODULE },
  14: { name: 'named', type: () => NAMED },
  15: { name: 'array', type: () => ARRAY },
  16: scalar('format', 'enum'),
  18: { name: 'shape', type: () => SHAPE },
};

export const MODULE: Table = {
  1: scalar('name', 'string'),
  2: list('subModules', () => MODULE),
  3: { name: 'weight', type: () => TENSOR },
  4: { name: 'bias', type: () => TENSOR },
  5: list('preModules', 'string'),
  7: scalar('moduleType', 'string'),
  8: { name: 'attr', type: () => ENTRY, map: true },
  9: scalar('version', 'string'),
  10: scalar('train', 'bool'),
  11: scalar('namePostfix', 'string'),
  13: { name: 'inputShape', type: () => SHAPE },
  15: scalar('hasParameters', 'bool'),
  16: list('parameters', () => TENSOR),
};
