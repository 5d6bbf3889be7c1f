/** TensorFlow's arithmetic, activations, quantization and dtypes. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  type DType,
  isNumericDType,
  type NumericDType,
  type Tensor,
} from '../../../../lib/contract/tensor.ts';
import { convertTensorflow } from '../../../../onnx-import/formats/tensorflow/convert.ts';
import { emitAll } from '../../../../onnx-import/formats/tensorflow/ops/kernels.ts';
import { GraphBuilder } from '../../../../onnx-import/graph/builder.ts';
import { OPERATORS } from '../../../../onnx-import/graph/ops/table.ts';
import type { Value } from '../../../../onnx-import/graph/value.ts';
import {
  attribute as a,
  assertTensor,
  constant,
  floats,
  graphOf,
  int32s,
  type NodeSpec,
  noisy,
  run,
  runGraph,
  tensor,
} from './graph.ts';

const X = floats([7], [-2.5, -1.5, -0.5, 0.25, 0.5, 1.5, 3]);

/** By TensorFlow's name: the function, and numbers it is defined for. */
const FUNCTIONS: Readonly<Record<string, (x: number) => number>> = {
  Abs: Math.abs,
  Atan: Math.atan,
  Ceil: Math.ceil,
  Cos: Math.cos,
  Cosh: Math.cosh,
  Elu: (x) => (x > 0 ? x : Math.expm1(x)),
  Exp: Math.exp,
  Expm1: Math.expm1,
  Floor: Math.floor,
  Inv: (x) => 1 / x,
  LeakyRelu: (x) => (x > 0 ? x : 0.2 * x),
  Neg: (x) => -x,
  Reciprocal: (x) => 1 / x,
  Relu: (x) => Math.max(x, 0),
  Relu6: (x) => Math.min(Math.max(x, 0), 6),
  Rint: halfToEven,
  Round: halfToEven,
  Selu: (x) => 1.0507009873554805 * (x > 0 ? x : 1.6732632423543772 * Math.expm1(x)),
  Sigmoid: (x) => 1 / (1 + Math.exp(-x)),
  Sign: Math.sign,
  Sin: Math.sin,
  Sinh: Math.sinh,
  Softplus: (x) => Math.log1p(Math.exp(x)),
  Softsign: (x) => x / (1 + Math.abs(x)),
  Square: (x) => x * x,
  Swish: (x) => x / (1 + Math.exp(-x)),
  Tan: Math.tan,
  Tanh: Math.tanh,
};

function halfToEven(x: number): number {
  const low = Math.floor(x);
  return x - low === 0.5 ? low + (low % 2 === 0 ? 0 : 1) : Math.round(x);
}

for (const [op, compute] of Object.entries(FUNCTIONS)) {
  test(`${op} computes what its name says`, async () => {
    const [y] = await run({ inputs: { x: X }, nodes: [['y', op, ['x']]], outputs: ['y'] });
    assertTensor(y as Tensor, floats([7], Array.from(X.data as Float32Array, compute)), op, 2e-5);
  });
}

test('functions of positive numbers, and those of numbers within one', async () => {
  const x = floats([3], [0.1, 0.5, 0.9]);
  const table: Readonly<Record<string, (x: number) => number>> = {
    Acos: Math.acos,
    Asin: Math.asin,
    Asinh: Math.asinh,
    Atanh: Math.atanh,
    Log: Math.log,
    Log1p: Math.log1p,
    Rsqrt: (v) => 1 / Math.sqrt(v),
    Sqrt: Math.sqrt,
  };
  const outputs = await run({
    inputs: { x },
    nodes: Object.keys(table).map((op): NodeSpec => [op, op, ['x']]),
    outputs: Object.keys(table),
  });
  for (const [i, [op, compute]] of Object.entries(table).entries())
    assertTensor(outputs[i] as Tensor, floats([3], Array.from(x.data as Float32Array, compute)), op);
});

const PAIRS: Readonly<Record<string, (x: number, y: number) => number>> = {
  FloorDiv: (x, y) => Math.floor(x / y),
  FloorMod: (x, y) => x - y * Math.floor(x / y),
  Mod: (x, y) => x % y,
  TruncateDiv: (x, y) => Math.trunc(x / y),
  TruncateMod: (x, y) => x % y,
  Div: (x, y) => Math.trunc(x / y),
  Maximum: Math.max,
  Minimum: Math.min,
  SquaredDifference: (x, y) => (x - y) ** 2,
  Sub: (x, y) => x - y,
};

