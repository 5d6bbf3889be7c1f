import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import type { DType, Tensor } from '../../lib/contract/tensor.ts';
import { openSession } from '../../lib/inference/session.ts';
import { GraphBuilder } from '../../onnx-import/graph/builder.ts';
import { tensorOf } from '../../onnx-import/graph/numbers.ts';
import type { Attributes, Shape, Value } from '../../onnx-import/graph/value.ts';
import { writeOnnx } from '../../onnx-import/onnx/write.ts';

let folder: string;
let files = 0;
before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'graph-'));
});
after(() => rm(folder, { recursive: true, force: true }));

const f32 = (shape: number[], ...values: number[]): Tensor =>
  tensorOf('float32', shape, values.length > 0 ? values : ramp(shape));
const i64 = (...values: number[]): Tensor => tensorOf('int64', [values.length], values);
const scalar = (dtype: DType, value: number): Tensor => tensorOf(dtype, [], [value]);

/** 0.5, -1, 1.5, -2 ... */
function ramp(shape: readonly number[]): number[] {
  const length = shape.reduce((a, b) => a * b, 1);
  return Array.from({ length }, (_, i) => ((i + 1) / 2) * (i % 2 === 0 ? 1 : -1));
}

async function run(graph: GraphBuilder, feeds: readonly Tensor[]) {
  const path = join(folder, `${files++}.onnx`);
  await writeOnnx(graph.finish(), path, { producerVersion: 'test' });
  const session = await openSession(path, { threads: 1 });
  try {
    return { results: await session.run(feeds), inputs: session.inputs, outputs: session.outputs };
  } finally {
    await session.close();
  }
}

type Case = readonly [
  op: string,
  inputs: readonly (Tensor | undefined)[],
  attributes?: Attributes,
  outputs?: number,
];

/** Computed at import by us and, unfolded, by onnxruntime. The second input on are constants either way. */
const FOLDED: readonly Case[] = [
  ['Transpose', [f32([2, 3, 4])], { perm: [2, 0, 1] }],
  ['Transpose', [f32([2, 3])]],
  ['Reshape', [f32([2, 6]), i64(0, -1, 3)]],
  ['Squeeze', [f32([1, 3, 1]), i64(0)]],
  ['Squeeze', [f32([1, 3, 1])]],
  ['Unsqueeze', [f32([3]), i64(0, 2)]],
  ['Concat', [f32([2, 2]), f32([2, 3]), f32([2, 1])], { axis: 1 }],
  ['Concat', [f32([1, 2]), f32([2, 2])], { axis: -2 }],
  ['Slice', [f32([4, 5]), i64(1, -1), i64(4, -5), i64(0, 1), i64(2, -2)]],
  ['Slice', [f32([6]), i64(-4), i64(1000)]],
  ['Gather', [f32([3, 4]), tensorOf('int64', [2, 2], [0, -1, 2, 1])], { axis: 1 }],
  ['Gather', [f32([3, 2]), scalar('int64', 1)], { axis: 0 }],
  ['Expand', [f32([3, 1]), i64(2, 1, 4)]],
  ['Tile', [f32([2, 3]), i64(2, 3)]],
  ['Add', [f32([2, 3]), f32([3])]],
  ['Sub', [f32([2, 1, 3]), f32([4, 1])]],
  ['Mul', [i64(3, -4), i64(5, 6)]],
  ['Div', [i64(7, -7), i64(2, 2)]],
  ['Div', [f32([4]), f32([1], 3)]],
  ['Pow', [f32([3], 1, 2, 3), f32([], 2)]],
  ['Max', [f32([4]), f32([], 0)]],
  ['Min', [i64(3, 9), i64(5, 5)]],
  ['Mod', [i64(7, -7), i64(3, 3)]],
  ['Equal', [i64(1, 2), i64(1, 3)]],
  ['Less', [f32([4]), f32([], 0)]],
  ['GreaterOrEqual', [f32([4]), f32([], 0.5)]],
  ['Neg', [f32([4])]],
  ['Abs', [f32([4])]],
  ['Sqrt', [f32([3], 1, 4, 9)]],
  ['Reciprocal', [f32([3], 1, 4, 8)]],
  ['Exp', [f32([4])]],
  ['Log', [f32([3], 1, 2, 3)]],
  ['Floor', [f32([4])]],
  ['Ceil', [f32([4])]],
  ['Cast', [f32([4], 1.9, -1.9, 0, 7)], { to: 7 }],
  ['Cast', [f32([4], 1.9, -1.9, 0, 7)], { to: 9 }],
  ['Cast', [i64(3, -4)], { to: 1 }],
  ['ReduceSum', [f32([2, 3, 2]), i64(1)]],
  ['ReduceSum', [f32([2, 3])], { keepdims: 0 }],
  ['ReduceMean', [f32([2, 3, 2])], { axes: [0, -1], keepdims: 0 }],
  ['ReduceMax', [f32([2, 3])], { axes: [1] }],
  ['ReduceMin', [f32([2, 3])], { axes: [0] }],
  ['ReduceProd', [f32([2, 3])], { axes: [1] }],
  ['Where', [tensorOf('bool', [2, 1], [1, 0]), f32([2, 2]), f32([2])]],
  ['Range', [scalar('int64', 2), scalar('int64', 11), scalar('int64', 3)]],
  ['ConstantOfShape', [i64(2, 3)], { value: { tensor: tensorOf('int64', [1], [7]) } }],
  ['Shape', [f32([2, 5])]],
  ['Size', [f32([2, 5])]],
];

