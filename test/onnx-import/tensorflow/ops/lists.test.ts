/** Lists and TensorArrays: in loops and outside, growing, partly filled, in any order. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Tensor } from '../../../../lib/contract/tensor.ts';
import { convertTensorflow } from '../../../../onnx-import/formats/tensorflow/convert.ts';
import type { TfFunction } from '../../../../onnx-import/formats/tensorflow/graph.ts';
import {
  type AttributeSpec,
  attribute as a,
  assertTensor,
  constant,
  floats,
  graphOf,
  int32s,
  makeFunction,
  type NodeSpec,
  noisy,
  run,
  tensor,
} from './graph.ts';

const FLOAT = { element_dtype: a.type('float32') };
const GROWS = { ...FLOAT, resize_if_index_out_of_bounds: a.flag(true) };
const VARIANT = { unsupported: 'variant' };
const number = (name: string, value: number) => constant(name, int32s([], [value]));
const pair = constant('pair', int32s([1], [2]));
const unknown = constant('unknown', int32s([1], [-1]));
const rankless = number('rankless', -1);

/** A list `out` that a body works on for `rounds` rounds, x being a row of two. */
interface Looping {
  readonly start: readonly NodeSpec[];
  readonly body: readonly NodeSpec[];
  readonly filled: string;
  readonly rounds: number;
  readonly functions?: readonly TfFunction[];
  readonly x?: Tensor;
  readonly condition?: readonly NodeSpec[];
  /** Functions' outputs beside the list. */
  readonly from?: number;
}

const ROW = floats([2], [1, 10]);

function looping(spec: Looping) {
  const arguments_ = { i: 'int32', n: 'int32', x: 'float32', out: VARIANT } as const;
  const body = makeFunction(
    'body',
    arguments_,
    [
      number('b1', 1),
      ['next', 'AddV2', ['i', 'b1']],
      ['factor', 'Cast', ['next'], { DstT: a.type('float32') }],
      ['item', 'Mul', ['x', 'factor']],
      ...spec.body,
    ],
    ['next', 'n:0', 'x:0', spec.filled],
  );
  const condition = makeFunction(
    'condition',
    arguments_,
    [...(spec.condition ?? []), ['less', 'Less', ['i', 'n']]],
    ['less'],
  );
  return {
    inputs: { x: spec.x ?? ROW, rounds: int32s([], [spec.rounds]) },
    nodes: [
      pair,
      unknown,
      rankless,
      number('start', spec.from ?? 0),
      ...spec.start,
      [
        'w',
        'While',
        ['start', 'rounds', 'x', 'out'],
        { body: a.func('body'), cond: a.func('condition') },
      ] as NodeSpec,
      ['y', 'TensorListStack', ['w:3', 'pair'], FLOAT] as NodeSpec,
    ],
    outputs: ['y'],
    functions: [body, condition, ...(spec.functions ?? [])],
  };
}

const reserve = (size: number, shape = 'pair'): NodeSpec[] => [
  number('size', size),
  ['out', 'TensorListReserve', [shape, 'size'], FLOAT],
];
const given: NodeSpec[] = [
  constant('rows', floats([4, 2], [1, 1, 2, 2, 3, 3, 4, 4])),
  ['out', 'TensorListFromTensor', ['rows', 'pair'], FLOAT],
];
const set = (index: string, attributes: AttributeSpec = FLOAT): NodeSpec => [
  'set',
  'TensorListSetItem',
  ['out', index, 'item'],
  attributes,
];
/** Rows k * (1, 10). */
const rows = (...factors: number[]) =>
  floats(
    [factors.length, 2],
    factors.flatMap((k) => [k, 10 * k]),
  );

async function gives(spec: Parameters<typeof run>[0], expected: Tensor) {
  const [y] = await run(spec);
  assertTensor(y as Tensor, expected);
}

test('a list with content that a loop overwrites in part keeps the rest', async () => {
  await gives(
    looping({ start: given, body: [set('i')], filled: 'set', rounds: 2 }),
    floats([4, 2], [1, 10, 2, 20, 3, 3, 4, 4]),
  );
  await gives(looping({ start: given, body: [set('i')], filled: 'set', rounds: 4 }), rows(1, 2, 3, 4));
});

test('a list that grows by writes behind its end is as long as the last write says', async () => {
  for (const size of [0, 1, 4, 6])
    await gives(
      looping({ start: reserve(size), body: [set('i', GROWS)], filled: 'set', rounds: 4 }),
      rows(1, 2, 3, 4, ...(size === 6 ? [0, 0] : [])),
    );
});

