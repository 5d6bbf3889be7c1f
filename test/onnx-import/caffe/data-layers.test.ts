/** Which input a data layer becomes, and the types of the old generation by their numbers. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { v1TypeName } from '../../../onnx-import/formats/caffe/tables.ts';
import { convertNet } from '../support/caffe/net.ts';

type Row = readonly [type: string, parameters: string, shape: readonly (number | string)[] | undefined];

const MEANS = 'mean_value: 1 mean_value: 2 mean_value: 3';
const LAYERS: readonly Row[] = [
  ['Data', `transform_param { crop_size: 5 ${MEANS} } data_param { batch_size: 8 }`, ['N', 3, 5, 5]],
  ['Data', 'transform_param { crop_size: 5 force_color: true } data_param { batch_size: 8 }', ['N', 3, 5, 5]],
  [
    'Data',
    `transform_param { crop_size: 5 force_gray: true ${MEANS} } data_param { batch_size: 8 }`,
    ['N', 1, 5, 5],
  ],
  // The file of images says how many channels they have.
  ['Data', 'transform_param { crop_size: 5 mean_value: 1 } data_param { batch_size: 8 }', undefined],
  ['Data', 'transform_param { force_color: true } data_param { batch_size: 8 }', undefined],
  ['ImageData', 'image_data_param { batch_size: 8 new_height: 5 new_width: 6 }', ['N', 3, 5, 6]],
  [
    'ImageData',
    'image_data_param { batch_size: 8 new_height: 5 new_width: 6 is_color: false }',
    ['N', 1, 5, 6],
  ],
  [
    'ImageData',
    'transform_param { crop_size: 4 } image_data_param { new_height: 5 new_width: 6 is_color: true }',
    ['N', 3, 4, 4],
  ],
  ['ImageData', 'image_data_param { batch_size: 8 new_height: 5 }', undefined],
  ['WindowData', 'window_data_param { batch_size: 8 crop_size: 4 }', ['N', 3, 4, 4]],
  [
    'WindowData',
    'transform_param { crop_size: 7 } window_data_param { batch_size: 8 crop_size: 4 }',
    ['N', 3, 7, 7],
  ],
  ['MemoryData', 'memory_data_param { batch_size: 8 channels: 2 height: 3 width: 4 }', ['N', 2, 3, 4]],
  ['DummyData', 'dummy_data_param { shape { dim: 8 dim: 2 dim: 3 } }', ['N', 2, 3]],
  ['DummyData', 'dummy_data_param { num: 8 channels: 2 height: 3 width: 4 }', ['N', 2, 3, 4]],
  ['Input', 'input_param { shape { dim: 8 dim: 2 } }', ['N', 2]],
  ['HDF5Data', 'hdf5_data_param { batch_size: 8 }', undefined],
];

for (const [type, parameters, shape] of LAYERS)
  test(`${type} with ${parameters} is an input ${shape ? `of ${shape.join()}` : 'whose shape is asked for'}`, async () => {
    const net = `layer { name: "d" type: "${type}" top: "data" ${parameters} }
      layer { name: "relu" type: "ReLU" bottom: "data" top: "out" }`;
    if (!shape) return assert.rejects(convertNet(net), { code: 'bad_model', message: /--input/ });
    const { graph } = await convertNet(net);
    assert.deepEqual(
      graph.inputs.map((input) => [input.name, input.shape]),
      [['data', shape]],
    );
  });

test('types of the old generation have the numbers of caffe.proto', () => {
  const names =
    'None Accuracy BNLL Concat Convolution Data Dropout EuclideanLoss Flatten HDF5Data HDF5Output Im2col ImageData InfogainLoss InnerProduct LRN MultinomialLogisticLoss Pooling ReLU Sigmoid Softmax SoftmaxWithLoss Split TanH WindowData Eltwise Power SigmoidCrossEntropyLoss HingeLoss MemoryData ArgMax Threshold DummyData Slice MVN AbsVal Silence ContrastiveLoss Exp Deconvolution'.split(
      ' ',
    );
  assert.deepEqual(
    names.map((_, number) => v1TypeName(number)),
    names,
  );
  assert.equal(v1TypeName(names.length), undefined);
});