for (const dtype of ['int32', 'int64', 'int8', 'int16'] as const) {
  test(`whole numbers of ${dtype} divide as TensorFlow divides, below zero too`, async () => {
    const [x, y] = [tensor(dtype, [4], [7, -7, 7, -7]), tensor(dtype, [4], [2, 2, -2, -2])];
    const outputs = await run({
      inputs: { x, y },
      nodes: Object.keys(PAIRS).map((op): NodeSpec => [op, op, ['x', 'y']]),
      outputs: Object.keys(PAIRS),
      sizes: 'fixed and batch',
    });
    for (const [i, [op, compute]] of Object.entries(PAIRS).entries()) {
      const expected = Array.from(x.data, Number).map((value, k) => compute(value, Number(y.data[k])));
      assertTensor(outputs[i] as Tensor, tensor(dtype, [4], expected), op);
    }
  });
}

test('floats divide as TensorFlow divides, below zero too', async () => {
  const [x, y] = [floats([4], [7.5, -7.5, 7.5, -7.5]), floats([4], [2, 2, -2, -2])];
  const [quotient, rest, cut, angle] = await run({
    inputs: { x, y },
    nodes: [
      ['q', 'FloorDiv', ['x', 'y']],
      ['r', 'FloorMod', ['x', 'y']],
      ['c', 'Mod', ['x', 'y']],
      ['a', 'Atan2', ['x', 'y']],
    ],
    outputs: ['q', 'r', 'c', 'a'],
    sizes: 'fixed and batch',
  });
  assertTensor(quotient as Tensor, floats([4], [3, -4, -4, 3]));
  assertTensor(rest as Tensor, floats([4], [1.5, 0.5, -0.5, -1.5]));
  assertTensor(cut as Tensor, floats([4], [1.5, -1.5, 1.5, -1.5]));
  assertTensor(
    angle as Tensor,
    floats(
      [4],
      [7.5, -7.5, 7.5, -7.5].map((v, i) => Math.atan2(v, [2, 2, -2, -2][i] as number)),
    ),
  );
});

test('Atan2 knows the axes', async () => {
  const y = floats([5], [0, 1, 0, -1, 0]);
  const x = floats([5], [1, 0, -1, 0, 0]);
  const [angle] = await run({
    inputs: { y, x },
    nodes: [['a', 'Atan2', ['y', 'x']]],
    outputs: ['a'],
    sizes: 'fixed',
  });
  assertTensor(angle as Tensor, floats([5], [0, Math.PI / 2, Math.PI, -Math.PI / 2, 0]));
});

test('what would divide by zero or take the logarithm of zero is zero where TensorFlow says so', async () => {
  const [x, y] = [floats([3], [0, 2, 0]), floats([3], [0, 0, 4])];
  const [safe, ratio, log, product] = await run({
    inputs: { x, y },
    nodes: [
      ['d', 'DivNoNan', ['x', 'y']],
      ['q', 'Xdivy', ['x', 'y']],
      ['l', 'Xlogy', ['x', 'y']],
      ['m', 'MulNoNan', ['x', 'y']],
    ],
    outputs: ['d', 'q', 'l', 'm'],
    sizes: 'fixed and batch',
  });
  assertTensor(safe as Tensor, floats([3], [0, 0, 0]));
  assertTensor(ratio as Tensor, floats([3], [0, Infinity, 0]));
  assertTensor(log as Tensor, floats([3], [0, -Infinity, 0]));
  assertTensor(product as Tensor, floats([3], [0, 0, 0]));
});

test('comparisons and logic give booleans', async () => {
  const [x, y] = [int32s([3], [1, 2, 3]), int32s([3], [2, 2, 2])];
  const names = ['Equal', 'NotEqual', 'Less', 'LessEqual', 'Greater', 'GreaterEqual'];
  const outputs = await run({
    inputs: { x, y },
    nodes: [
      ...names.map((op): NodeSpec => [op, op, ['x', 'y']]),
      ['and', 'LogicalAnd', ['LessEqual', 'GreaterEqual']],
      ['not', 'LogicalNot', ['Less']],
    ],
    outputs: [...names, 'and', 'not'],
    sizes: 'fixed and batch',
  });
  const expected = [
    [0, 1, 0],
    [1, 0, 1],
    [1, 0, 0],
    [1, 1, 0],
    [0, 0, 1],
    [0, 1, 1],
    [0, 1, 0],
    [0, 1, 1],
  ];
  for (const [i, flags] of expected.entries()) assertTensor(outputs[i] as Tensor, tensor('bool', [3], flags));
});