test('a list that a loop fills backwards, or only every second time, is right', async () => {
  const two = number('two', 2);
  const back: NodeSpec[] = [['last', 'Sub', ['n', 'b1']], ['at', 'Sub', ['last', 'i']], set('at')];
  await gives(looping({ start: reserve(4), body: back, filled: 'set', rounds: 4 }), rows(4, 3, 2, 1));
  await gives(
    looping({ start: reserve(4, 'unknown'), body: back, filled: 'set', rounds: 4 }),
    rows(4, 3, 2, 1),
  );
  await gives(
    looping({
      start: reserve(4),
      body: [two, ['at', 'Mul', ['i', 'two']], set('at')],
      filled: 'set',
      rounds: 2,
    }),
    rows(1, 0, 2, 0),
  );
  await gives(
    looping({
      start: reserve(0, 'unknown'),
      body: [two, ['at', 'Mul', ['i', 'two']], set('at', GROWS)],
      filled: 'set',
      rounds: 3,
    }),
    rows(1, 0, 2, 0, 3),
  );
});

test('a loop that does not begin at 0 writes where its counter is', async () => {
  await gives(
    looping({ start: reserve(4), body: [set('i')], filled: 'set', rounds: 3, from: 1 }),
    rows(0, 2, 3, 0),
  );
});

test('a loop of no rounds leaves a list as it was', async () => {
  const body = [set('i')];
  await gives(looping({ start: reserve(3), body, filled: 'set', rounds: 0 }), rows(0, 0, 0));
  await gives(
    looping({ start: given, body, filled: 'set', rounds: 0 }),
    floats([4, 2], [1, 1, 2, 2, 3, 3, 4, 4]),
  );
  const back: NodeSpec[] = [['at', 'Sub', ['n', 'next']], set('at')];
  await gives(looping({ start: reserve(3), body: back, filled: 'set', rounds: 0 }), rows(0, 0, 0));
});

test('a write that only some rounds do leaves the other items', async () => {
  const arguments_ = { out: VARIANT, i: 'int32', item: 'float32' } as const;
  const writes = makeFunction('writes', arguments_, [set('i')], ['set']);
  const leaves = makeFunction('leaves', arguments_, [], ['out:0']);
  const attributes = { then_branch: a.func('writes'), else_branch: a.func('leaves') };
  for (const shape of ['pair', 'unknown'])
    await gives(
      looping({
        start: reserve(4, shape),
        body: [
          number('one', 1),
          ['odd', 'Greater', ['i', 'one']],
          ['chosen', 'If', ['odd', 'out', 'i', 'item'], attributes],
        ],
        filled: 'chosen',
        rounds: 4,
        functions: [writes, leaves],
      }),
      rows(0, 0, 3, 4),
    );
});

test('an item that every round writes twice is the last one', async () => {
  await gives(
    looping({
      start: reserve(2),
      body: [
        ['first', 'TensorListSetItem', ['out', 'i', 'x'], FLOAT],
        ['set', 'TensorListSetItem', ['first', 'i', 'item'], FLOAT],
      ],
      filled: 'set',
      rounds: 2,
    }),
    rows(1, 2),
  );
});

test('the only item of a list is written at a computed place too', async () => {
  const [zero] = [number('zero', 0)];
  await gives(
    looping({
      start: reserve(1, 'unknown'),
      body: [zero, ['at', 'Mul', ['i', 'zero']], set('at')],
      filled: 'set',
      rounds: 3,
    }),
    rows(3),
  );
});

test('items are read before they are written: what was there, or zeros', async () => {
  await gives(
    looping({
      start: given,
      body: [
        ['old', 'TensorListGetItem', ['out', 'i', 'pair0'], FLOAT],
        constant('pair0', int32s([1], [2])),
        ['sum', 'AddV2', ['old', 'x']],
        ['set', 'TensorListSetItem', ['out', 'i', 'sum'], FLOAT],
      ].toSorted((one) => (one[0] === 'pair0' ? -1 : 0)) as NodeSpec[],
      filled: 'set',
      rounds: 2,
    }),
    floats([4, 2], [2, 11, 3, 12, 3, 3, 4, 4]),
  );
  await gives(
    {
      inputs: { x: ROW },
      nodes: [
        pair,
        number('one', 1),
        number('three', 3),
        ['out', 'TensorListReserve', ['pair', 'three'], FLOAT],
        ['set', 'TensorListSetItem', ['out', 'one', 'x'], FLOAT],
        ['before', 'TensorListGetItem', ['out', 'one', 'pair'], FLOAT],
        ['after', 'TensorListGetItem', ['set', 'one', 'pair'], FLOAT],
        ['y', 'Sub', ['after', 'before']],
      ],
      outputs: ['y'],
    },
    ROW,
  );
});