/** Not computed at import: only the inferred type is compared with what onnxruntime makes. */
const INFERRED: readonly Case[] = [
  [
    'Conv',
    [f32([2, 4, 9, 8]), f32([6, 2, 3, 3])],
    { group: 2, strides: [2, 3], pads: [1, 0, 2, 1], dilations: [1, 2] },
  ],
  ['Conv', [f32([2, 4, 9, 8]), f32([6, 4, 3, 3])], { auto_pad: 'SAME_UPPER', strides: [2, 2] }],
  [
    'ConvTranspose',
    [f32([1, 4, 5, 6]), f32([4, 3, 3, 2])],
    { strides: [2, 3], pads: [1, 0, 0, 1], output_padding: [1, 0], group: 2 },
  ],
  [
    'MaxPool',
    [f32([1, 2, 7, 8])],
    { kernel_shape: [3, 2], strides: [2, 2], ceil_mode: 1, pads: [1, 0, 1, 0] },
  ],
  ['MaxPool', [f32([1, 2, 7, 8])], { kernel_shape: [2, 2], strides: [2, 2] }, 2],
  ['AveragePool', [f32([1, 2, 7, 8])], { kernel_shape: [3, 3], strides: [3, 3], ceil_mode: 1 }],
  ['GlobalAveragePool', [f32([2, 3, 4, 5])]],
  ['Resize', [f32([1, 2, 3, 4]), undefined, f32([4], 1, 1, 2, 2.5)], { mode: 'nearest' }],
  ['Resize', [f32([1, 2, 3, 4]), undefined, undefined, i64(1, 2, 7, 5)], { mode: 'linear' }],
  ['MatMul', [f32([5, 1, 2, 3]), f32([4, 3, 6])]],
  ['MatMul', [f32([2, 3]), f32([3])]],
  [
    'MatMulInteger',
    [tensorOf('uint8', [2, 3], [1, 2, 3, 4, 5, 6]), tensorOf('uint8', [3, 2], [1, 0, 2, 1, 0, 1])],
  ],
  ['QuantizeLinear', [f32([2, 3]), f32([], 0.5), scalar('int8', 1)]],
  ['QuantizeLinear', [f32([2, 3]), f32([], 0.5)]],
  ['DequantizeLinear', [tensorOf('uint8', [3], [1, 2, 3]), f32([], 0.5)]],
  ['IsNaN', [f32([2, 3])]],
  ['Xor', [tensorOf('bool', [2, 1], [1, 0]), tensorOf('bool', [3], [1, 0, 1])]],
  ['Gemm', [f32([3, 2]), f32([4, 3])], { transA: 1, transB: 1 }],
  ['Flatten', [f32([2, 3, 4])], { axis: 2 }],
  ['Split', [f32([2, 6])], { axis: 1 }, 3],
  ['Split', [f32([2, 6]), i64(1, 5)], { axis: 1 }, 2],
  ['Pad', [f32([2, 3]), i64(0, 1, 2, 0)]],
  ['TopK', [f32([2, 6]), i64(3)], {}, 2],
  ['OneHot', [i64(1, 2), scalar('int64', 4), f32([2], 0, 1)], { axis: 0 }],
  ['ArgMax', [f32([2, 6])], { axis: 1, keepdims: 0 }],
  ['GatherND', [f32([2, 3, 4]), tensorOf('int64', [2, 2], [0, 1, 1, 2])]],
  ['GatherElements', [f32([2, 3]), tensorOf('int64', [1, 3], [0, 1, 1])], { axis: 0 }],
  ['DepthToSpace', [f32([1, 8, 2, 3])], { blocksize: 2 }],
  ['SpaceToDepth', [f32([1, 2, 4, 6])], { blocksize: 2 }],
  ['Einsum', [f32([2, 3]), f32([3, 4])], { equation: 'ij,jk->ki' }],
  ['Softmax', [f32([2, 3])]],
  ['ReduceL2', [f32([2, 3])], { axes: [1] }],
  ['Squeeze', [f32([2, 1, 3]), i64(-2)]],
  ['CumSum', [f32([2, 3]), scalar('int64', 1)]],
  ['MaxRoiPool', [f32([1, 2, 6, 6]), f32([2, 5], 0, 0, 0, 3, 3, 0, 1, 1, 5, 5)], { pooled_shape: [2, 3] }],
];

