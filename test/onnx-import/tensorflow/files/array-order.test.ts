/** TensorArrays of TensorFlow 1 are written in memory: a write that our data flow would lose is refused. */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import type { Tensor } from '../../../../lib/contract/tensor.ts';
import { convertTensorflow } from '../../../../onnx-import/formats/tensorflow/convert.ts';
import { readFrozenGraph } from '../../../../onnx-import/formats/tensorflow/files/frozen.ts';
import { folderOf } from '../../support/folder.ts';
import {
  attr,
  constant,
  DT,
  floatTensor,
  graph,
  intTensor,
  node,
  placeholder,
} from '../../support/tensorflow.ts';
import { assertTensor, floats, runGraph } from '../ops/graph.ts';

const number = (name: string, value: number) => constant(name, intTensor([], [value]), DT.int32);
const typed = { T: attr.type(DT.float) };
const dtype = { dtype: attr.type(DT.float) };
const array = (name: string, size = 'three') =>
  node('TensorArrayV3', name, [size], { ...dtype, element_shape: attr.shape([2]) });
const write = (name: string, at: string, flow: string, item = 'x', handle = 'array') =>
  node('TensorArrayWriteV3', name, [handle, at, item, flow], typed);
const read = (name: string, at: string, flow: string, ...more: readonly string[]) =>
  node('TensorArrayReadV3', name, ['array', at, flow, ...more], dtype);
const all = (name: string, flow: string, ...more: readonly string[]) =>
  node('TensorArrayGatherV3', name, ['array', 'places', flow, ...more], dtype);
const start = [
  placeholder('x', [2]),
  number('zero', 0),
  number('one', 1),
  number('three', 3),
  constant('places', intTensor([3], [0, 1, 2]), DT.int32),
  node('Neg', 'minus', ['x'], typed),
  array('array'),
];

interface Loop {
  /** What enters as the flow, and whether it goes on to the next round. */
  readonly flow: string;
  readonly carried: boolean;
}

/** Three rounds of `write(i, item)`; `l_sum` adds up what was written, `l_out` is the flow where it is carried. */
function loop({ flow, carried }: Loop, l = 'l', item = 'x'): Buffer[] {
  const enter = (name: string, from: string, isConstant: boolean, type = DT.float) =>
    node('Enter', `${l}_${name}`, [from], {
      T: attr.type(type),
      frame_name: attr.text(l),
      is_constant: attr.bool(isConstant),
    });
  const variable = (name: string, from: string, next: string, type = DT.float) => {
    const T = { T: attr.type(type) };
    return [
      enter(`${name}_enter`, from, false, type),
      node('Merge', `${l}_${name}_merge`, [`${l}_${name}_enter`, `${l}_${name}_next`], T),
      node('Switch', `${l}_${name}_switch`, [`${l}_${name}_merge`, `${l}_go`], T),
      node('Identity', `${l}_${name}`, [`${l}_${name}_switch:1`], T),
      node('NextIteration', `${l}_${name}_next`, [next], T),
      node('Exit', `${l}_${name}_out`, [`${l}_${name}_switch`], T),
    ];
  };
  return [
    enter('handle', 'array', true, DT.resource),
    enter('item', item, true),
    enter('n', 'three', true, DT.int32),
    enter('step', 'one', true, DT.int32),
    ...(carried ? variable('flow', flow, `${l}_write`) : [enter('flow', flow, true)]),
    ...variable('i', 'zero', `${l}_up`, DT.int32),
    ...variable('sum', 'x', `${l}_add`),
    node('Less', `${l}_less`, [`${l}_i_merge`, `${l}_n`], { T: attr.type(DT.int32) }),
    node('LoopCond', `${l}_go`, [`${l}_less`]),
    node('AddV2', `${l}_up`, [`${l}_i`, `${l}_step`], { T: attr.type(DT.int32) }),
    write(`${l}_write`, `${l}_i`, `${l}_flow`, `${l}_item`, `${l}_handle`),
    node('TensorArrayReadV3', `${l}_read`, [`${l}_handle`, `${l}_i`, `${l}_write`], dtype),
    node('AddV2', `${l}_add`, [`${l}_sum`, `${l}_read`], typed),
  ];
}