test('a condition that asks a list for its length sees how it grows', async () => {
  const spec = looping({
    start: [['out', 'EmptyTensorList', ['unknown', 'start'], FLOAT]],
    body: [['set', 'TensorListPushBack', ['out', 'item'], FLOAT]],
    filled: 'set',
    rounds: 9,
  });
  const condition = makeFunction(
    'condition',
    { i: 'int32', n: 'int32', x: 'float32', out: VARIANT },
    [number('three', 3), ['length', 'TensorListLength', ['out']], ['less', 'Less', ['length', 'three']]],
    ['less'],
  );
  await gives({ ...spec, functions: [spec.functions[0] as TfFunction, condition] }, rows(1, 2, 3));
});

test('a loop pushes behind what a list has', async () => {
  const body: NodeSpec[] = [['set', 'TensorListPushBack', ['out', 'item'], FLOAT]];
  await gives(looping({ start: reserve(2), body, filled: 'set', rounds: 2 }), rows(0, 0, 1, 2));
  await gives(
    looping({ start: given, body, filled: 'set', rounds: 1 }),
    floats([5, 2], [1, 1, 2, 2, 3, 3, 4, 4, 1, 10]),
  );
});

test('lists are resized: by hand, and by the condition that older versions write', async () => {
  for (const size of [1, 3])
    await gives(
      {
        inputs: { x: floats([2, 2], [1, 10, 2, 20]) },
        nodes: [
          pair,
          number('size', size),
          ['list', 'TensorListFromTensor', ['x', 'pair'], FLOAT],
          ['resized', 'TensorListResize', ['list', 'size']],
          ['y', 'TensorListStack', ['resized', 'pair'], FLOAT],
        ],
        outputs: ['y'],
      },
      size === 1 ? rows(1) : rows(1, 2, 0),
    );
  const arguments_ = { out: VARIANT, next: 'int32' } as const;
  const resizes = makeFunction('resizes', arguments_, [['r', 'TensorListResize', ['out', 'next']]], ['r']);
  const leaves = makeFunction('leaves', arguments_, [], ['out:0']);
  const attributes = { then_branch: a.func('resizes'), else_branch: a.func('leaves') };
  for (const shape of ['pair', 'unknown'])
    await gives(
      looping({
        start: reserve(0, shape),
        body: [
          ['length', 'TensorListLength', ['out']],
          ['short', 'GreaterEqual', ['i', 'length']],
          ['longer', 'If', ['short', 'out', 'next'], attributes],
          ['set', 'TensorListSetItem', ['longer', 'i', 'item'], FLOAT],
        ],
        filled: 'set',
        rounds: 3,
        functions: [resizes, leaves],
      }),
      rows(1, 2, 3),
    );
});

test('the last item is popped, also of a list that was never filled', async () => {
  const spec = (list: NodeSpec) => ({
    inputs: { x: rows(1, 2, 3) },
    nodes: [
      pair,
      number('two', 2),
      list,
      ['pop', 'TensorListPopBack', ['list', 'pair'], FLOAT] as NodeSpec,
      ['rest', 'TensorListStack', ['pop:0', 'pair'], FLOAT] as NodeSpec,
    ],
    outputs: ['rest', 'pop:1'],
  });
  const [rest, last] = await run(spec(['list', 'TensorListFromTensor', ['x', 'pair'], FLOAT]));
  assertTensor(rest as Tensor, rows(1, 2));
  assertTensor(last as Tensor, floats([2], [3, 30]));
  const [none, nothing] = await run(spec(['list', 'TensorListReserve', ['pair', 'two'], FLOAT]));
  assertTensor(none as Tensor, rows(0));
  assertTensor(nothing as Tensor, floats([2], [0, 0]));
});

test('a list has the declared shape of its items, and its length', async () => {
  const [shape, length, open] = await run({
    inputs: { x: rows(1, 2, 3) },
    nodes: [
      pair,
      unknown,
      ['list', 'TensorListFromTensor', ['x', 'unknown'], FLOAT],
      ['shape', 'TensorListElementShape', ['list'], { shape_type: a.type('int64') }],
      ['length', 'TensorListLength', ['list']],
      ['other', 'TensorListFromTensor', ['x', 'pair'], FLOAT],
      ['open', 'TensorListElementShape', ['other'], { shape_type: a.type('int32') }],
    ],
    outputs: ['shape', 'length', 'open'],
  });
  assertTensor(shape as Tensor, tensor('int64', [1], [-1]));
  assertTensor(length as Tensor, int32s([], [3]));
  assertTensor(open as Tensor, int32s([1], [2]));
});