test('a softmax over channels-last images is over the channels', async () => {
  const x = noisy([1, 2, 2, 3]);
  const [y, log] = await run({
    inputs: { x },
    nodes: [
      constant('w', noisy([1, 1, 3, 3], 2)),
      ['c', 'Conv2D', ['x', 'w'], { strides: a.ints([1, 1, 1, 1]), padding: a.text('SAME') }],
      ['y', 'Softmax', ['c']],
      ['l', 'LogSoftmax', ['c']],
    ],
    outputs: ['y', 'l'],
  });
  for (let i = 0; i < 4; i++) {
    const row = [...(y as Tensor).data].slice(3 * i, 3 * i + 3).map(Number);
    assert.ok(Math.abs(row.reduce((p, q) => p + q, 0) - 1) < 1e-5);
    for (const [k, value] of row.entries())
      assert.ok(Math.abs(Math.log(value) - Number((log as Tensor).data[3 * i + k])) < 1e-5);
  }
});

test('elementwise work between convolutions leaves no transposes there', () => {
  const strides = { strides: a.ints([1, 1, 1, 1]), padding: a.text('SAME') };
  const graph = graphOf(
    {
      inputs: { x: noisy([1, 6, 6, 3]) },
      nodes: [
        constant('w', noisy([3, 3, 3, 3], 2)),
        constant('scale', noisy([3], 3)),
        constant('axis', int32s([], [3])),
        constant('image', int32s([2], [1, 2])),
        constant('pads', int32s([4, 2], [0, 0, 1, 1, 1, 1, 0, 0])),
        ['c', 'Conv2D', ['x', 'w'], strides],
        ['b', 'BiasAdd', ['c', 'scale']],
        ['m', 'Mul', ['b', 'scale']],
        ['r', 'Relu6', ['m']],
        ['p', 'Pad', ['r', 'pads']],
        ['d', 'Conv2D', ['p', 'w'], { ...strides, padding: a.text('VALID') }],
        ['s', 'AddV2', ['d', 'r']],
        ['t', 'ConcatV2', ['s', 'r', 'axis']],
        ['g', 'Mean', ['t', 'image']],
      ],
      outputs: ['g'],
    },
    'batch',
  );
  const { nodes } = convertTensorflow(graph, {}).graph;
  assert.equal(nodes.filter(({ op }) => op === 'Transpose').length, 1);
});

/** TensorFlow's own formulas, for a byte `q` of `count` values. */
test('Dequantize turns bytes into floats in its three modes', async () => {
  const q = tensor('uint8', [4], [0, 1, 128, 255]);
  const s = tensor('int8', [4], [-128, -1, 0, 127]);
  const [low, high] = [-1.33, 2.1];
  const nodes: NodeSpec[] = [constant('low', floats([], [low])), constant('high', floats([], [high]))];
  for (const mode of ['MIN_COMBINED', 'MIN_FIRST', 'SCALED'])
    for (const x of ['q', 's'])
      nodes.push([`${mode}/${x}`, 'Dequantize', [x, 'low', 'high'], { mode: a.text(mode) }]);
  const outputs = await run({
    inputs: { q, s },
    nodes,
    outputs: nodes.slice(2).map(([name]) => name),
    sizes: 'fixed and batch',
  });
  const step = (high - low) / 255;
  const from = (x: Tensor, compute: (byte: number) => number) =>
    floats([4], Array.from(x.data, Number).map(compute));
  const rounded = Math.round(low / step) * step;
  const expected = [
    from(q, (byte) => byte * step + low),
    from(s, (byte) => (byte + 128) * step + low),
    from(q, (byte) => byte * step + rounded),
    from(s, (byte) => (byte + 128) * step + rounded),
    from(q, (byte) => (byte * high) / 255),
    from(s, (byte) => byte * Math.max(low / -128, high / 127)),
  ];
  for (const [i, want] of expected.entries())
    assertTensor(outputs[i] as Tensor, want, nodes[i + 2]?.[0], 1e-5);
});

