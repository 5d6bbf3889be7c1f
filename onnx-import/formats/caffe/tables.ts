/**
 * Field tables of a net's text (topology) and its binary file (weights only). There are two generations, `layer` (the
 * type is a text) and `layers` (the type is an enum, weights in another field). A file uses one of them, but weights
 * of one generation also fit text of the other.
 */
import type { Table } from '../../wire/table.ts';
import { type EnumNames, type Types, table } from './fields.ts';
import { parameterFields } from './parameters.ts';

/** The types of the old generation, by their new names. */
const V1_TYPES: Readonly<Record<string, readonly [number, string]>> = {
  NONE: [0, 'None'],
  ACCURACY: [1, 'Accuracy'],
  BNLL: [2, 'BNLL'],
  CONCAT: [3, 'Concat'],
  CONVOLUTION: [4, 'Convolution'],
  DATA: [5, 'Data'],
  DROPOUT: [6, 'Dropout'],
  EUCLIDEAN_LOSS: [7, 'EuclideanLoss'],
  FLATTEN: [8, 'Flatten'],
  HDF5_DATA: [9, 'HDF5Data'],
  HDF5_OUTPUT: [10, 'HDF5Output'],
  IM2COL: [11, 'Im2col'],
  IMAGE_DATA: [12, 'ImageData'],
  INFOGAIN_LOSS: [13, 'InfogainLoss'],
  INNER_PRODUCT: [14, 'InnerProduct'],
  LRN: [15, 'LRN'],
  MULTINOMIAL_LOGISTIC_LOSS: [16, 'MultinomialLogisticLoss'],
  POOLING: [17, 'Pooling'],
  RELU: [18, 'ReLU'],
  SIGMOID: [19, 'Sigmoid'],
  SOFTMAX: [20, 'Softmax'],
  SOFTMAX_LOSS: [21, 'SoftmaxWithLoss'],
  SPLIT: [22, 'Split'],
  TANH: [23, 'TanH'],
  WINDOW_DATA: [24, 'WindowData'],
  ELTWISE: [25, 'Eltwise'],
  POWER: [26, 'Power'],
  SIGMOID_CROSS_ENTROPY_LOSS: [27, 'SigmoidCrossEntropyLoss'],
  HINGE_LOSS: [28, 'HingeLoss'],
  MEMORY_DATA: [29, 'MemoryData'],
  ARGMAX: [30, 'ArgMax'],
  THRESHOLD: [31, 'Threshold'],
  DUMMY_DATA: [32, 'DummyData'],
  SLICE: [33, 'Slice'],
  MVN: [34, 'MVN'],
  ABSVAL: [35, 'AbsVal'],
  SILENCE: [36, 'Silence'],
  CONTRASTIVE_LOSS: [37, 'ContrastiveLoss'],
  EXP: [38, 'Exp'],
  DECONVOLUTION: [39, 'Deconvolution'],
};

const V1_ENUM: EnumNames = Object.fromEntries(
  Object.entries(V1_TYPES).map(([name, [number]]) => [name, number]),
);
const V1_NAMES = new Map(Object.values(V1_TYPES));

/** The new name of an old type, or undefined. */
export function v1TypeName(number: number): string | undefined {
  return V1_NAMES.get(number);
}

const Phase: EnumNames = { TRAIN: 0, TEST: 1 };
const STATE = table('Phase phase=1, int32 level=2, string* stage=3', { Phase });
const RULE = table(
  'Phase phase=1, int32 min_level=2, int32 max_level=3, string* stage=4, string* not_stage=5',
  {
    Phase,
  },
);
const PARAM_SPEC = table('string name=1');
const SHAPE = table('int64* dim=1');

const PARAMETERS = parameterFields(20_000);
const SHARED: Types = { ...PARAMETERS.types, Phase, Rule: () => RULE };

const LAYER = table(
  `string name=1, string type=2, string* bottom=3, string* top=4, Spec* param=6, Rule* include=8, Rule* exclude=9, Phase phase=10, ${PARAMETERS.line}`,
  { ...SHARED, Spec: () => PARAM_SPEC },
);

const V0_LAYER = table('string name=1, string type=2');

const V1_LAYER = table(
  `V0 layer=1, string* bottom=2, string* top=3, string name=4, Type type=5, Rule* include=32, Rule* exclude=33, string* param=1001, ${PARAMETERS.line}`,
  { ...SHARED, Type: V1_ENUM, V0: () => V0_LAYER },
);

/** A net's text. */
export const NET_TEXT: Table = table(
  'string name=1, V1* layers=2, string* input=3, int32* input_dim=4, State state=6, Shape* input_shape=8, Layer* layer=100',
  { V1: () => V1_LAYER, State: () => STATE, Shape: () => SHAPE, Layer: () => LAYER },
);

const BLOB = table(
  'int32 num=1, int32 channels=2, int32 height=3, int32 width=4, float* data=5, Shape shape=7, double* double_data=8, ' +
    'Type raw_data_type=10, bytes raw_data=12',
  { Shape: () => SHAPE, Type: { DOUBLE: 0, FLOAT: 1, FLOAT16: 2, INT: 3, UINT: 4 } },
);
const Blob = () => BLOB;
const LAYER_WEIGHTS = table('string name=1, Blob* blobs=7', { Blob });
const V0_WEIGHTS = table('string name=1, Blob* blobs=50', { Blob });
const V1_WEIGHTS = table('V0 layer=1, string name=4, Blob* blobs=6', { Blob, V0: () => V0_WEIGHTS });

/** The binary file of a net: names and weights. Topology fields are skipped. */
export const NET_WEIGHTS: Table = table('V1* layers=2, Layer* layer=100', {
  V1: () => V1_WEIGHTS,
  Layer: () => LAYER_WEIGHTS,
});
