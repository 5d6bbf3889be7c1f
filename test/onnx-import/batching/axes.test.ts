/** The axis conditions of each rule, on graphs of one node: where the rows of y are, or why they are not followed. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { NodeSpec } from '../../support/onnx.ts';
import { ML, node, prove, type Sample } from './prove-sample.ts';

type Shape = readonly (number | string)[];
type Case = readonly [
  expected: number | RegExp,
  node: NodeSpec | readonly NodeSpec[],
  /** 'N' is the axis of the rows. */
  inputs: Readonly<Record<string, Shape>>,
  more?: Partial<Sample>,
];

const FIRST = { x: ['N', 2, 4] };
const SECOND = { x: [2, 'N', 4] };
const LAST = { x: [2, 4, 'N'] };
const TABLE = { x: ['N', 4] };
const TURNED = { x: [4, 'N'] };
const CUTS = { zero: [0], one: [1], two: [2], back: [-1], end: [2 ** 31 - 1], front: [-100] };
const CONTRIB = 'com.microsoft';
/** Of the recurrent operators; other cases have theirs. */
const WEIGHTS = { w: [1, 2, 2], r: [1, 2, 2] };

const CASES: Readonly<Record<string, readonly Case[]>> = {
  Concat: [
    [
      /joins tensors along the batch axis/,
      node('Concat', 'x z', 'y', { axis: 0 }),
      { ...TABLE, z: ['N', 4] },
    ],
    [
      /joins tensors along the batch axis/,
      node('Concat', 'x z', 'y', { axis: -2 }),
      { ...TABLE, z: ['N', 4] },
    ],
    [0, node('Concat', 'x z', 'y', { axis: -1 }), { ...TABLE, z: ['N', 4] }],
    [/rows on different axes/, node('Concat', 'x z', 'y', { axis: 2 }), { ...FIRST, z: [2, 'N', 4] }],
    [
      /a constant that differs/,
      node('Concat', 'x c', 'y', { axis: 1 }),
      { x: [3, 4] },
      { floats: { c: [3, 4] } },
    ],
    [
      0,
      [node('ConstantOfShape', 's', 'c'), node('Concat', 'x c', 'y', { axis: 1 })],
      { x: [3, 4] },
      { ints: { s: [3, 4] } },
    ],
    [
      /a constant that differs/,
      [node('ConstantOfShape', 's', 'c'), node('Concat', 'x c', 'y', { axis: 1 })],
      TABLE,
      { ints: { s: [3, 4] } },
    ],
  ],
  Split: [
    [/splits the batch axis/, node('Split', 'x', 'y z', { axis: 1 }), SECOND],
    [1, node('Split', 'x', 'y z'), SECOND],
    [1, node('Split', 'x', 'y z', { axis: -1 }), SECOND],
  ],
  Slice: [
    [0, node('Slice', 'x zero end zero one', 'y'), TABLE, { ints: CUTS }],
    [0, node('Slice', 'x one two one one', 'y'), TABLE, { ints: CUTS }],
    ...['one end zero one', 'zero end zero two', 'zero one zero one', 'back front zero back', 'one end'].map(
      (how): Case => [/cuts the batch axis/, node('Slice', `x ${how}`, 'y'), TABLE, { ints: CUTS }],
    ),
    [
      /cuts the batch axis/,
      node('Slice', 'x', 'y', { axes: [0], starts: [1], ends: [2 ** 31 - 1] }),
      TABLE,
      { opset: 9 },
    ],
  ],
  Pad: [
    [/pads the batch axis/, node('Pad', 'x p', 'y'), TABLE, { ints: { p: [1, 0, 0, 0] } }],
    [/pads the batch axis/, node('Pad', 'x p', 'y'), TABLE, { ints: { p: [0, 0, 1, 0] } }],
    [/pads the batch axis/, node('Pad', 'x p - a', 'y'), SECOND, { opset: 18, ints: { p: [1, 1], a: [-2] } }],
    [1, node('Pad', 'x p - a', 'y'), SECOND, { opset: 18, ints: { p: [1, 1], a: [-1] } }],
    [0, node('Pad', 'x p', 'y'), TABLE, { ints: { p: [0, 1, 0, -1] } }],
    // The length that both pads make is known.
    ...[
      [1, 2, 7],
      [0, 2, 6],
      [3, -1, 6],
    ].map(
      ([before = 0, after = 0, length = 0]): Case => [
        0,
        [node('Pad', 'x p', 'z'), node('Reshape', 'z s', 'y')],
        TABLE,
        { ints: { p: [0, before, 0, after], s: [-1, length] } },
      ],
    ),
    [
      /third input differs from row to row/,
      node('Pad', 'x p z', 'y'),
      { ...TABLE, z: ['N'] },
      { ints: { p: [0, 1, 0, 1] } },
    ],
    [/pads the batch axis/, node('Pad', 'x', 'y', { pads: [0, 0, 1, 0] }), TABLE, { opset: 10 }],
  ],
  'Reduce…': [
    [/reduces along the batch axis/, node('ReduceSum', 'x a', 'y'), SECOND, { ints: { a: [0, 1] } }],
    [/reduces along the batch axis/, node('ReduceMean', 'x', 'y', { axes: [-2] }), SECOND],
    [/reduces along the batch axis/, node('ReduceMax', 'x', 'y'), TABLE],
    [/reduces along the batch axis/, node('ReduceSum', 'x a', 'y'), TABLE, { ints: { a: [] } }],
    [0, node('ReduceSum', 'x', 'y', { noop_with_empty_axes: 1 }), TABLE],
    [0, node('ReduceSum', 'x a', 'y', { keepdims: 0 }), SECOND, { ints: { a: [0, 2] } }],
    [1, node('ReduceSum', 'x a', 'y'), SECOND, { ints: { a: [0, 2] } }],
    [1, node('ReduceProd', 'x', 'y', { axes: [2], keepdims: 0 }), SECOND],
  ],
  ArgMax: [
    [/searches along the batch axis/, node('ArgMax', 'x', 'y'), TABLE],
    [/searches along the batch axis/, node('ArgMin', 'x', 'y', { axis: -2 }), SECOND],
    [0, node('ArgMax', 'x', 'y', { keepdims: 0 }), SECOND],
    [1, node('ArgMax', 'x', 'y', { axis: 2, keepdims: 0 }), SECOND],
  ],
  Softmax: [
    [/normalizes along the batch axis/, node('Softmax', 'x', 'y'), LAST],
    [/normalizes along the batch axis/, node('LogSoftmax', 'x', 'y', { axis: 1 }), SECOND],
    [1, node('Softmax', 'x', 'y', { axis: 0 }), SECOND],
    [/normalizes along the batch axis/, node('Softmax', 'x', 'y', { axis: 0 }), SECOND, { opset: 12 }],
    [/normalizes along the batch axis/, node('Hardmax', 'x', 'y'), SECOND, { opset: 12 }],
    [1, node('Softmax', 'x', 'y', { axis: 2 }), SECOND, { opset: 12 }],
  ],
  CumSum: [
    [/adds up along the batch axis/, node('CumSum', 'x a', 'y'), SECOND, { ints: { a: [-2] } }],
    [1, node('CumSum', 'x a', 'y'), SECOND, { ints: { a: [0] } }],
    [/it has no axis/, node('CumSum', 'x', 'y'), SECOND],
  ],
  TopK: [
    [/sorts along the batch axis/, node('TopK', 'x k', 'y i', { axis: 0 }), TABLE, { ints: { k: [1] } }],
    [/sorts along the batch axis/, node('TopK', 'x k', 'y i'), TURNED, { ints: { k: [1] } }],
    [0, node('TopK', 'x k', 'i y'), TABLE, { ints: { k: [1] } }],
  ],
  LpNormalization: [
    [/normalizes along the batch axis/, node('LpNormalization', 'x', 'y'), TURNED],
    [0, node('LpNormalization', 'x', 'y'), TABLE],
  ],
  MeanVarianceNormalization: [
    [
      /normalizes along the batch axis/,
      node('MeanVarianceNormalization', 'x', 'y', { axes: [-2, 2] }),
      SECOND,
    ],
    [1, node('MeanVarianceNormalization', 'x', 'y', { axes: [0, 2] }), SECOND],
  ],
  LayerNormalization: [
    [
      /normalizes along the batch axis/,
      node('LayerNormalization', 'x w', 'y', { axis: 0 }),
      SECOND,
      { floats: { w: [1] } },
    ],
    [1, node('LayerNormalization', 'x w', 'y'), SECOND, { floats: { w: [4] } }],
    [
      /a constant that differs/,
      node('LayerNormalization', 'x w', 'y'),
      { x: [3, 4] },
      { floats: { w: [3, 1] } },
    ],
    [
      /normalizes along the batch axis/,
      node('SimplifiedLayerNormalization', 'x w', 'y', { axis: 0 }),
      SECOND,
      { floats: { w: [1] } },
    ],
    [
      /normalizes along the batch axis/,
      node('SkipLayerNormalization', 'x x w', 'y', {}, CONTRIB),
      LAST,
      { floats: { w: [1] } },
    ],
    [1, node('SkipLayerNormalization', 'x x w', 'm n o y', {}, CONTRIB), SECOND, { floats: { w: [4] } }],
  ],
  'normalized images': [
    [
      /batch axis is not its first/,
      node('InstanceNormalization', 'x w w', 'y'),
      SECOND,
      { floats: { w: [2] } },
    ],
    [0, node('InstanceNormalization', 'x w w', 'y'), FIRST, { floats: { w: [2] } }],
    [
      /second input differs from row to row/,
      node('InstanceNormalization', 'x z w', 'y'),
      { ...FIRST, z: ['N'] },
      { floats: { w: [2] } },
    ],
    [
      /training mode/,
      node('BatchNormalization', 'x w w w w', 'y m v', { training_mode: 1 }),
      FIRST,
      { floats: { w: [2] } },
    ],
    [
      /training mode/,
      node('BatchNormalization', 'x w w w w', 'y m v'),
      FIRST,
      { opset: 13, floats: { w: [2] } },
    ],
    [0, node('BatchNormalization', 'x w w w w', 'y'), FIRST, { floats: { w: [2] } }],
    [
      /a scale for each place along the batch axis/,
      node('BatchNormalization', 'x w w w w', 'y'),
      SECOND,
      { floats: { w: [2] } },
    ],
    [
      /fifth input differs from row to row/,
      node('BatchNormalization', 'x w w w z', 'y'),
      { ...FIRST, z: ['N'] },
      { floats: { w: [2] } },
    ],
    [/normalizes along the batch axis/, node('LRN', 'x', 'y', { size: 3 }), SECOND],
    [0, node('LRN', 'x', 'y', { size: 3 }), FIRST],
  ],
  Reshape: [
    [0, node('Reshape', 'x s', 'y'), FIRST, { ints: { s: [0, -1] } }],
    [
      /does not keep the rows apart/,
      node('Reshape', 'x s', 'y', { allowzero: 1 }),
      TABLE,
      { ints: { s: [0, 4] } },
    ],
    [1, node('Reshape', 'x s', 'y'), SECOND, { ints: { s: [2, -1, 2, 2] } }],
    [/does not keep the rows apart/, node('Reshape', 'x s', 'y'), SECOND, { ints: { s: [-1, 2, 4] } }],
    [/several places for each row/, node('Flatten', 'x', 'y', { axis: 2 }), FIRST],
    [0, node('Flatten', 'x', 'y'), FIRST],
    [/several places for each row/, node('Flatten', 'x', 'y'), { x: [1, 'N', 4] }],
  ],
  'moved axes': [
    [2, node('Transpose', 'x', 'y', { perm: [1, 2, 0] }), FIRST],
    [0, node('Transpose', 'x', 'y'), LAST],
    [0, node('Squeeze', 'x a', 'y'), { x: [1, 'N', 1] }, { ints: { a: [0, -1] } }],
    [2, node('Unsqueeze', 'x a', 'y'), SECOND, { ints: { a: [0, -1] } }],
  ],
  Expand: [
    [/changes the size of the batch axis/, node('Expand', 'x s', 'y'), TABLE, { ints: { s: [3, 4] } }],
    [0, node('Expand', 'x s', 'y'), { x: [3, 1] }, { ints: { s: [3, 4] } }],
    [1, node('Expand', 'x s', 'y'), TABLE, { ints: { s: [2, 1, 4] } }],
  ],
  Tile: [
    [/several places for each row/, node('Tile', 'x s', 'y'), TABLE, { ints: { s: [2, 1] } }],
    [0, node('Tile', 'x s', 'y'), TABLE, { ints: { s: [1, 2] } }],
  ],
  MatMul: [
    [/adds up along the batch axis/, node('MatMul', 'x w', 'y'), TURNED, { floats: { w: [4, 2] } }],
    [/adds up along the batch axis/, node('MatMul', 'w x', 'y'), TABLE, { floats: { w: [2, 4] } }],
    [1, node('MatMul', 'w x', 'y'), TURNED, { floats: { w: [2, 4] } }],
    [0, node('MatMul', 'w x', 'y'), TURNED, { floats: { w: [4] } }],
    [1, node('MatMul', 'x w', 'y'), TABLE, { floats: { w: [3, 4, 2] } }],
    [0, node('MatMul', 'x z', 'y'), { ...FIRST, z: ['N', 4, 3] }],
    [/multiplies rows with other rows/, node('MatMul', 'x z', 'y'), { ...TABLE, z: [4, 'N'] }],
    [/multiplies rows with other rows/, node('MatMul', 'x z', 'y'), { ...FIRST, z: [4, 'N'] }],
    [
      /moves the axes/,
      node('FusedMatMul', 'x w', 'y', { transBatchA: 1 }, CONTRIB),
      FIRST,
      { floats: { w: [4, 2] } },
    ],
    [0, node('FusedMatMul', 'x w', 'y', { transB: 1 }, CONTRIB), FIRST, { floats: { w: [3, 4] } }],
    [
      /adds up along the batch axis/,
      node('MatMulNBits', 'x w w', 'y', { K: 4, N: 2 }, CONTRIB),
      TURNED,
      { floats: { w: [1] } },
    ],
  ],
  Gemm: [
    [0, node('Gemm', 'x w', 'y', { transA: 1 }), TURNED, { floats: { w: [4, 2] } }],
    [
      /adds up along the batch axis/,
      node('Gemm', 'x w', 'y', { transA: 1 }),
      TABLE,
      { floats: { w: [4, 2] } },
    ],
    [/adds up along the batch axis/, node('Gemm', 'x w', 'y'), TURNED, { floats: { w: [4, 2] } }],
    [
      /adds up along the batch axis/,
      node('Gemm', 'w x', 'y', { transB: 1 }),
      TURNED,
      { floats: { w: [2, 4] } },
    ],
    [
      /a constant that differs/,
      node('Gemm', 'x w c', 'y'),
      { x: [3, 4] },
      { floats: { w: [4, 2], c: [3, 1] } },
    ],
  ],
  'quantized products': [
    [
      /scale or zero point differs/,
      [node('Constant', '', 'p'), node('MatMulInteger', 'x w p', 'y')],
      TABLE,
      { floats: { w: [4, 2] } },
    ],
    [
      /scale or zero point differs/,
      node('MatMulInteger', 'x w p', 'y'),
      TABLE,
      { floats: { w: [4, 2], p: [3] } },
    ],
    [
      /third input differs from row to row/,
      node('MatMulInteger', 'x w z', 'y'),
      { ...TABLE, z: ['N'] },
      { floats: { w: [4, 2] } },
    ],
    [0, node('MatMulInteger', 'x w p', 'y'), TABLE, { floats: { w: [4, 2], p: [1] } }],
    ...[1, 2, 6, 7].map((at): Case => {
      const inputs = ['x', 's', 's', 'w', 's', 's', 's', 's'].with(at, 'p').join(' ');
      return [
        /scale or zero point differs/,
        node('QLinearMatMul', inputs, 'y'),
        TABLE,
        { floats: { w: [4, 2], s: [1], p: [3] } },
      ];
    }),
    ...[1, 2, 6, 7].map((at): Case => {
      const inputs = ['x', 's', 's', 'w', 's', 's', 's', 's'].with(at, 'p').join(' ');
      return [
        /scale or zero point differs/,
        node('QLinearConv', inputs, 'y'),
        FIRST,
        { floats: { w: [2, 2, 1], s: [1], p: [3] } },
      ];
    }),
  ],
  Einsum: [
    [0, node('Einsum', 'x c', 'y', { equation: 'ij,kj->ik' }), TABLE, { floats: { c: [2, 4] } }],
    [1, node('Einsum', 'x c', 'y', { equation: 'ij,kj->ki' }), TABLE, { floats: { c: [2, 4] } }],
    [/adds up along the batch axis/, node('Einsum', 'x', 'y', { equation: 'ij->j' }), TABLE],
    [
      /rows on different axes/,
      node('Einsum', 'x z', 'y', { equation: 'ij,kj->ik' }),
      { ...TABLE, z: ['N', 4] },
    ],
    [0, node('Einsum', 'x z', 'y', { equation: 'ij,ij->i' }), { ...TABLE, z: ['N', 4] }],
    [
      /rows on different axes/,
      node('Einsum', 'x c', 'y', { equation: 'ij,ij->ij' }),
      { x: [3, 4] },
      { floats: { c: [3, 4] } },
    ],
    [/diagonal/, node('Einsum', 'x c', 'y', { equation: 'ij,kk->ij' }), TABLE, { floats: { c: [2, 2] } }],
    [/not written out/, node('Einsum', 'x', 'y', { equation: 'ij' }), TABLE],
  ],
  elementwise: [
    [/rows on different axes/, node('Add', 'x z', 'y'), { ...FIRST, z: ['N', 4] }],
    [1, node('Mul', 'x c', 'y'), TABLE, { floats: { c: [3, 1, 4] } }],
    [
      /drops values at random/,
      node('Dropout', 'x r t', 'y'),
      TABLE,
      { ints: { t: [1] }, floats: { r: [1] } },
    ],
    [0, node('Dropout', 'x r t', 'y'), TABLE, { ints: { t: [0] }, floats: { r: [1] } }],
    [
      /second input differs from row to row/,
      node('QuickGelu', 'x z', 'y', {}, CONTRIB),
      { ...TABLE, z: ['N', 4] },
    ],
  ],
  Gather: [
    [0, node('Gather', 'x a', 'y', { axis: 1 }), TABLE, { ints: { a: [0] } }],
    [2, node('Gather', 'x w', 'y'), SECOND, { floats: { w: [2, 2] } }],
    [0, node('Gather', 'x w', 'y', { axis: 1 }), FIRST, { floats: { w: [2, 2] } }],
    [1, node('Gather', 'w i', 'y', { axis: 1 }), { i: ['N', 3] }, { floats: { w: [10, 4] } }],
    [/its rows take from all rows/, node('Gather', 'x i', 'y'), { ...TABLE, i: ['N'] }],
    [/takes single rows/, node('Gather', 'x a', 'y', { axis: -2 }), SECOND, { ints: { a: [0] } }],
  ],
  'Gather… and Scatter…': [
    [/takes single rows/, node('GatherElements', 'x i', 'y'), { ...TABLE, i: ['N', 2] }],
    [0, node('GatherElements', 'x i', 'y', { axis: -1 }), { ...TABLE, i: ['N', 2] }],
    [
      /places rows of the batch/,
      node('ScatterElements', 'x i z', 'y', { axis: -2 }),
      { ...TABLE, i: ['N', 2], z: ['N', 2] },
    ],
    [0, node('ScatterElements', 'x i z', 'y', { axis: 1 }), { ...TABLE, i: ['N', 2], z: ['N', 2] }],
    [0, node('GatherND', 'x i', 'y', { batch_dims: 1 }), { ...TABLE, i: ['N', 1] }],
    [
      /a part of an index/,
      node('GatherND', 'w i', 'y', { batch_dims: 1 }),
      { i: ['N', 1] },
      { floats: { w: [3, 4] } },
    ],
    [
      /a part of an index/,
      node('GatherND', 'w i', 'y'),
      { i: [2, 3] },
      { axes: new Map([['i', 1]]), floats: { w: [5, 6, 7] } },
    ],
    [0, node('GatherND', 'w i', 'y'), { i: ['N', 1] }, { floats: { w: [3, 4] } }],
    [
      /takes single rows/,
      node('GatherND', 'x w', 'y', { batch_dims: 1 }),
      SECOND,
      { floats: { w: [2, 3, 1] } },
    ],
    [1, node('GatherND', 'x w', 'y'), TURNED, { floats: { w: [2, 1] } }],
    [2, node('GatherND', 'x w', 'y', { batch_dims: 1 }), LAST, { floats: { w: [2, 3, 1] } }],
    [
      /places rows of the batch/,
      node('ScatterND', 'x w z', 'y'),
      { ...TABLE, z: ['N', 4] },
      { floats: { w: [2, 1] } },
    ],
    [1, node('ScatterND', 'x w z', 'y'), { ...TURNED, z: [2, 'N'] }, { floats: { w: [2, 1] } }],
    [
      /rows on different axes/,
      node('ScatterND', 'x w c', 'y'),
      { x: [4, 3] },
      { axes: new Map([['x', 1]]), floats: { w: [2, 1], c: [2, 3] } },
    ],
    [
      /places rows into a constant/,
      node('ScatterND', 'c w x', 'y'),
      TABLE,
      { floats: { w: [3, 1], c: [3, 4] } },
    ],
  ],
  'single elements': [
    [1, node('OneHot', 'i d v', 'y', { axis: 0 }), { i: ['N', 3] }, { ints: { d: [5] }, floats: { v: [2] } }],
    [0, node('OneHot', 'i d v', 'y'), { i: ['N', 3] }, { ints: { d: [5] }, floats: { v: [2] } }],
    [/depends on its place/, node('Trilu', 'x', 'y'), SECOND],
    [/depends on its place/, node('Trilu', 'x', 'y'), LAST],
    [0, node('Trilu', 'x', 'y'), FIRST],
    [/takes single rows/, node('Compress', 'x w', 'y', { axis: 0 }), TABLE, { floats: { w: [2] } }],
    [/flattens the rows/, node('Compress', 'x w', 'y'), TABLE, { floats: { w: [2] } }],
    [0, node('Compress', 'x w', 'y', { axis: -1 }), TABLE, { floats: { w: [2] } }],
  ],
  ReverseSequence: [
    [0, node('ReverseSequence', 'x z', 'y', { batch_axis: 0, time_axis: 1 }), { ...TABLE, z: ['N'] }],
    [1, node('ReverseSequence', 'x z', 'y'), { ...TURNED, z: ['N'] }],
    [/reverses the batch axis/, node('ReverseSequence', 'x z', 'y'), { ...TABLE, z: ['N'] }],
    [
      /reverses the batch axis/,
      node('ReverseSequence', 'x c', 'y', { batch_axis: 0, time_axis: 1 }),
      { x: [3, 4] },
      { floats: { c: [3] } },
    ],
    [
      /reverses the batch axis/,
      [node('ConstantOfShape', 's', 'c'), node('ReverseSequence', 'x c', 'y')],
      TABLE,
      { ints: { s: [4] } },
    ],
    [/reverses a constant/, node('ReverseSequence', 'c z', 'y'), { z: ['N'] }, { floats: { c: [3, 4] } }],
  ],
  images: [
    ...[
      node('Conv', 'x w', 'y'),
      node('ConvTranspose', 'x w', 'y'),
      node('MaxPool', 'x', 'y', { kernel_shape: [1] }),
      node('GlobalAveragePool', 'x', 'y'),
      node('SpaceToDepth', 'x', 'y', { blocksize: 1 }),
    ].flatMap((one): Case[] => [
      [/batch axis is not its first/, one, SECOND, { floats: { w: [2, 2, 1] } }],
      [0, one, FIRST, { floats: { w: [2, 2, 1] } }],
    ]),
    [/second input differs from row to row/, node('Conv', 'x z', 'y'), { ...FIRST, z: ['N', 2, 1] }],
    [
      /only one of its inputs has rows/,
      node('GridSample', 'x w', 'y'),
      { x: ['N', 1, 4, 4] },
      { floats: { w: [1, 2, 2, 2] } },
    ],
    [0, node('GridSample', 'x z', 'y'), { x: ['N', 1, 4, 4], z: ['N', 2, 2, 2] }],
  ],
  Resize: [
    [/resizes the batch axis/, node('Resize', 'x - - s', 'y'), FIRST, { ints: { s: [3, 2, 8] } }],
    [0, node('Resize', 'x - - s', 'y'), { x: [3, 2, 4] }, { ints: { s: [3, 2, 8] } }],
    [/resizes the batch axis/, node('Resize', 'x - c', 'y'), FIRST, { floats: { c: [3] } }],
    [0, node('Resize', 'x - c', 'y', { axes: [1, 2] }), FIRST, { opset: 18, floats: { c: [2] } }],
    [
      /cuts regions out/,
      node('Resize', 'x - - s', 'y', { coordinate_transformation_mode: 'tf_crop_and_resize' }),
      { x: [3, 2, 4] },
      { ints: { s: [3, 2, 8] } },
    ],
    [
      /keeps the aspect ratio/,
      node('Resize', 'x - - s', 'y', { keep_aspect_ratio_policy: 'not_larger' }),
      { x: [3, 2, 4] },
      { opset: 18, ints: { s: [3, 2, 8] } },
    ],
  ],
  RNN: [
    [2, node('LSTM', 'x w r', 'y h'), { x: [3, 'N', 2] }],
    [0, node('GRU', 'x w r', 'y h', { layout: 1 }), { x: ['N', 3, 2] }],
    [1, node('RNN', 'x w r', 'all y'), { x: [3, 'N', 2] }],
    [0, node('RNN', 'x w r', 'all y', { layout: 1 }), { x: ['N', 3, 2] }],
    [/reads the batch axis as time/, node('RNN', 'x w r', 'y'), { x: ['N', 3, 2] }],
    [/reads the batch axis as time/, node('RNN', 'x w r', 'y', { layout: 1 }), { x: [3, 'N', 2] }],
    [/reads the batch axis as features/, node('RNN', 'x w r', 'y'), { x: [3, 2, 'N'] }],
    [/its rows on another axis/, node('RNN', 'x w r - - z', 'y'), { x: [3, 'N', 2], z: ['N', 1, 2] }],
    [/its rows on another axis/, node('LSTM', 'x w r - - - z', 'y'), { x: [3, 'N', 2], z: ['N', 1, 2] }],
    [2, node('LSTM', 'x w r - - z z', 'y'), { x: [3, 'N', 2], z: [1, 'N', 2] }],
    [
      /differs along the batch axis/,
      node('GRU', 'x w r - c', 'y'),
      { x: [5, 3, 2] },
      { axes: new Map([['x', 1]]), floats: { c: [3] } },
    ],
    [2, node('GRU', 'x w r - i', 'y'), { x: [5, 'N', 2], i: ['N'] }],
    [
      /8th input differs from row to row/,
      node('LSTM', 'x w r - - - - z', 'y'),
      { x: [3, 'N', 2], z: ['N', 6] },
    ],
  ],
  'classical models': [
    [/no table with one row/, node('Scaler', 'x', 'y', {}, ML), TURNED],
    [/no table with one row/, node('TreeEnsembleRegressor', 'x', 'y', { n_targets: 1 }, ML), FIRST],
    [0, node('LinearClassifier', 'x', 'y s', {}, ML), TABLE],
    [/no tables with one row/, node('FeatureVectorizer', 'x x', 'y', {}, ML), TURNED],
    [
      /no tables with one row/,
      node('FeatureVectorizer', 'x c', 'y', {}, ML),
      TABLE,
      { floats: { c: [1, 4] } },
    ],
    [0, node('FeatureVectorizer', 'x x', 'y', {}, ML), TABLE],
    [/leaves out texts/, node('StringNormalizer', 'x', 'y', { stopwords: { strings: ['a'] } }), { x: ['N'] }],
    [0, node('StringNormalizer', 'x', 'y'), { x: ['N'] }],
    [/longest text of the run/, node('Tokenizer', 'x', 'y', {}, CONTRIB), { x: ['N'] }],
    [
      /differs along the batch axis/,
      node('QuantizeLinear', 'x c', 'y', { axis: -2 }),
      { x: [3, 4] },
      { floats: { c: [3] } },
    ],
    [/second input differs from row to row/, node('QuantizeLinear', 'x z', 'y'), { ...TABLE, z: ['N'] }],
    [0, node('QuantizeLinear', 'x c', 'y', { axis: 1 }), { x: [3, 4] }, { floats: { c: [4] } }],
    [/one scale for all rows/, node('DynamicQuantizeLinear', 'x', 'y s p'), TABLE],
  ],
};

for (const [rule, cases] of Object.entries(CASES)) {
  test(`${rule}: the rows are followed to their axis, and not where the axis mixes them`, async (t) => {
    for (const [expected, nodes, inputs, more = {}] of cases) {
      const found = Object.entries(inputs).map(
        ([name, shape]) => [name, Math.max(0, shape.indexOf('N'))] as const,
      );
      const floats = { ...WEIGHTS, ...more.floats };
      const sample = {
        inputs,
        nodes: [nodes].flat(),
        axes: new Map(found),
        onAnyAxis: true,
        ...more,
        floats,
      };
      const { end, outputAxes } = await prove(t, sample);
      const what = JSON.stringify([sample.nodes.at(-1), inputs, more.opset ?? '']);
      if (typeof expected === 'number') {
        assert.equal(end?.message, undefined, what);
        assert.equal(outputAxes.get('y'), expected, what);
      } else assert.match(end?.message ?? 'it is proven', expected, what);
    }
  });
}