test('QuantizeV2 and Dequantize undo each other up to one step', async () => {
  const x = floats([6], [-1, -0.4, 0, 0.3, 0.77, 1.9]);
  const modes = ['MIN_COMBINED', 'MIN_FIRST', 'SCALED'];
  const types = ['quint8', 'qint8'];
  const nodes: NodeSpec[] = [constant('low', floats([], [-1])), constant('high', floats([], [2]))];
  const outputs: string[] = [];
  for (const mode of modes)
    for (const type of types) {
      if (mode === 'SCALED' && type === 'quint8') continue;
      const key = `${mode}/${type}`;
      nodes.push([
        `q${key}`,
        'QuantizeV2',
        ['x', 'low', 'high'],
        { mode: a.text(mode), T: a.type({ unsupported: type }) },
      ]);
      nodes.push([`d${key}`, 'Dequantize', [`q${key}:0`, `q${key}:1`, `q${key}:2`], { mode: a.text(mode) }]);
      outputs.push(`d${key}`);
    }
  const back = await run({ inputs: { x }, nodes, outputs, sizes: 'fixed and batch' });
  for (const [k, tensorBack] of back.entries())
    for (const [i, value] of tensorBack.data.entries())
      assert.ok(Math.abs(Number(value) - Number(x.data[i])) <= 2 / 127, `${outputs[k]}[${i}]: ${value}`);
});

test('FakeQuant rounds to steps of a range that is moved until zero is one', async () => {
  const x = floats([6], [-2, -0.7, 0, 0.011, 1.3, 9]);
  const [low, high] = [-1.03, 2.2];
  const [args, vars, channels] = await run({
    inputs: { x },
    nodes: [
      constant('low', floats([], [low])),
      constant('high', floats([], [high])),
      constant(
        'lows',
        floats(
          [6],
          Array.from({ length: 6 }, () => low),
        ),
      ),
      constant(
        'highs',
        floats(
          [6],
          Array.from({ length: 6 }, () => high),
        ),
      ),
      [
        'a',
        'FakeQuantWithMinMaxArgs',
        ['x'],
        { min: a.float(low), max: a.float(high), narrow_range: a.flag(true) },
      ],
      ['v', 'FakeQuantWithMinMaxVars', ['x', 'low', 'high'], { num_bits: a.int(4) }],
      ['c', 'FakeQuantWithMinMaxVarsPerChannel', ['x', 'lows', 'highs'], { num_bits: a.int(4) }],
    ],
    outputs: ['a', 'v', 'c'],
    sizes: 'fixed',
  });
  const fake = (least: number, most: number) => {
    const step = (high - low) / (most - least);
    const zero = Math.round(Math.min(Math.max(least - low / step, least), most));
    const [from, to] = [(least - zero) * step, (most - zero) * step];
    return Array.from(x.data as Float32Array, (value) => {
      const inside = Math.min(Math.max(value, from), to) - from;
      return Math.floor(inside / step + 0.5) * step + from;
    });
  };
  assertTensor(args as Tensor, floats([6], fake(1, 255)), 'args', 1e-5);
  assertTensor(vars as Tensor, floats([6], fake(0, 15)), 'vars', 1e-5);
  assertTensor(channels as Tensor, floats([6], fake(0, 15)), 'channels', 1e-5);
});

test('a dropout that keeps everything disappears, with a note', async () => {
  const x = noisy([2, 3]);
  const nodes: NodeSpec[] = [
    ['scaled', 'RealDiv', ['x', 'keep_prob']],
    ['shape', 'Shape', ['scaled']],
    ['random', 'RandomUniform', ['shape'], { dtype: a.type('float32') }],
    ['sum', 'Add', ['keep_prob', 'random']],
    ['mask', 'Floor', ['sum']],
    ['y', 'Mul', ['scaled', 'mask']],
  ];
  const spec = { inputs: { x, keep_prob: floats([], [1]) }, nodes, outputs: ['y'] };
  const conversion = convertTensorflow(graphOf(spec, 'batch'), {});
  assert.deepEqual(conversion.notes, ['input "keep_prob" is replaced by 1']);
  assert.deepEqual(
    conversion.graph.inputs.map(({ name }) => name),
    ['x'],
  );
  assert.ok(!conversion.graph.nodes.some(({ op }) => op.startsWith('Random')));
  const [y] = await runGraph(conversion, { x });
  assertTensor(y as Tensor, x);
  const kept = convertTensorflow(graphOf(spec, 'batch'), { inputNames: ['x', 'keep_prob'] });
  assert.deepEqual(
    kept.graph.inputs.map(({ name }) => name),
    ['x', 'keep_prob'],
  );
});