/** The first input is fed, the others are constants, so that nothing can be computed at import. */
async function computed([op, inputs, attributes = {}, outputs = 1]: Case) {
  const graph = new GraphBuilder();
  const fed = inputs[0] as Tensor;
  const x = graph.input('x', fed.dtype, fed.shape);
  const rest = inputs.slice(1).map((tensor) => tensor && graph.constant(tensor));
  const values = graph.add(op, [x, ...rest], attributes, { outputs });
  for (const [i, value] of values.entries()) graph.output(`y${i}`, value);
  return { values, ...(await run(graph, [fed])) };
}

function titleOf([op, inputs, attributes = {}]: Case): string {
  const shapes = inputs.map((tensor) => (tensor ? `[${tensor.shape.join()}]` : '-')).join(' ');
  return `${op} of ${shapes} ${JSON.stringify(attributes, (_, value) => (typeof value === 'bigint' ? Number(value) : value))}`;
}

function typeOf(value: Value) {
  return { dtype: value.dtype, shape: value.shape };
}

describe('a node of constants is computed at import, to what onnxruntime computes', () => {
  for (const one of FOLDED) {
    const [op, inputs, attributes = {}] = one;
    test(titleOf(one), async () => {
      const graph = new GraphBuilder();
      const [value] = graph.add(
        op,
        inputs.map((tensor) => tensor && graph.constant(tensor)),
        attributes,
      );
      const mine = value?.constant;
      assert.ok(mine, `${op} was not computed`);
      const { results } = await computed(one);
      const [theirs] = results;
      assert.deepEqual([mine.dtype, mine.shape], [theirs?.dtype, theirs?.shape]);
      const [a, b] = [Array.from(mine.data, Number), Array.from(theirs?.data ?? [], Number)];
      for (const [i, expected] of b.entries()) {
        assert.ok(
          Math.abs((a[i] as number) - expected) <= 1e-6 * Math.max(1, Math.abs(expected)),
          `${a.join()} expected ${b.join()}`,
        );
      }
    });
  }
});