async function converted(t: TestContext, nodes: readonly Uint8Array[], outputNames: readonly string[]) {
  const folder = await folderOf(t, { 'frozen_graph.pb': graph([...start, ...nodes]) });
  const options = { outputNames };
  const model = await readFrozenGraph(folder, options);
  return convertTensorflow(model.graph, options);
}

async function gives(
  t: TestContext,
  nodes: readonly Uint8Array[],
  expected: Readonly<Record<string, Tensor>>,
) {
  const outputs = await runGraph(await converted(t, nodes, Object.keys(expected)), {
    x: floats([2], [1, 2]),
  });
  for (const [i, [name, wanted]] of Object.entries(expected).entries())
    assertTensor(outputs[i] as Tensor, wanted, name);
}

async function refuses(
  t: TestContext,
  nodes: readonly Uint8Array[],
  outputNames: readonly string[],
  message: RegExp,
) {
  await assert.rejects(converted(t, nodes, outputNames), { code: 'bad_model', message });
}

test('writes that follow each other are all there, and a read in between sees what was there then', async (t) => {
  await gives(
    t,
    [
      write('w0', 'zero', 'array:1'),
      write('w1', 'one', 'w0', 'minus'),
      read('r', 'zero', 'w0'),
      all('y', 'w1'),
    ],
    { y: floats([3, 2], [1, 2, -1, -2, 0, 0]), r: floats([2], [1, 2]) },
  );
});

test('two writes from the same state are refused: one of them would be lost', async (t) => {
  const nodes = [
    write('w0', 'zero', 'array:1'),
    write('w1', 'one', 'array:1', 'minus'),
    read('r', 'zero', 'w0'),
    all('y', 'w1'),
  ];
  await refuses(
    t,
    nodes,
    ['y', 'r'],
    /TensorArrayWriteV3 \(node "w1"\): writes .* from the same state as "w0"/,
  );
  // One alone is whole.
  await gives(t, nodes, { y: floats([3, 2], [0, 0, -1, -2, 0, 0]) });
});

test('a write that only a control input asks for is refused', async (t) => {
  const nodes = [write('w0', 'zero', 'array:1'), write('w1', 'one', 'w0'), all('y', 'w0', '^w1')];
  await refuses(t, nodes, ['y'], /TensorArrayWriteV3 \(node "w1"\): .*no operation uses its flow/);
});

test('a read that comes after a write by a control input, and takes the flow before it, is refused', async (t) => {
  const nodes = [
    write('w0', 'zero', 'array:1'),
    write('w1', 'one', 'w0'),
    node('NoOp', 'done', ['^w1']),
    read('r', 'one', 'w0', '^done'),
    all('y', 'w1'),
  ];
  await refuses(t, nodes, ['y', 'r'], /TensorArrayReadV3 \(node "r"\): comes after "w1", and the flow/);
});

test('a write is found among hundreds', async (t) => {
  const writes = Array.from({ length: 300 }, (_, i) =>
    write(`w${i}`, 'zero', i === 0 ? 'array:1' : `w${i - 1}`),
  );
  const nodes = [
    ...writes,
    node('NoOp', 'done', ['^w299']),
    read('r', 'one', 'w298', '^done'),
    all('y', 'w299'),
  ];
  await refuses(t, nodes, ['y', 'r'], /TensorArrayReadV3 \(node "r"\): comes after "w299", and the flow/);
});

test('a loop that hands its flow on keeps all writes', async (t) => {
  await gives(t, [...loop({ flow: 'array:1', carried: true }), all('y', 'l_flow_out')], {
    y: floats([3, 2], [1, 2, 1, 2, 1, 2]),
    l_sum_out: floats([2], [4, 8]),
  });
});

test('a loop that writes from outside and does not hand the flow on is refused', async (t) => {
  const nodes = loop({ flow: 'array:1', carried: false });
  await refuses(t, nodes, ['l_sum_out'], /TensorArrayWriteV3 \(node "l_write"\): writes in a loop .*lost/);
});