test('texts become numbers and whole numbers texts', async () => {
  const x: Tensor = { dtype: 'string', shape: [3], data: ['1.5', '-2', '1e3'] };
  const [number, text] = await run({
    inputs: { x, n: tensor('int64', [2], [12, -3]) },
    nodes: [
      ['n1', 'StringToNumber', ['x'], { out_type: a.type('float32') }],
      ['t', 'AsString', ['n']],
    ],
    outputs: ['n1', 't'],
    sizes: 'fixed and batch',
  });
  assertTensor(number as Tensor, floats([3], [1.5, -2, 1000]));
  assert.deepEqual([...(text as Tensor).data], ['12', '-3']);
});

test('Bucketize counts the boundaries that are reached', async () => {
  const x = floats([2, 3], [-1, 0, 0.5, 1, 5, 100]);
  const [y] = await run({
    inputs: { x },
    nodes: [['y', 'Bucketize', ['x'], { boundaries: a.floats([0, 1, 10]) }]],
    outputs: ['y'],
  });
  assertTensor(y as Tensor, int32s([2, 3], [0, 1, 1, 2, 2, 3]));
});

test('Log1p, Expm1 and Xlog1py keep the digits of numbers near 0', async () => {
  const values = [
    0,
    1e-30,
    1e-12,
    3e-8,
    -3e-8,
    1e-4,
    -1e-3,
    0.3,
    -0.6,
    0.999,
    1,
    1.001,
    -1,
    7,
    -7,
    80,
    3e30,
    -3e30,
    Infinity,
    -Infinity,
    Number.NaN,
  ];
  for (const dtype of ['float32', 'float64'] as const) {
    const x = tensor(dtype, [values.length], values);
    const [log, power, product] = (await run({
      inputs: { x, two: tensor(dtype, [], [2]) },
      nodes: [
        ['l', 'Log1p', ['x']],
        ['e', 'Expm1', ['x']],
        ['p', 'Xlog1py', ['two', 'x']],
      ],
      outputs: ['l', 'e', 'p'],
    })) as [Tensor, Tensor, Tensor];
    for (const [i, given] of [...(x.data as Float64Array)].entries()) {
      const wanted = [Math.log1p(given), Math.expm1(given), 2 * Math.log1p(given)];
      for (const [k, { data }] of [log, power, product].entries()) {
        const want = dtype === 'float32' ? Math.fround(wanted[k] as number) : (wanted[k] as number);
        const got = data[i] as number;
        const isNear = Object.is(got, want) || got === want || Math.abs(got - want) <= 2e-6 * Math.abs(want);
        assert.ok(isNear, `${dtype}, output ${k} of ${given}: got ${got}, expected ${want}`);
      }
    }
  }
});

test('Bucketize compares a number of 64 bits with boundaries of 32, which are a little beside what was written', async () => {
  // 0.1 as a float is above 0.1 as a double.
  const nodes: NodeSpec[] = [['y', 'Bucketize', ['x'], { boundaries: a.floats([0.1]) }]];
  const at = (x: Tensor) => run({ inputs: { x }, nodes, outputs: ['y'] });
  const [wide] = await at(tensor('float64', [3], [0.1, Math.fround(0.1), 0.2]));
  assertTensor(wide as Tensor, int32s([3], [0, 1, 1]));
  const [plain] = await at(floats([2], [0.1, 0.05]));
  assertTensor(plain as Tensor, int32s([2], [1, 0]));
});

/** Inputs for one node of each operation in the table of kernels: shapes, and what is no number of the dtype itself. */
const SAMPLES: Readonly<
  Record<string, { readonly shapes: readonly (readonly number[])[]; readonly attributes?: object }>
