/**
 * Random ONNX graphs of the operators that have rules, from a seed. The generator follows shapes and where N is among the
 * sizes, but not whether rows stay apart: axes are drawn freely, so that many graphs mix rows by chance.
 */
import { allocate, type DType, elementCount, type Tensor } from '../../../lib/contract/tensor.ts';
import type { Attributes, Body, Node, Value } from '../../../onnx-import/graph/value.ts';
import { onnxBytes } from '../../../onnx-import/onnx/write.ts';

/** A size, times N where `rows`. */
interface Dim {
  readonly size: number;
  readonly rows: boolean;
}

interface Live {
  readonly value: Value;
  readonly dims: readonly Dim[];
}

export interface RandomGraph {
  readonly bytes: Uint8Array;
  /** Sizes of a row of the input; the batch axis is the first. */
  readonly row: readonly number[];
  /** Rows that the file fixes a run to; undefined when they are free. */
  readonly fixedRows: number | undefined;
  readonly dtype: 'float32' | 'int64';
  readonly operators: readonly string[];
  /** What was put in to mix rows, if anything was. */
  readonly planted: string | undefined;
}

const MAX_ELEMENTS = 3_000;

/** Numbers from 0 to below 1. */
export function random(seed: number): () => number {
  let state = (seed * 0x9e_37_79_b1) >>> 0;
  return () => {
    state = (state + 0x6d_2b_79_f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

const fixed = (size: number): Dim => ({ size, rows: false });

export class Generator {
  readonly nodes: Node[] = [];
  readonly live: Live[] = [];
  readonly next: () => number;
  planted: string | undefined;
  #names = 0;

  constructor(seed: number) {
    this.next = random(seed);
  }

  below(limit: number): number {
    return Math.floor(this.next() * limit);
  }

  pick<T>(items: readonly T[]): T {
    return items[this.below(items.length)] as T;
  }

  name(hint: string): string {
    this.#names += 1;
    return `${hint}_${this.#names}`;
  }

  constant(dtype: DType, shape: readonly number[], values: (i: number) => number): Value {
    if (dtype === 'string') throw new Error('no texts');
    const data = allocate(dtype, elementCount(shape));
    for (let i = 0; i < data.length; i++) {
      (data as { [i: number]: number | bigint })[i] = dtype === 'int64' ? BigInt(values(i)) : values(i);
    }
    const constant: Tensor = { dtype, shape, data };
    return { name: this.name('c'), dtype, shape, constant };
  }

  floats(...shape: number[]): Value {
    return this.constant('float32', shape, () => 2 * this.next() - 1);
  }

  ints(...values: number[]): Value {
    return this.constant('int64', [values.length], (i) => values[i] as number);
  }

  scalar(dtype: DType, value: number): Value {
    return this.constant(dtype, [], () => value);
  }

  /** A node with as many outputs as there are dtypes. */
  add(
    op: string,
    inputs: readonly (Value | undefined)[],
    attributes: Attributes = {},
    dtypes: DType[] = ['float32'],
  ) {
    const outputs = dtypes.map((dtype): Value => ({ name: this.name('v'), dtype, shape: undefined }));
    this.nodes.push({ op, inputs, outputs, attributes });
    return outputs;
  }

  one(
    op: string,
    inputs: readonly (Value | undefined)[],
    attributes: Attributes = {},
    dtype: DType = 'float32',
  ) {
    return this.add(op, inputs, attributes, [dtype])[0] as Value;
  }

  /** The axis with N, or -1. */
  batchOf({ dims }: Live): number {
    return dims.findIndex(({ rows }) => rows);
  }

  /** An axis; that of the rows only now and then. */
  axis(x: Live): number {
    const others = [...x.dims.keys()].filter((axis) => axis !== this.batchOf(x));
    return others.length > 0 && this.next() < 0.93 ? this.pick(others) : this.below(x.dims.length);
  }
}

/** What an operator makes of a value; undefined where it cannot be applied. */
type Step = (g: Generator, x: Live) => Live | undefined;

const UNARY = [
  'Relu',
  'Sigmoid',
  'Tanh',
  'Abs',
  'Neg',
  'Erf',
  'Softplus',
  'Softsign',
  'Sin',
  'Identity',
  'LeakyRelu',
  'Elu',
];
const REDUCE = ['ReduceMax', 'ReduceMean', 'ReduceMin', 'ReduceL2', 'ReduceLogSumExp'];

const unary: Step = (g, x) => ({ value: g.one(g.pick(UNARY), [x.value]), dims: x.dims });

const withConstant: Step = (g, x) => {
  const rank = g.below(x.dims.length + 1);
  const shape = x.dims
    .slice(x.dims.length - rank)
    .map(({ size, rows }) => (rows || g.next() < 0.3 ? 1 : size));
  const inputs = g.next() < 0.5 ? [x.value, g.floats(...shape)] : [g.floats(...shape), x.value];
  return { value: g.one(g.pick(['Add', 'Sub', 'Mul', 'Max', 'Min']), inputs), dims: x.dims };
};

const withOther: Step = (g, x) => {
  const sameSize = g.live.filter(
    ({ dims }) =>
      dims.length === x.dims.length &&
      dims.every((dim, i) => dim.size === x.dims[i]?.size && dim.rows === x.dims[i]?.rows),
  );
  return {
    value: g.one(g.pick(['Add', 'Sub', 'Mul', 'Max']), [x.value, g.pick(sameSize).value]),
    dims: x.dims,
  };
};

/** No value comes near the number that it is compared with by rounding alone, as it would with 0. */
const where: Step = (g, x) => {
  const condition = g.one(g.pick(['Greater', 'Less']), [x.value, g.scalar('float32', 0.31)], {}, 'bool');
  return { value: g.one('Where', [condition, x.value, g.scalar('float32', 0.25)]), dims: x.dims };
};

const reduce: Step = (g, x) => {
  const axis = g.axis(x);
  const keep = g.next() < 0.6;
  if (!keep && x.dims.length < 2) return undefined;
  const value = g.one(g.pick(REDUCE), [x.value], {
    axes: [g.next() < 0.5 ? axis : axis - x.dims.length],
    keepdims: keep ? 1 : 0,
  });
  const dims = keep ? x.dims.with(axis, fixed(1)) : x.dims.toSpliced(axis, 1);
  return { value, dims };
};

const centred: Step = (g, x) => {
  const mean = g.one('ReduceMean', [x.value], { axes: [g.axis(x)], keepdims: 1 });
  return { value: g.one('Sub', [x.value, mean]), dims: x.dims };
};

const alongAxis: Step = (g, x) => {
  const axis = g.axis(x);
  const op = g.pick(['Softmax', 'LogSoftmax', 'CumSum', 'LpNormalization']);
  const value =
    op === 'CumSum' ? g.one(op, [x.value, g.scalar('int64', axis)]) : g.one(op, [x.value], { axis });
  return { value, dims: x.dims };
};

const topK: Step = (g, x) => {
  const axis = g.axis(x);
  const { size, rows } = x.dims[axis] as Dim;
  if (rows || size < 2) return undefined;
  const [value] = g.add('TopK', [x.value, g.ints(size - 1)], { axis }, ['float32', 'int64']);
  return { value: value as Value, dims: x.dims.with(axis, fixed(size - 1)) };
};

const argMax: Step = (g, x) => {
  const axis = g.axis(x);
  if (x.dims.length < 2) return undefined;
  const found = g.one('ArgMax', [x.value], { axis, keepdims: 0 }, 'int64');
  return { value: g.one('Cast', [found], { to: 1 }), dims: x.dims.toSpliced(axis, 1) };
};

const layerNormalization: Step = (g, x) => {
  const last = x.dims.at(-1) as Dim;
  if (last.rows) return undefined;
  return {
    value: g.one('LayerNormalization', [x.value, g.floats(last.size), g.floats(last.size)], { axis: -1 }),
    dims: x.dims,
  };
};

const batchNormalization: Step = (g, x) => {
  const channels = x.dims[1];
  if (!channels || channels.rows) return undefined;
  const { size } = channels;
  const variance = g.constant('float32', [size], () => 0.5 + g.next());
  const value = g.one('BatchNormalization', [
    x.value,
    g.floats(size),
    g.floats(size),
    g.floats(size),
    variance,
  ]);
  return { value, dims: x.dims };
};

const instanceNormalization: Step = (g, x) => {
  const channels = x.dims[1];
  if (x.dims.length < 3 || !channels || channels.rows) return undefined;
  return {
    value: g.one('InstanceNormalization', [x.value, g.floats(channels.size), g.floats(channels.size)]),
    dims: x.dims,
  };
};

const matMul: Step = (g, x) => {
  const last = x.dims.at(-1) as Dim;
  if (last.rows) return undefined;
  const width = 2 + g.below(4);
  const isScaled = g.next() < 0.5 && x.dims.length === 2;
  const weights = g.floats(last.size, width);
  const value = isScaled
    ? g.one('Gemm', [x.value, weights, g.floats(width)])
    : g.one('MatMul', [x.value, weights]);
  return { value, dims: [...x.dims.slice(0, -1), fixed(width)] };
};

const matMulLeft: Step = (g, x) => {
  const inner = x.dims.at(-2);
  if (!inner || inner.rows) return undefined;
  const height = 2 + g.below(3);
  return {
    value: g.one('MatMul', [g.floats(height, inner.size), x.value]),
    dims: x.dims.with(x.dims.length - 2, fixed(height)),
  };
};

/** Attention without weights: x · xᵀ · x. */
const attention: Step = (g, x) => {
  if (x.dims.length !== 3 || (x.dims[2] as Dim).rows) return undefined;
  const scores = g.one('MatMul', [x.value, g.one('Transpose', [x.value], { perm: [0, 2, 1] })]);
  return { value: g.one('MatMul', [g.one('Softmax', [scores], { axis: -1 }), x.value]), dims: x.dims };
};

const einsum: Step = (g, x) => {
  if (x.dims.length !== 3) return undefined;
  const last = x.dims[2] as Dim;
  if (last.rows) return undefined;
  return {
    value: g.one('Einsum', [x.value, g.floats(last.size, 4)], { equation: 'abc,cd->abd' }),
    dims: x.dims.with(2, fixed(4)),
  };
};

const transpose: Step = (g, x) => {
  const perm = [...x.dims.keys()];
  for (let i = perm.length - 1; i > 0; i--) {
    const j = g.below(i + 1);
    [perm[i], perm[j]] = [perm[j] as number, perm[i] as number];
  }
  return { value: g.one('Transpose', [x.value], { perm }), dims: perm.map((axis) => x.dims[axis] as Dim) };
};

const merged = (a: Dim, b: Dim): Dim => ({ size: a.size * b.size, rows: a.rows || b.rows });

/** Two neighbours become one axis, by a constant or by arithmetic on the shape. */
const merge: Step = (g, x) => {
  if (x.dims.length < 2) return undefined;
  const at = g.below(x.dims.length - 1);
  const dims = x.dims.toSpliced(at, 2, merged(x.dims[at] as Dim, x.dims[at + 1] as Dim));
  const batch = dims.findIndex(({ rows }) => rows);
  if (g.next() < 0.5) {
    const shape = dims.map(({ size }, axis) => (axis === (batch < 0 ? at : batch) ? -1 : size));
    return { value: g.one('Reshape', [x.value, g.ints(...shape)]), dims };
  }
  const shape = g.one('Shape', [x.value], {}, 'int64');
  const part = (axis: number) => g.one('Gather', [shape, g.ints(axis)], { axis: 0 }, 'int64');
  const parts = dims.map((_, axis) => {
    if (axis < at) return part(axis);
    return axis > at ? part(axis + 1) : g.one('Mul', [part(at), part(at + 1)], {}, 'int64');
  });
  return { value: g.one('Reshape', [x.value, g.one('Concat', parts, { axis: 0 }, 'int64')]), dims };
};

/** One axis becomes two. Where the rows are on it, N is said to be the first of them, whether that is so or not. */
const divide: Step = (g, x) => {
  const at = g.below(x.dims.length);
  const { size, rows } = x.dims[at] as Dim;
  const factor = [2, 3, 4].find((number) => size % number === 0);
  if (factor === undefined || x.dims.length > 4) return undefined;
  const parts: Dim[] = [{ size: size / factor, rows }, fixed(factor)];
  const isSwapped = rows && g.next() < 0.3;
  const dims = x.dims.toSpliced(at, 1, ...(isSwapped ? parts.toReversed() : parts));
  const shape = dims.map((dim) => (dim.rows ? -1 : dim.size));
  return { value: g.one('Reshape', [x.value, g.ints(...shape)]), dims };
};

const flatten: Step = (g, x) => {
  if (x.dims.length < 2) return undefined;
  const axis = 1 + g.below(x.dims.length - 1);
  const all = (dims: readonly Dim[]) => dims.reduce(merged);
  return {
    value: g.one('Flatten', [x.value], { axis }),
    dims: [all(x.dims.slice(0, axis)), all(x.dims.slice(axis))],
  };
};

const unsqueeze: Step = (g, x) => {
  if (x.dims.length > 4) return undefined;
  const axis = g.below(x.dims.length + 1);
  return { value: g.one('Unsqueeze', [x.value, g.ints(axis)]), dims: x.dims.toSpliced(axis, 0, fixed(1)) };
};

const squeeze: Step = (g, x) => {
  const axis = x.dims.findIndex(({ size, rows }) => size === 1 && !rows);
  return axis < 0
    ? undefined
    : { value: g.one('Squeeze', [x.value, g.ints(axis)]), dims: x.dims.toSpliced(axis, 1) };
};

const expand: Step = (g, x) => {
  const axis = x.dims.findIndex(({ size, rows }) => size === 1 && !rows);
  if (axis < 0) return undefined;
  const shape = x.dims.map((_, i) => (i === axis ? 3 : 1));
  return { value: g.one('Expand', [x.value, g.ints(...shape)]), dims: x.dims.with(axis, fixed(3)) };
};

const tile: Step = (g, x) => {
  const axis = g.axis(x);
  const { size, rows } = x.dims[axis] as Dim;
  const repeats = x.dims.map((_, i) => (i === axis ? 2 : 1));
  return {
    value: g.one('Tile', [x.value, g.ints(...repeats)]),
    dims: x.dims.with(axis, { size: 2 * size, rows }),
  };
};

const concat: Step = (g, x) => {
  const axis = g.axis(x);
  const { size, rows } = x.dims[axis] as Dim;
  return {
    value: g.one('Concat', [x.value, g.one('Tanh', [x.value])], { axis }),
    dims: x.dims.with(axis, { size: 2 * size, rows }),
  };
};

const split: Step = (g, x) => {
  const axis = g.axis(x);
  const { size, rows } = x.dims[axis] as Dim;
  if (rows || size % 2 !== 0) return undefined;
  const [first, second] = g.add('Split', [x.value], { axis }, ['float32', 'float32']) as [Value, Value];
  return { value: g.one('Mul', [first, second]), dims: x.dims.with(axis, fixed(size / 2)) };
};

const slice: Step = (g, x) => {
  const axis = g.axis(x);
  const { size, rows } = x.dims[axis] as Dim;
  if (rows) {
    const value = g.one('Slice', [x.value, g.ints(0), g.ints(2 ** 31), g.ints(axis), g.ints(1)]);
    return { value, dims: x.dims };
  }
  if (size < 2) return undefined;
  const isReversed = g.next() < 0.3;
  const [start, end, step] = isReversed ? [-1, -size - 1, -1] : [1, 2 ** 31, 1];
  const value = g.one('Slice', [x.value, g.ints(start), g.ints(end), g.ints(axis), g.ints(step)]);
  return { value, dims: x.dims.with(axis, fixed(isReversed ? size : size - 1)) };
};

const gather: Step = (g, x) => {
  const axis = g.axis(x);
  const { size, rows } = x.dims[axis] as Dim;
  if (rows) return undefined;
  const places = g.ints(g.below(size), g.below(size));
  return { value: g.one('Gather', [x.value, places], { axis }), dims: x.dims.with(axis, fixed(2)) };
};

const pad: Step = (g, x) => {
  const axis = g.axis(x);
  const { size, rows } = x.dims[axis] as Dim;
  if (rows) return undefined;
  const pads = [...x.dims, ...x.dims].map((_, i) => (i % x.dims.length === axis ? 1 : 0));
  const mode = size > 1 ? g.pick(['constant', 'edge', 'reflect']) : 'edge';
  return {
    value: g.one('Pad', [x.value, g.ints(...pads)], { mode }),
    dims: x.dims.with(axis, fixed(size + 2)),
  };
};

const convolution: Step = (g, x) => {
  if (
    x.dims.length < 3 ||
    x.dims.length > 4 ||
    x.dims.slice(1).some(({ rows, size }, i) => rows || (i > 0 && size < 3))
  )
    return undefined;
  const [first, channels, ...spatial] = x.dims as [Dim, Dim, ...Dim[]];
  const kernel = spatial.map(() => 3);
  const op = g.pick(['Conv', 'MaxPool', 'AveragePool', 'ConvTranspose', 'GlobalAveragePool']);
  if (op === 'GlobalAveragePool')
    return { value: g.one(op, [x.value]), dims: [first, channels, ...spatial.map(() => fixed(1))] };
  if (op.endsWith('Pool')) {
    return {
      value: g.one(op, [x.value], { kernel_shape: kernel }),
      dims: [first, channels, ...spatial.map(({ size }) => fixed(size - 2))],
    };
  }
  const weights = op === 'Conv' ? [4, channels.size, ...kernel] : [channels.size, 4, ...kernel];
  const value = g.one(op, [x.value, g.floats(...weights), g.floats(4)], {});
  return {
    value,
    dims: [first, fixed(4), ...spatial.map(({ size }) => fixed(op === 'Conv' ? size - 2 : size + 2))],
  };
};

const recurrent: Step = (g, x) => {
  if (x.dims.length !== 3 || (x.dims[2] as Dim).rows) return undefined;
  const [op, gates] = g.pick([
    ['LSTM', 4],
    ['GRU', 3],
    ['RNN', 1],
  ] as const);
  const [time, batch, features] = x.dims as [Dim, Dim, Dim];
  const hidden = 3;
  const weights = [g.floats(1, gates * hidden, features.size), g.floats(1, gates * hidden, hidden)];
  const dtypes: DType[] = op === 'LSTM' ? ['float32', 'float32', 'float32'] : ['float32', 'float32'];
  const outputs = g.add(op, [x.value, ...weights], { hidden_size: hidden }, dtypes) as [Value, Value];
  if (g.next() < 0.5) return { value: outputs[1], dims: [fixed(1), batch, fixed(hidden)] };
  return { value: outputs[0], dims: [time, fixed(1), batch, fixed(hidden)] };
};

/** The Tanh keeps onnxruntime 1.30 from moving the pair behind a Reshape into a Loop's body, which ends the process. */
const quantize: Step = (g, x) => {
  const scale = g.scalar('float32', 0.05);
  const zero = g.scalar('uint8', 128);
  const quantized = g.one('QuantizeLinear', [x.value, scale, zero], {}, 'uint8');
  return { value: g.one('Tanh', [g.one('DequantizeLinear', [quantized, scale, zero])]), dims: x.dims };
};

/** Zeros of the value's own shape, computed by shape arithmetic. */
const zeros: Step = (g, x) => {
  const shape = g.one('Shape', [x.value], {}, 'int64');
  const value: Tensor = { dtype: 'float32', shape: [1], data: new Float32Array([0.5]) };
  const made = g.one('ConstantOfShape', [shape], { value: { tensor: value } });
  return { value: g.one('Add', [made, x.value]), dims: x.dims };
};

/** A body that computes one value from those around it. */
export function bodyOf(inputs: readonly Value[], outputs: readonly Value[], nodes: readonly Node[]): Body {
  return { inputs, outputs: outputs.map((value) => ({ name: value.name, value })), nodes };
}

const branch: Step = (g, x) => {
  const make = (op: string): Body => {
    const output: Value = { name: g.name('b'), dtype: 'float32', shape: undefined };
    return bodyOf([], [output], [{ op, inputs: [x.value], outputs: [output], attributes: {} }]);
  };
  const last = g.one('Shape', [x.value], { start: -1 }, 'int64');
  const whole = g.one('Squeeze', [last, g.ints(0)], {}, 'int64');
  const condition = g.one('Greater', [whole, g.scalar('int64', 3)], {}, 'bool');
  const value = g.one('If', [condition], {
    then_branch: { body: make('Tanh') },
    else_branch: { body: make('Sigmoid') },
  });
  return { value, dims: x.dims };
};

/** The first axis is gone through, with a running sum that is collected. */
const scan: Step = (g, x) => {
  if (x.dims.length < 2) return undefined;
  const axis = g.axis(x);
  const rest = x.dims.toSpliced(axis, 1);
  const zero = g.one('ReduceSum', [g.one('Mul', [x.value, g.scalar('float32', 0)]), g.ints(axis)], {
    keepdims: 0,
  });
  // onnxruntime wants the shapes of a Scan's body where it does not infer them.
  const shape = rest.map(({ size, rows }) => (rows ? g.name('free') : size));
  const names = ['state', 'slice', 'sum', 'copy'].map(
    (hint): Value => ({ name: g.name(hint), dtype: 'float32', shape }),
  );
  const [state, part, sum, copy] = names as [Value, Value, Value, Value];
  const body = bodyOf(
    [state, part],
    [sum, copy],
    [
      { op: 'Add', inputs: [state, part], outputs: [sum], attributes: {} },
      { op: 'Tanh', inputs: [sum], outputs: [copy], attributes: {} },
    ],
  );
  const outputs = g.add(
    'Scan',
    [zero, x.value],
    { body: { body }, num_scan_inputs: 1, scan_input_axes: [axis] },
    ['float32', 'float32'],
  ) as [Value, Value];
  return g.next() < 0.5
    ? { value: outputs[0], dims: rest }
    : { value: outputs[1], dims: [x.dims[axis] as Dim, ...rest] };
};

const loop: Step = (g, x) => {
  const shape: readonly number[] = [];
  const turn: Value = { name: g.name('turn'), dtype: 'int64', shape };
  const goes: Value = { name: g.name('goes'), dtype: 'bool', shape };
  const names = ['state', 'next', 'goesOn', 'half'].map(
    (hint): Value => ({ name: g.name(hint), dtype: 'float32', shape: undefined }),
  );
  const [state, after, , half] = names as [Value, Value, Value, Value];
  const goesOn: Value = { name: g.name('goesOn'), dtype: 'bool', shape };
  const body = bodyOf(
    [turn, goes, state],
    [goesOn, after],
    [
      { op: 'Identity', inputs: [goes], outputs: [goesOn], attributes: {} },
      { op: 'Mul', inputs: [state, g.scalar('float32', 0.5)], outputs: [half], attributes: {} },
      { op: 'Sub', inputs: [half, x.value], outputs: [after], attributes: {} },
    ],
  );
  return {
    value: g.one('Loop', [g.scalar('int64', 3), undefined, x.value], { body: { body } }),
    dims: x.dims,
  };
};

const trilu: Step = (g, x) =>
  x.dims.length < 3 ? undefined : { value: g.one('Trilu', [x.value], { upper: g.below(2) }), dims: x.dims };

const resize: Step = (g, x) => {
  if (x.dims.length !== 4 || x.dims.slice(2).some(({ rows }) => rows)) return undefined;
  const scales = g.constant('float32', [4], (i) => (i < 2 ? 1 : 2));
  const value = g.one('Resize', [x.value, undefined, scales], { mode: g.pick(['nearest', 'linear']) });
  return { value, dims: x.dims.map((dim, i) => (i < 2 ? dim : fixed(2 * dim.size))) };
};

/** The largest element along an axis, taken by its place. */
const gatherElements: Step = (g, x) => {
  const axis = g.axis(x);
  const places = g.one('ArgMax', [x.value], { axis, keepdims: 1 }, 'int64');
  const value = g.one('GatherElements', [x.value, places], { axis });
  return { value, dims: x.dims.with(axis, fixed(1)) };
};

/** One number for each class of the last axis. */
const oneHot: Step = (g, x) => {
  const last = x.dims.at(-1) as Dim;
  if (last.rows || x.dims.length < 2) return undefined;
  const found = g.one('ArgMax', [x.value], { axis: -1, keepdims: 0 }, 'int64');
  const axis = g.below(x.dims.length) - (g.next() < 0.5 ? x.dims.length : 0);
  const values = g.constant('float32', [2], (i) => i);
  const value = g.one('OneHot', [found, g.scalar('int64', last.size), values], { axis });
  const at = axis < 0 ? axis + x.dims.length : axis;
  return { value, dims: x.dims.slice(0, -1).toSpliced(at, 0, fixed(last.size)) };
};

const blocks: Step = (g, x) => {
  const [first, channels, height, width] = x.dims;
  if (x.dims.length !== 4 || !first || !channels || !height || !width) return undefined;
  if (x.dims.slice(1).some(({ rows }) => rows) || height.size % 2 !== 0 || width.size % 2 !== 0)
    return undefined;
  const value = g.one('SpaceToDepth', [x.value], { blocksize: 2 });
  return { value, dims: [first, fixed(channels.size * 4), fixed(height.size / 2), fixed(width.size / 2)] };
};

/** Zeros at one place of an axis. */
const scatter: Step = (g, x) => {
  const axis = g.axis(x);
  const part = g.one('Slice', [x.value, g.ints(0), g.ints(1), g.ints(axis), g.ints(1)]);
  const places = g.one('Cast', [g.one('Mul', [part, g.scalar('float32', 0)])], { to: 7 }, 'int64');
  const value = g.one('ScatterElements', [x.value, places, g.one('Tanh', [part])], { axis });
  return { value, dims: x.dims };
};

const compress: Step = (g, x) => {
  const axis = g.axis(x);
  const { size, rows } = x.dims[axis] as Dim;
  if (rows) return undefined;
  const condition = g.constant('bool', [size], (i) => (i === 0 ? 1 : 0));
  return { value: g.one('Compress', [x.value, condition], { axis }), dims: x.dims.with(axis, fixed(1)) };
};

const STEPS: readonly Step[] = [
  gatherElements,
  oneHot,
  blocks,
  blocks,
  scatter,
  compress,
  unary,
  unary,
  unary,
  withConstant,
  withConstant,
  withOther,
  where,
  reduce,
  centred,
  alongAxis,
  topK,
  argMax,
  layerNormalization,
  batchNormalization,
  instanceNormalization,
  matMul,
  matMul,
  matMulLeft,
  attention,
  einsum,
  transpose,
  transpose,
  merge,
  merge,
  divide,
  divide,
  flatten,
  unsqueeze,
  squeeze,
  expand,
  tile,
  concat,
  split,
  slice,
  gather,
  pad,
  convolution,
  convolution,
  recurrent,
  recurrent,
  quantize,
  zeros,
  branch,
  scan,
  loop,
  trilu,
  resize,
];

/** Ways to mix rows, each on a value whose axis `axis` has N. They keep the shape. */
const PLANTS: Readonly<Record<string, (g: Generator, x: Live, axis: number) => Value>> = {
  mean: (g, x, axis) =>
    g.one('Sub', [x.value, g.one('ReduceMean', [x.value], { axes: [axis], keepdims: 1 })]),
  largest: (g, x, axis) =>
    g.one('Sub', [x.value, g.one('ReduceMax', [x.value], { axes: [axis], keepdims: 1 })]),
  all: (g, x) => g.one('Div', [x.value, g.one('ReduceL2', [x.value], { keepdims: 0 })]),
  softmax: (g, x, axis) => g.one('Softmax', [x.value], { axis }),
  cumSum: (g, x, axis) => g.one('CumSum', [x.value, g.scalar('int64', axis)]),
  count: (g, x) => {
    const count = g.one('Cast', [g.one('Size', [x.value], {}, 'int64')], { to: 1 });
    return g.one('Div', [x.value, count]);
  },
  place: (g, x, axis) => {
    const count = g.one(
      'Squeeze',
      [g.one('Shape', [x.value], { start: axis, end: axis + 1 }, 'int64'), g.ints(0)],
      {},
      'int64',
    );
    const places = g.one(
      'Cast',
      [g.one('Range', [g.scalar('int64', 0), count, g.scalar('int64', 1)], {}, 'int64')],
      { to: 1 },
    );
    const shape = x.dims.map((_, i) => (i === axis ? -1 : 1));
    return g.one('Add', [x.value, g.one('Reshape', [places, g.ints(...shape)])]);
  },
  quantized: (g, x) => {
    const [whole, scale, zero] = g.add('DynamicQuantizeLinear', [x.value], {}, [
      'uint8',
      'float32',
      'uint8',
    ]) as [Value, Value, Value];
    return g.one('DequantizeLinear', [whole, scale, zero]);
  },
  before: (g, x, axis) => {
    const pads = [...x.dims, ...x.dims].map((_, i) => (i === axis ? 1 : 0));
    const padded = g.one('Pad', [x.value, g.ints(...pads)], {});
    return g.one('Sub', [x.value, g.one('Slice', [padded, g.ints(0), g.ints(-1), g.ints(axis)])]);
  },
  reversed: (g, x, axis) =>
    g.one('Add', [
      x.value,
      g.one('Slice', [x.value, g.ints(-1), g.ints(-(2 ** 31)), g.ints(axis), g.ints(-1)]),
    ]),
};

const INPUTS: readonly (readonly number[])[] = [[6], [4, 6], [4, 6], [3, 8, 8]];

/** @param plants puts an operator into it that mixes rows */
export function randomGraph(seed: number, plants = false): RandomGraph {
  const g = new Generator(seed);
  const dtype = g.next() < 0.2 ? 'int64' : 'float32';
  const row = dtype === 'int64' ? [5] : g.pick(INPUTS);
  const fixedRows = g.next() < 0.15 ? 4 : undefined;
  const input: Value = { name: 'x', dtype, shape: [fixedRows ?? 'N', ...row] };
  const dims: Dim[] = [{ size: 1, rows: true }, ...row.map(fixed)];
  let last: Live = { value: input, dims };
  if (dtype === 'int64') {
    last = { value: g.one('Gather', [g.floats(10, 4), input], { axis: 0 }), dims: [...dims, fixed(4)] };
  }
  g.live.push(last);
  const length = 2 + g.below(7);
  const plantAt = plants ? g.below(length) : -1;
  for (let step = 0; step < length; step++) {
    const batch = g.batchOf(last);
    if (step === plantAt && batch >= 0) {
      // A number of rows that is fixed is the same for all.
      g.planted = g.pick(Object.keys(PLANTS).filter((name) => name !== 'count' || fixedRows === undefined));
      last = { value: (PLANTS[g.planted] as (typeof PLANTS)[string])(g, last, batch), dims: last.dims };
      g.live.splice(0, g.live.length, last);
      continue;
    }
    const made = g.pick(STEPS)(g, last);
    const size = made?.dims.reduce((all, dim) => all * dim.size, 1) ?? 0;
    // A step that loses the rows leaves nothing to compare.
    if (!made || size > MAX_ELEMENTS || g.batchOf(made) < 0) continue;
    last = made;
    g.live.push(made);
  }
  const output = rowsFirst(g, last, fixedRows ?? 'N');
  const body: Body = { inputs: [input], outputs: [{ name: output.name, value: output }], nodes: g.nodes };
  return {
    bytes: onnxBytes(body),
    row,
    fixedRows,
    dtype,
    operators: g.nodes.map(({ op }) => op),
    planted: g.planted,
  };
}

/** Five rows for its input, of different scales; row 1 is much larger. */
export function randomRows({ row, dtype }: RandomGraph, seed: number): Tensor[][] {
  const next = random(seed + 1);
  const count = elementCount(row);
  return Array.from({ length: 5 }, (_, number) => {
    const scale = number === 1 ? 50 : 2;
    const data =
      dtype === 'int64'
        ? BigInt64Array.from({ length: count }, () => BigInt(Math.floor(next() * 10)))
        : Float32Array.from({ length: count }, () => (2 * next() - 1) * scale);
    return [{ dtype, shape: [1, ...row], data }];
  });
}

/** An output with N alone on its first axis. */
function rowsFirst(g: Generator, x: Live, n: number | string): Value {
  const batch = g.batchOf(x);
  const order = [batch, ...[...x.dims.keys()].filter((axis) => axis !== batch)];
  const moved = batch === 0 ? x.value : g.one('Transpose', [x.value], { perm: order });
  const [rows, ...rest] = order.map((axis) => x.dims[axis] as Dim) as [Dim, ...Dim[]];
  const shape = [-1, rows.size, ...rest.map(({ size }) => size)];
  const value = rows.size === 1 ? g.one('Identity', [moved]) : g.one('Reshape', [moved, g.ints(...shape)]);
  return { ...value, shape: [n, ...(rows.size === 1 ? [] : [rows.size]), ...rest.map(({ size }) => size)] };
}