test('rows are split into items of one height and joined again; other heights are refused', async () => {
  const spec = (lengths: number[]) => ({
    inputs: { x: rows(1, 2, 3, 4) },
    nodes: [
      pair,
      constant('lengths', tensor('int64', [lengths.length], lengths)),
      ['list', 'TensorListSplit', ['x', 'pair', 'lengths'], FLOAT] as NodeSpec,
      number('one', 1),
      ['item', 'TensorListGetItem', ['list', 'one', 'pair'], FLOAT] as NodeSpec,
      ['all', 'TensorListConcatV2', ['list', 'pair', 'lengths'], FLOAT] as NodeSpec,
    ],
    outputs: ['item', 'all:0', 'all:1'],
  });
  const [item, all, lengths] = await run(spec([2, 2]));
  assertTensor(item as Tensor, rows(3, 4));
  assertTensor(all as Tensor, rows(1, 2, 3, 4));
  assertTensor(lengths as Tensor, tensor('int64', [2], [2, 2]));
  assert.throws(() => convertTensorflow(graphOf(spec([1, 3]), 'fixed'), {}), {
    code: 'bad_model',
    message: /TensorListSplit \(node "list"\): makes items of different sizes \(1, 3\)/,
  });
});

test('rows are scattered to computed places, the last one for a place counting', async () => {
  const x = rows(1, 2, 3);
  const nodes = (scatter: NodeSpec): NodeSpec[] => [
    pair,
    number('four', 4),
    number('any', -1),
    constant('rows', floats([3, 2], [7, 7, 8, 8, 9, 9])),
    ['list', 'TensorListFromTensor', ['rows', 'pair'], FLOAT],
    scatter,
    ['y', 'TensorListStack', ['s', 'pair'], FLOAT],
  ];
  const spec = (scatter: NodeSpec, places: number[]) => ({
    inputs: { x, at: int32s([3], places) },
    nodes: nodes(scatter),
    outputs: ['y'],
  });
  const fixed: NodeSpec = ['s', 'TensorListScatterV2', ['x', 'at', 'pair', 'four'], FLOAT];
  await gives(spec(fixed, [2, 0, 3]), rows(2, 0, 1, 3));
  await gives(spec(fixed, [2, 0, 2]), rows(2, 0, 3, 0));
  await gives(
    spec(['s', 'TensorListScatterV2', ['x', 'at', 'pair', 'any'], FLOAT], [4, 0, 1]),
    rows(2, 3, 0, 0, 1),
  );
  await gives(spec(['s', 'TensorListScatter', ['x', 'at', 'pair'], FLOAT], [2, 0, 1]), rows(2, 3, 1));
  await gives(
    spec(['s', 'TensorListScatterIntoExistingList', ['list', 'x', 'at'], FLOAT], [3, 1, 1]),
    floats([4, 2], [7, 7, 3, 30, 9, 9, 1, 10]),
  );
});

/** TensorFlow 1: a TensorArray, what is done with it, and all of its rows. */
function array(
  size: number,
  grows: boolean,
  nodes: NodeSpec[],
  last: string,
  inputs: Record<string, Tensor>,
) {
  return {
    inputs,
    nodes: [
      number('size', size),
      [
        'ta',
        'TensorArrayV3',
        ['size'],
        { dtype: a.type('float32'), dynamic_size: a.flag(grows) },
      ] as NodeSpec,
      ...nodes,
      number('zero', 0),
      number('one', 1),
      ['length', 'TensorArraySizeV3', ['ta:0', last]] as NodeSpec,
      ['all', 'Range', ['zero', 'length', 'one']] as NodeSpec,
      ['y', 'TensorArrayGatherV3', ['ta:0', 'all', last], { dtype: a.type('float32') }] as NodeSpec,
    ],
    outputs: ['y'],
  };
}

test('a TensorArray of dynamic size grows with its writes', async () => {
  const writes: NodeSpec[] = [
    number('i0', 0),
    number('i1', 1),
    ['w0', 'TensorArrayWriteV3', ['ta:0', 'i0', 'a', 'ta:1']],
    ['w1', 'TensorArrayWriteV3', ['ta:0', 'i1', 'b', 'w0']],
  ];
  const inputs = { a: floats([2], [1, 10]), b: floats([2], [2, 20]) };
  for (const size of [0, 1, 3])
    await gives(array(size, true, writes, 'w1', inputs), rows(1, 2, ...(size === 3 ? [0] : [])));
  await gives(array(2, false, writes, 'w1', inputs), rows(1, 2));
});

