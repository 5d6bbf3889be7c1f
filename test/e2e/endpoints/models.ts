/** Thirty small models whose inputs and outputs are as different as a file allows: dtypes, ranks, names, and rows or none. */
import type { DType } from '../../../lib/contract/tensor.ts';
import type { NodeSpec, ValueSpec, WeightSpec } from '../../support/onnx.ts';
import { onnxModel } from '../../support/onnx.ts';

type Dims = readonly (number | string)[];
type Port = readonly [name: string, dtype: DType, ...shape: (number | string)[]];

export interface EndpointModel {
  readonly title: string;
  readonly inputs: readonly ValueSpec[];
  readonly bytes: Uint8Array;
  /** Lines of its config.yaml. */
  readonly config?: string;
  /** What the elements of an input may be, where the model does not take all. */
  readonly below?: number;
}

const specOf = ([name, dtype, ...shape]: Port): ValueSpec => ({ name, dtype, shape });

interface Made extends Pick<EndpointModel, 'config' | 'below'> {
  readonly inputs: readonly Port[];
  readonly outputs: readonly Port[];
  readonly nodes: readonly NodeSpec[];
  readonly weights?: readonly WeightSpec[];
  readonly opset?: number;
}

function made(
  title: string,
  { inputs, outputs, nodes, weights = [], opset = 17, ...rest }: Made,
): EndpointModel {
  const specs = inputs.map(specOf);
  const bytes = onnxModel({ inputs: specs, outputs: outputs.map(specOf), nodes, weights, opset });
  return { title, inputs: specs, bytes, ...rest };
}

/** Each input as it came, under the name of its output. */
function same(
  title: string,
  ports: readonly Port[],
  rename = (name: string) => `${name}_out`,
): EndpointModel {
  return made(title, {
    inputs: ports,
    outputs: ports.map(([name, ...rest]): Port => [rename(name), ...rest]),
    nodes: ports.map(([name]) => ({ op: 'Identity', inputs: [name], outputs: [rename(name)] })),
  });
}

const one = (op: string, inputs: readonly string[], output: string, attributes = {}): NodeSpec => ({
  op,
  inputs,
  outputs: [output],
  attributes,
});

const NUMBERS: readonly DType[] = [
  'float64',
  'float16',
  'int8',
  'int16',
  'int32',
  'int64',
  'uint8',
  'uint16',
  'uint32',
  'uint64',
  'bool',
];
const ROW: Dims = ['N', 2];

const mixed = (dims: Dims): Port[] => [
  ['x', 'float32', ...dims],
  ['count', 'int64', ...dims],
  ['word', 'string', ...dims],
];

export const ENDPOINT_MODELS: readonly EndpointModel[] = [
  ...NUMBERS.map((dtype) => same(dtype, [['x', dtype, ...ROW]])),
  same('a number for each row', [['x', 'float32', 'N']]),
  same('a column of numbers', [['x', 'float32', 'N', 1]]),
  same('texts of each row', [['words', 'string', 'N', 3]]),
  same('a text for each row', [['word', 'string', 'N']]),
  same('a table of three columns', mixed(['N', 1])),
  same('three inputs without columns', mixed(['N'])),
  same('matrices of a free size', [['x', 'float32', 'N', 2, 'K']]),
  same('a fixed row', [['x', 'float32', 1, 3]]),
  same('fixed rows', [['x', 'float32', 4, 2]], () => 'four'),
  same('names that JSON and forms use', [
    ['instances', 'float32', 'N'],
    ['uri', 'float32', 'N'],
    ['data', 'float32', 'N'],
    ['shape', 'float32', 'N'],
  ]),
  same('names that differ in little', [
    ['Fare', 'float32', 'N'],
    ['fare_usd', 'float32', 'N'],
    ['Fare class', 'int32', 'N'],
  ]),
  same('names with signs', [
    ['serving_default_x:0', 'float32', 'N', 2],
    ['a.b/c [0], "d"', 'float32', 'N', 1],
    ['größe', 'int64', 'N'],
  ]),
  same('names that are numbers', [
    ['1', 'float32', 'N'],
    ['0', 'float32', 'N'],
    ['__proto__', 'float32', 'N'],
  ]),
  same('texts whose output says bytes', [['image_bytes', 'string', 'N', 1]], () => 'text_bytes'),
  made('a scalar beside rows', {
    inputs: [
      ['x', 'float32', 'N', 2],
      ['scale', 'float32'],
    ],
    outputs: [['y', 'float32', 'N', 2]],
    nodes: [one('Mul', ['x', 'scale'], 'y')],
  }),
  made('an output without rows', {
    inputs: [['x', 'float32', 'N', 2]],
    outputs: [
      ['row', 'float32', 'N', 2],
      ['total', 'float32'],
    ],
    nodes: [one('Neg', ['x'], 'row'), one('ReduceSum', ['x'], 'total', { keepdims: 0 })],
  }),
  made('as many finds as there are', {
    inputs: [['x', 'float32', 'N', 3]],
    outputs: [['places', 'int64', 2, 'M']],
    nodes: [one('NonZero', ['x'], 'places')],
  }),
  made('a class and its scores', {
    inputs: [['x', 'float32', 'N', 3]],
    outputs: [
      ['label', 'int64', 'N'],
      ['scores', 'float32', 'N', 3],
    ],
    nodes: [
      one('ArgMax', ['x'], 'label', { axis: 1, keepdims: 0 }),
      one('Softmax', ['x'], 'scores', { axis: 1 }),
    ],
  }),
  made('numbers that divide by nothing', {
    inputs: [['x', 'float32', 'N', 2]],
    outputs: [['y', 'float32', 'N', 2]],
    nodes: [one('Reciprocal', ['x'], 'y')],
  }),
  made('a place in a table', {
    inputs: [['id', 'int64', 'N', 2]],
    outputs: [['vector', 'float32', 'N', 2, 2]],
    nodes: [one('Gather', ['table', 'id'], 'vector')],
    weights: [
      { name: 'table', dtype: 'float32', shape: [4, 2], data: Float32Array.of(0, 1, 2, 3, 4, 5, 6, 7) },
    ],
    below: 4,
  }),
];