describe('the inferred type of a node is what onnxruntime makes', () => {
  for (const one of [...FOLDED, ...INFERRED]) {
    const [op] = one;
    test(titleOf(one), async () => {
      const { values, results } = await computed(one);
      for (const [i, value] of values.entries()) {
        const { dtype, shape } = typeOf(value);
        assert.equal(dtype, results[i]?.dtype);
        // A free dimension is no claim; a number is.
        const actual = results[i]?.shape as number[];
        const claimed = shape?.map((dim, axis) => (typeof dim === 'number' ? dim : actual[axis]));
        assert.deepEqual(claimed, actual);
        const free = shape?.filter((dim) => typeof dim === 'string').length;
        const dataDependent = [
          'Shape',
          'Size',
          'Range',
          'ConstantOfShape',
          'OneHot',
          'Tile',
          'Expand',
          'Reshape',
        ];
        if (!dataDependent.includes(op)) assert.equal(free, 0, `${op}: ${shape?.join()}`);
      }
    });
  }
});

describe('shape arithmetic follows a free batch', () => {
  const input: Shape = ['N', 7, 7, 64];

  test('a Reshape to (shape(x)[0], 3136) has the shape (N, 3136)', () => {
    const graph = new GraphBuilder();
    const x = graph.input('x', 'float32', input);
    const shape = graph.one('Shape', [x]);
    const batch = graph.one('Slice', [shape, graph.ints([0]), graph.ints([1]), graph.ints([0])]);
    const target = graph.one('Concat', [batch, graph.ints([3136])], { axis: 0 });
    assert.deepEqual(graph.one('Reshape', [x, target]).shape, ['N', 3136]);
  });

  test('a Reshape to (-1, 3136) keeps N, and to (-1, 49, 64) too', () => {
    const graph = new GraphBuilder();
    const x = graph.input('x', 'float32', input);
    assert.deepEqual(graph.one('Reshape', [x, graph.ints([-1, 3136])]).shape, ['N', 3136]);
    assert.deepEqual(graph.one('Reshape', [x, graph.ints([-1, 49, 64])]).shape, ['N', 49, 64]);
    assert.deepEqual(graph.one('Reshape', [x, graph.ints([0, -1])]).shape, ['N', 3136]);
  });

  test('a Reshape to (-1, 100) claims no batch', () => {
    const graph = new GraphBuilder();
    const [batch, width] = graph.one('Reshape', [graph.input('x', 'float32', input), graph.ints([-1, 100])])
      .shape as Shape;
    assert.notEqual(batch, 'N');
    assert.equal(width, 100);
  });

  test('what is known of a shape becomes a constant', () => {
    const graph = new GraphBuilder();
    const x = graph.input('x', 'float32', input);
    const spatial = graph.one('Slice', [graph.one('Shape', [x]), graph.ints([1]), graph.ints([3])]);
    const doubled = graph.one('Mul', [spatial, graph.ints([2, 2])]);
    assert.deepEqual(Array.from(doubled.constant?.data ?? [], Number), [14, 14]);
    assert.equal(graph.finish().nodes.length, 0);
  });
});