> = {
  Conv: {
    shapes: [
      [1, 2, 4, 4],
      [3, 2, 2, 2],
    ],
  },
  ConvTranspose: {
    shapes: [
      [1, 2, 4, 4],
      [2, 3, 2, 2],
    ],
  },
  AveragePool: { shapes: [[1, 2, 4, 4]], attributes: { kernel_shape: [2, 2] } },
  MaxPool: { shapes: [[1, 2, 4, 4]], attributes: { kernel_shape: [2, 2] } },
  LRN: { shapes: [[1, 2, 4, 4]], attributes: { size: 3 } },
  BatchNormalization: { shapes: [[1, 2, 4, 4], [2], [2], [2], [2]] },
  Einsum: {
    shapes: [
      [4, 4],
      [4, 4],
    ],
    attributes: { equation: 'ij,jk->ik' },
  },
  DepthToSpace: { shapes: [[1, 4, 2, 2]], attributes: { blocksize: 2 } },
  SpaceToDepth: { shapes: [[1, 1, 4, 4]], attributes: { blocksize: 2 } },
  Trilu: { shapes: [[3, 3]] },
  Clip: { shapes: [[4, 4], [], []] },
  Range: { shapes: [[], [], []] },
  Mod: {
    shapes: [
      [4, 4],
      [4, 4],
    ],
    attributes: { fmod: 1 },
  },
};
const TWO = new Set(
  'Add Sub Mul Div Mod Pow Max Min PRelu Less LessOrEqual Greater GreaterOrEqual Equal MatMul'.split(' '),
);
const WITHOUT_TEXTS: readonly DType[] = [
  'float32',
  'float64',
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

function extraInputs(op: string, g: GraphBuilder, x: Value): (Value | undefined)[] {
  switch (op) {
    case 'ReduceSum':
      return [g.ints([0])];
    case 'TopK':
      return [g.ints([1])];
    case 'Pad':
      return [g.ints([0, 1, 1, 0]), x.dtype === 'bool' ? undefined : g.scalar(x.dtype, 0)];
    case 'CumSum':
      return [g.scalar('int64', 0)];
    case 'Resize':
      return [undefined, undefined, g.ints([4, 8])];
    default:
      return [];
  }
}

function buildSample(op: string, dtype: DType) {
  const g = new GraphBuilder();
  const sample = SAMPLES[op] ?? {
    shapes: TWO.has(op)
      ? [
          [4, 4],
          [4, 4],
        ]
      : [[4, 4]],
  };
  const inputs = sample.shapes.map((shape, i) => g.input(`x${i}`, dtype, shape));
  const [x] = inputs as [Value];
  const all = op === 'Where' ? [g.input('c', 'bool', [4, 4]), x, x] : [...inputs, ...extraInputs(op, g, x)];
  const [made] = emitAll(g, op, all, (sample.attributes ?? {}) as never, { outputs: op === 'TopK' ? 2 : 1 });
  g.output('y', made as Value);
  const feeds = Object.fromEntries(
    [...inputs, ...(op === 'Where' ? [{ name: 'c', dtype: 'bool' as const, shape: [4, 4] }] : [])].map(
      ({ name, dtype: own, shape }, i) => {
        const size = (shape as number[]).reduce((p, q) => p * q, 1);
        // Range from 1 below 2 by 1, and whole positive numbers everywhere, so that nothing divides by zero.
        const value = op === 'Range' ? [1, 2, 1][i] : 1;
        return [name, tensor(own as NumericDType, shape as number[], new Array(size).fill(value))];
      },
    ),
  );
  return { conversion: { graph: g.finish(), files: [], notes: [] }, feeds, dtype: (made as Value).dtype };
}

for (const [op, { dtypes }] of Object.entries(OPERATORS)) {
  if (!dtypes) continue;
  test(`onnxruntime runs ${op} on every number, with casts where it has no kernel`, async () => {
    const failed: string[] = [];
    for (const dtype of WITHOUT_TEXTS) {
      // No model takes the sine or the sum of truth values.
      if (dtype === 'bool' && !dtypes.includes('bool')) continue;
      const { conversion, feeds, dtype: out } = buildSample(op, dtype);
      try {
        const [y] = await runGraph(conversion, feeds);
        assert.equal(y?.dtype, out);
      } catch (error) {
        failed.push(`${dtype}: ${(error as Error).message.slice(0, 200)}`);
      }
    }
    assert.deepEqual(failed, []);
    assert.ok(WITHOUT_TEXTS.every(isNumericDType));
  });
}