test('a TensorArray is scattered into at computed places, and keeps what no place names', async () => {
  const scatter: NodeSpec[] = [['s', 'TensorArrayScatterV3', ['ta:0', 'at', 'x', 'ta:1']]];
  const spec = (size: number, grows: boolean, places: number[]) =>
    array(size, grows, scatter, 's', { x: rows(1, 2, 3), at: int32s([3], places) });
  await gives(spec(3, false, [2, 0, 1]), rows(2, 3, 1));
  await gives(spec(5, false, [2, 0, 1]), rows(2, 3, 1, 0, 0));
  await gives(spec(0, true, [3, 0, 1]), rows(2, 3, 0, 1));
  const inOrder: NodeSpec[] = [constant('at', int32s([3], [0, 1, 2])), ...scatter];
  for (const [size, grows] of [
    [3, false],
    [5, false],
    [0, true],
    [1, true],
  ] as const)
    await gives(
      array(size, grows, inOrder, 's', { x: rows(1, 2, 3) }),
      rows(1, 2, 3, ...(size === 5 ? [0, 0] : [])),
    );
});

test('a list of unknown rank that stays a variable of a loop is refused with its node', () => {
  const spec = looping({
    start: reserve(4, 'rankless'),
    body: [['last', 'Sub', ['n', 'b1']], ['at', 'Sub', ['last', 'i']], set('at')],
    filled: 'set',
    rounds: 4,
  });
  assert.throws(() => convertTensorflow(graphOf(spec, 'fixed'), {}), {
    code: 'bad_model',
    message: /While \(node "w"\): passes on a list whose items have no known rank/,
  });
});

test('a list filled item by item from the first on is no variable of its loop, and one filled backwards is', () => {
  const carried = (body: NodeSpec[], start: readonly NodeSpec[] = reserve(4)) => {
    const spec = looping({ start, body, filled: 'set', rounds: 4, x: noisy([2]) });
    const { nodes } = convertTensorflow(graphOf(spec, 'fixed'), {}).graph;
    return nodes.find(({ op }) => op === 'Loop')?.inputs.length;
  };
  assert.equal(carried([set('i')]), 3);
  assert.equal(carried([set('i')], given), 3);
  assert.equal(carried([set('next', GROWS)]), 4);
});

test('a round that reads the list it has just written sees the item, not a part of it', async () => {
  const rounds = 2;
  const loopOf = (change: NodeSpec, start: readonly NodeSpec[]) => {
    const arguments_ = { i: 'int32', sum: 'float32', out: VARIANT } as const;
    const body = makeFunction(
      'body',
      arguments_,
      [
        number('b1', 1),
        constant('b2', int32s([1], [2])),
        ['next', 'AddV2', ['i', 'b1']],
        ['item', 'AddV2', ['sum', 'sum']],
        change,
        ['changed_on', 'Identity', ['changed']],
        ['got', 'TensorListGetItem', ['changed_on', 'i', 'b2'], FLOAT],
        ['more', 'AddV2', ['sum', 'got']],
      ],
      ['next', 'more', 'changed'],
    );
    const condition = makeFunction(
      'condition',
      arguments_,
      [number('n', rounds), ['less', 'Less', ['i', 'n']]],
      ['less'],
    );
    return {
      inputs: { x: ROW },
      nodes: [
        pair,
        number('start', 0),
        ...start,
        ['w', 'While', ['start', 'x', 'out'], { body: a.func('body'), cond: a.func('condition') }],
        ['y', 'TensorListStack', ['w:2', 'pair'], FLOAT],
      ] as NodeSpec[],
      outputs: ['y', 'w:1'],
      functions: [body, condition],
    };
  };
  const setting = loopOf(['changed', 'TensorListSetItem', ['out', 'i', 'item'], FLOAT], reserve(rounds));
  const pushing = loopOf(
    ['changed', 'TensorListPushBack', ['out', 'item'], FLOAT],
    [number('none', 0), ['out', 'EmptyTensorList', ['pair', 'none'], FLOAT]],
  );
  for (const spec of [setting, pushing]) {
    const [y, sum] = await run(spec);
    assertTensor(y as Tensor, rows(2, 6));
    assertTensor(sum as Tensor, floats([2], [9, 90]));
  }
});
