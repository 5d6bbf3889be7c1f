/** The fields of ONNX's messages that the converters read, as onnx.proto numbers them. */
import type { Table } from '../wire/table.ts';

/** Shapes and axes are short; longer lists of integers are trees. */
const LIST_BYTES = 8_192;

const text = (name: string) => ({ name, type: 'string' as const });
const ENTRY: Table = { 1: text('key'), 2: text('value') };
const TENSOR: Table = {
  1: { name: 'dims', type: 'int64', repeated: true },
  2: { name: 'type', type: 'int32' },
  4: { name: 'floats', type: 'float', repeated: true },
  5: { name: 'ints', type: 'int32', repeated: true },
  6: { name: 'texts', type: 'bytes', repeated: true },
  7: { name: 'longs', type: 'int64', repeated: true },
  8: text('name'),
  9: { name: 'raw', type: 'bytes' },
  10: { name: 'doubles', type: 'double', repeated: true },
  11: { name: 'unsigned', type: 'uint64', repeated: true },
  13: { name: 'external', type: () => ENTRY, repeated: true },
  14: { name: 'location', type: 'enum' },
};
const SPARSE: Table = {
  1: { name: 'values', type: () => TENSOR },
  2: { name: 'indices', type: () => TENSOR },
  3: { name: 'dims', type: 'int64', repeated: true },
};
export const ATTRIBUTE: Table = {
  1: text('name'),
  2: { name: 'float', type: 'float' },
  3: { name: 'int', type: 'int64' },
  4: { name: 'text', type: 'bytes' },
  5: { name: 'tensor', type: () => TENSOR },
  6: { name: 'graph', type: () => GRAPH },
  7: { name: 'floats', type: 'float', repeated: true },
  8: { name: 'ints', type: 'int64', repeated: true, most: LIST_BYTES },
  9: { name: 'texts', type: 'bytes', repeated: true },
  10: { name: 'tensors', type: () => TENSOR, repeated: true },
  11: { name: 'graphs', type: () => GRAPH, repeated: true },
  21: text('reference'),
  22: { name: 'sparse', type: () => SPARSE },
  23: { name: 'sparses', type: () => SPARSE, repeated: true },
};
/** A node without its attributes. */
export const PLAIN_NODE: Table = {
  1: { name: 'inputs', type: 'string', repeated: true },
  2: { name: 'outputs', type: 'string', repeated: true },
  3: text('name'),
  4: text('operator'),
  7: text('domain'),
  8: text('overload'),
};
const NODE: Table = {
  ...PLAIN_NODE,
  5: { name: 'attributes', type: () => ATTRIBUTE, repeated: true, most: LIST_BYTES },
};
const DIMENSION: Table = { 1: { name: 'value', type: 'int64' }, 2: text('name') };
const SHAPE: Table = { 1: { name: 'dims', type: () => DIMENSION, repeated: true } };
const TENSOR_TYPE: Table = { 1: { name: 'type', type: 'int32' }, 2: { name: 'shape', type: () => SHAPE } };
const TYPE: Table = { 1: { name: 'tensor', type: () => TENSOR_TYPE } };
const VALUE: Table = { 1: text('name'), 2: { name: 'type', type: () => TYPE } };
const GRAPH: Table = {
  1: { name: 'nodes', type: () => NODE, repeated: true },
  5: { name: 'tensors', type: () => TENSOR, repeated: true },
  11: { name: 'inputs', type: () => VALUE, repeated: true },
  12: { name: 'outputs', type: () => VALUE, repeated: true },
  15: { name: 'sparses', type: () => SPARSE, repeated: true },
};
const OPSET: Table = { 1: text('domain'), 2: { name: 'version', type: 'int64' } };
const FUNCTION: Table = {
  1: text('name'),
  4: { name: 'inputs', type: 'string', repeated: true },
  5: { name: 'outputs', type: 'string', repeated: true },
  7: { name: 'nodes', type: () => NODE, repeated: true },
  9: { name: 'opsets', type: () => OPSET, repeated: true },
  10: text('domain'),
  11: { name: 'defaults', type: () => ATTRIBUTE, repeated: true },
  13: text('overload'),
};
export const MODEL: Table = {
  1: { name: 'irVersion', type: 'int64' },
  7: { name: 'graph', type: () => GRAPH },
  8: { name: 'opsets', type: () => OPSET, repeated: true },
  14: { name: 'metadata', type: () => ENTRY, repeated: true },
  25: { name: 'functions', type: () => FUNCTION, repeated: true },
};