describe('names', () => {
  test('an output that is an input, a constant or another output still gets its public name', async () => {
    const graph = new GraphBuilder();
    const x = graph.input('x', 'float32', ['N', 2]);
    const y = graph.one('Relu', [x]);
    graph.output('same', x);
    graph.output('relu', y);
    graph.output('again', y);
    graph.output('weights', graph.constant(f32([2], 5, 6)));
    const { results } = await run(graph, [f32([1, 2], -1, 2)]);
    assert.deepEqual(
      results.map(({ name, data }) => [name, Array.from(data, Number)]),
      [
        ['same', [-1, 2]],
        ['relu', [0, 2]],
        ['again', [0, 2]],
        ['weights', [5, 6]],
      ],
    );
  });

  test('an output that is named like an input is renamed, and the notes say so', async () => {
    const graph = new GraphBuilder();
    graph.output('keys', graph.one('Neg', [graph.input('keys', 'float32', [1])]));
    const { outputs } = await run(graph, [f32([1], 4)]);
    assert.deepEqual(
      outputs.map(({ name }) => name),
      ['keys_output'],
    );
    assert.match(graph.notes.join(), /output "keys" is named "keys_output"/);
  });

  test('an inner value that bears the name of an output makes way for it', async () => {
    const graph = new GraphBuilder();
    const x = graph.input('x', 'float32', [1]);
    const inner = graph.one('Neg', [x], {}, 'y');
    graph.output('y', graph.one('Mul', [inner, inner], {}, 'z'));
    graph.output('z', graph.one('Abs', [inner]));
    const { results } = await run(graph, [f32([1], 3)]);
    assert.deepEqual(
      results.map(({ name, data }) => [name, data[0]]),
      [
        ['y', 9],
        ['z', 3],
      ],
    );
  });

  test('two inputs of one name are refused', () => {
    const graph = new GraphBuilder();
    graph.input('x', 'float32', [1]);
    assert.throws(() => graph.input('x', 'float32', [1]), /two inputs are named "x"/);
  });
});

test('a node that no output needs is not written, one that only a body needs is', async () => {
  const graph = new GraphBuilder();
  const x = graph.input('x', 'float32', [2]);
  const flag = graph.input('flag', 'bool', []);
  graph.one('Exp', [x]);
  const shared = graph.one('Neg', [x]);
  const [yes, no] = [graph.body(), graph.body()];
  yes.output('out', yes.one('Mul', [shared, yes.constant(f32([], 10))]));
  no.output('out', shared);
  const [y] = graph.add(
    'If',
    [flag],
    { then_branch: { body: yes.finish() }, else_branch: { body: no.finish() } },
    {
      results: [{ dtype: 'float32', shape: [2] }],
    },
  );
  graph.output('y', y as Value);
  assert.deepEqual(
    graph.finish().nodes.map(({ op }) => op),
    ['Neg', 'If'],
  );
  for (const [value, expected] of [
    [1, [-10, -20]],
    [0, [-1, -2]],
  ] as const) {
    const { results } = await run(graph, [f32([2], 1, 2), scalar('bool', value)]);
    assert.deepEqual(Array.from(results[0]?.data ?? [], Number), expected);
  }
});

test('equal small constants are one, and -0 is not 0', () => {
  const graph = new GraphBuilder();
  assert.equal(graph.ints([1, 2]), graph.ints([1, 2]));
  assert.notEqual(graph.scalar('float32', 0), graph.scalar('float32', -0));
  assert.notEqual(graph.scalar('float32', 0), graph.scalar('int32', 0));
});

test('weights too large for one protobuf go into a file beside the model', async () => {
  const graph = new GraphBuilder();
  const x = graph.input('x', 'float32', ['N', 40]);
  const weights = f32([40, 40]);
  graph.output('y', graph.one('MatMul', [x, graph.constant(weights, 'weights')]));
  const path = join(folder, 'large.onnx');
  const written = await writeOnnx(graph.finish(), path, { producerVersion: 'test', maxFileBytes: 2000 });
  assert.deepEqual(written.files, [path, `${path}.data`]);
  const session = await openSession(path, { threads: 1 });
  const one = f32([1, 40], ...Array.from({ length: 40 }, (_, i) => (i === 3 ? 1 : 0)));
  const [y] = await session.run([one]);
  await session.close();
  assert.deepEqual(Array.from(y?.data ?? [], Number), Array.from(weights.data.slice(120, 160), Number));
});

test('shapes that do not broadcast, and axes outside of the rank, are refused with both', () => {
  const graph = new GraphBuilder();
  const x = graph.input('x', 'float32', ['N', 3]);
  assert.throws(() => graph.one('Add', [x, graph.floats([1, 2])]), /\[N,3\] and \[2\] do not broadcast/);
  assert.throws(() => graph.one('Concat', [x, x], { axis: 2 }), /axis 2 is outside of 2 dimensions/);
});