test('two loops that write from the same state are refused, one after the other is not', async (t) => {
  const first = loop({ flow: 'array:1', carried: true }, 'a');
  const second = (flow: string) => loop({ flow, carried: true }, 'b', 'minus');
  await refuses(
    t,
    [...first, ...second('array:1'), all('y', 'b_flow_out')],
    ['y', 'a_sum_out'],
    /TensorArrayWriteV3 .*from the same state/,
  );
  await gives(t, [...first, ...second('a_flow_out'), all('y', 'b_flow_out')], {
    y: floats([3, 2], [-1, -2, -1, -2, -1, -2]),
    a_sum_out: floats([2], [4, 8]),
  });
});

test('the two sides of one condition may write from the same state, those of two conditions may not', async (t) => {
  const condition = (c: string, item: string, other: string) => [
    node('Switch', `${c}_flow`, ['array:1', `${c}_is`], typed),
    node('Switch', `${c}_item`, [item, `${c}_is`], typed),
    node('Switch', `${c}_other`, [other, `${c}_is`], typed),
    write(`${c}_no`, 'zero', `${c}_flow`, `${c}_item`),
    write(`${c}_yes`, 'zero', `${c}_flow:1`, `${c}_other:1`),
    node('Merge', `${c}_after`, [`${c}_no`, `${c}_yes`], typed),
  ];
  const is = (name: string, op: string) => [
    node('Sum', `${name}_sum`, ['x', 'zero'], { ...typed, Tidx: attr.type(DT.int32) }),
    constant(`${name}_bound`, floatTensor([], [2])),
    node(op, `${name}_is`, [`${name}_sum`, `${name}_bound`], typed),
  ];
  const one = [...is('a', 'Greater'), ...condition('a', 'minus', 'x'), all('y', 'a_after')];
  await gives(t, one, { y: floats([3, 2], [1, 2, 0, 0, 0, 0]) });
  const two = [...is('b', 'Less'), ...condition('b', 'minus', 'x'), all('z', 'b_after')];
  await refuses(t, [...one, ...two], ['y', 'z'], /TensorArrayWriteV3 .*from the same state/);
  // One side of each: both conditions may hold what lets them write.
  const oneSide = (c: string, isTrue: boolean) => [
    node('Switch', `${c}_flow`, ['array:1', `${c}_is`], typed),
    node('Switch', `${c}_item`, ['x', `${c}_is`], typed),
    write(`${c}_written`, 'zero', `${c}_flow${isTrue ? ':1' : ''}`, `${c}_item${isTrue ? ':1' : ''}`),
    node(
      'Merge',
      `${c}_after`,
      isTrue ? [`${c}_flow`, `${c}_written`] : [`${c}_written`, `${c}_flow:1`],
      typed,
    ),
    all(`${c}_all`, `${c}_after`),
  ];
  const apart = [...is('c', 'Less'), ...oneSide('c', true), ...is('d', 'Greater'), ...oneSide('d', false)];
  await refuses(t, apart, ['c_all', 'd_all'], /TensorArrayWriteV3 .*from the same state/);
});

test('a flow that is taken for a number is refused', async (t) => {
  const nodes = [
    write('w0', 'zero', 'array:1'),
    node('Identity', 'same', ['w0'], typed),
    node('AddN', 'y', ['same', 'same'], { ...typed, N: attr.int(2) }),
  ];
  await refuses(t, nodes, ['y'], /AddN \(node "y"\): takes the flow of a TensorArray for a number/);
});

test('a second output that is no flow is computed with as any other', async (t) => {
  await gives(
    t,
    [
      node('Split', 'cut', ['zero', 'x'], { ...typed, num_split: attr.int(2) }),
      node('Neg', 'second', ['cut:1'], typed),
      node('Neg', 'first', ['cut'], typed),
      write('w0', 'zero', 'array:1'),
      all('y', 'w0'),
    ],
    { second: floats([1], [-2]), first: floats([1], [-1]), y: floats([3, 2], [1, 2, 0, 0, 0, 0]) },
  );
});

test('a flow is no number to compute with, of an array or of a write', async (t) => {
  for (const flow of ['array:1', 'w0'])
    await refuses(
      t,
      [write('w0', 'zero', 'array:1'), node('Neg', 'n', [flow], typed), all('y', 'w0')],
      ['n', 'y'],
      /Neg \(node "n"\): takes the flow of a TensorArray for a number/,
    );
});
