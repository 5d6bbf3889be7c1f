/**
 * Elements by their places: Gather, Scatter, one-hot, segments.
 * Trap: TensorFlow drops or zeroes places that are outside, ONNX counts negative ones from the end or fails.
 */
import type { GraphBuilder } from '../../graph/builder.ts';
import { constantNumber, constantNumbers } from '../../graph/numbers.ts';
import { axisOf, fixed, rank } from '../../graph/shapes.ts';
import type { Value } from '../../graph/value.ts';
import { intAttribute, type TfNode } from '../graph.ts';
import { reshape, type Size, shapeList, sizesOf, transpose, unsqueeze } from './dims.ts';
import { cast, emit, int64, oneNumber } from './kernels.ts';
import { type OpTable, type Rule, refuse, takes } from './rule.ts';

/** Elements of `x` at `indices`, the first `batch` axes of both being the same. */
function gather(
  node: TfNode,
  g: GraphBuilder,
  x: Value,
  indices: Value,
  at: { axis: number; batch: number },
): Value {
  const { batch, axis } = at;
  const places = indices.dtype === 'int32' || indices.dtype === 'int64' ? indices : cast(g, indices, 'int64');
  if (batch === 0) return g.one('Gather', [x, places], { axis }, node.name);
  const size = rank(x);
  const own = axisOf(axis, size);
  const depth = batch < 0 ? batch + rank(indices) : batch;
  if (own < depth) refuse(`needs axis ${own} behind its ${depth} batch dimensions`);
  const middle = Array.from({ length: own - depth }, (_, i) => depth + i);
  const front = Array.from({ length: depth }, (_, i) => i);
  const tail = Array.from({ length: size - own - 1 }, (_, i) => own + 1 + i);
  // The axis behind the batch; what was between them follows.
  const moved = transpose(g, x, [...front, own, ...middle, ...tail]);
  const wide = unsqueeze(g, int64(g, places), [-1]);
  const made = g.one('GatherND', [moved, wide], { batch_dims: depth }, node.name);
  if (middle.length === 0) return made;
  const inner = rank(indices) - depth;
  const between = middle.map((_, i) => depth + inner + i);
  const rest = tail.map((_, i) => depth + inner + middle.length + i);
  return transpose(
    g,
    made,
    [...front, ...between, ...Array.from({ length: inner }, (_, i) => depth + i), ...rest],
    node.name,
  );
}

const gatherNd: Rule = (node, [x, indices], g) =>
  g.one('GatherND', [x, int64(g, indices)], { batch_dims: intAttribute(node, 'batch_dims', 0) }, node.name);

/** One-hot by comparing: a place outside gives a row without a hit. */
const oneHot: Rule = (node, [indices, depth, on, off], g) => {
  const size = rank(indices) + 1;
  const axis = axisOf(intAttribute(node, 'axis', -1), size);
  const count = depth.elements?.[0];
  const end = typeof count === 'number' ? g.scalar('int64', count) : int64(g, depth);
  const numbers = g.one('Range', [g.scalar('int64', 0), end, g.scalar('int64', 1)]);
  const column = unsqueeze(
    g,
    numbers,
    Array.from({ length: size - 1 }, (_, i) => (i < axis ? i : i + 1)),
  );
  const hit = g.one('Equal', [unsqueeze(g, int64(g, indices), [axis]), column]);
  return emit(g, 'Where', [hit, on, off], {}, node.name);
};

function zeros(g: GraphBuilder, like: Value, shape: Value): Value {
  return g.one('Expand', [g.scalar(like.dtype, 0), shape]);
}

const scatterNd: Rule = (node, [indices, updates, shape], g) =>
  g.one(
    'ScatterND',
    [zeros(g, updates, int64(g, shape)), int64(g, indices), updates],
    { reduction: 'add' },
    node.name,
  );

/** What one place gets when it is written twice is anybody's guess: onnxruntime writes from several threads. */
const tensorUpdate: Rule = (node, [x, indices, updates], g, { notes }) => {
  if (!isWrittenOnce(indices)) {
    notes.push(
      `node "${node.name}" (${node.op}) may write one place twice: TensorFlow does not say which counts, nor does ONNX`,
    );
  }
  return g.one('ScatterND', [x, int64(g, indices), updates], {}, node.name);
};

/** Surely no place comes twice. */
function isWrittenOnce(indices: Value): boolean {
  if (indices.shape?.slice(0, -1).every((dim) => dim === 1)) return true;
  if (!indices.constant) return false;
  const rows = rowsOf(indices);
  return new Set(rows).size === rows.length;
}

function tensorScatter(reduction: 'add', negate = false): Rule {
  return (node, [x, indices, updates], g) => {
    const added = negate ? emit(g, 'Neg', [updates]) : updates;
    return g.one('ScatterND', [x, int64(g, indices), added], { reduction }, node.name);
  };
}

/** Opset 17 knows no maximum; where every place surely comes once, the old element is read and the larger one written. */
function tensorExtreme(op: 'Max' | 'Min'): Rule {
  return (node, [x, indices, updates], g) => {
    const at = int64(g, indices);
    const rows = rowsOf(indices);
    if (new Set(rows).size < rows.length) refuse('writes to one place twice, which is not supported');
    const better = emit(g, op, [g.one('GatherND', [x, at]), updates]);
    return g.one('ScatterND', [x, at, better], {}, node.name);
  };
}

function rowsOf(indices: Value): string[] {
  const numbers = constantNumbers(indices, 'list of places');
  const depth = indices.shape?.at(-1);
  const width = typeof depth === 'number' && depth > 0 ? depth : 1;
  return Array.from({ length: numbers.length / width }, (_, i) =>
    numbers.slice(i * width, (i + 1) * width).join(),
  );
}

const sparseToDense: Rule = (node, inputs, g) => {
  const [indices, shape, values, fallback] = inputs;
  const size = fixed(shape, 0);
  const places = reshape(g, int64(g, indices), [-1, size]);
  const start = g.one('Expand', [fallback ?? g.scalar(values.dtype, 0), int64(g, shape)]);
  const rows = g.one('Shape', [places], { start: 0, end: 1 });
  const spread = g.one('Expand', [values, rows]);
  return g.one('ScatterND', [start, places, spread], {}, node.name);
};

/** Rows that belong together are next to each other: as many results as the last row's number says. */
function rowCount(g: GraphBuilder, segments: Value): Value {
  const last = emit(g, 'ReduceMax', [int64(g, segments)], { keepdims: 0 });
  return unsqueeze(g, g.one('Add', [last, g.scalar('int64', 1)]), [0]);
}

type Join = 'sum' | 'mean' | 'sqrtn';

function joinRows(
  node: TfNode,
  g: GraphBuilder,
  data: Value,
  segments: Value,
  count: Value,
  how: Join,
): Value {
  const rows = unsqueeze(g, int64(g, segments), [1]);
  const inner = sizesOf(g, data).slice(1);
  const total = (values: Value, tail: readonly Size[]) =>
    g.one(
      'ScatterND',
      [zeros(g, values, shapeList(g, [count, ...tail])), rows, values],
      { reduction: 'add' },
      node.name,
    );
  const sum = total(data, inner);
  if (how === 'sum') return sum;
  const ones = g.one('Expand', [g.scalar(data.dtype, 1), g.one('Shape', [segments])]);
  const many = emit(g, 'Max', [total(ones, []), g.scalar(data.dtype, 1)]);
  const by = how === 'mean' ? many : emit(g, 'Sqrt', [many]);
  return emit(
    g,
    'Div',
    [
      sum,
      unsqueeze(
        g,
        by,
        inner.map((_, i) => i + 1),
      ),
    ],
    {},
    node.name,
  );
}

function segment(how: Join): Rule {
  return (node, [data, segments], g) => joinRows(node, g, data, segments, rowCount(g, segments), how);
}

function sparseSegment(how: Join, counted = false): Rule {
  return (node, inputs, g) => {
    const [data, indices, segments] = inputs;
    const rows = g.one('Gather', [data, int64(g, indices)], { axis: 0 });
    const count = counted ? oneNumber(g, inputs[3], 'int64') : rowCount(g, segments);
    return joinRows(node, g, rows, segments, count, how);
  };
}

/** A negative number drops its row: it goes to a row behind the last, which is cut off. */
const unsortedSegmentSum: Rule = (node, [data, segments, count], g) => {
  const depth = rank(segments);
  const sizes = sizesOf(g, data);
  const rows = oneNumber(g, count, 'int64');
  const flatIds = reshape(g, int64(g, segments), [-1]);
  const flat = depth === 1 ? data : reshape(g, data, [-1, ...sizes.slice(depth)]);
  const ids = g.one('Where', [g.one('Less', [flatIds, g.ints([0])]), rows, flatIds]);
  const summed = joinRows(node, g, flat, ids, g.one('Add', [rows, g.ints([1])]), 'sum');
  return g.one('Slice', [summed, g.ints([0]), rows, g.ints([0])], {}, node.name);
};

const invertPermutation: Rule = (node, [x], g) => {
  if (x.constant) {
    const order = constantNumbers(x, 'permutation');
    return cast(g, g.ints(order.map((_, i) => order.indexOf(i))), x.dtype);
  }
  const wide = int64(g, x);
  const count = g.one('Squeeze', [g.one('Shape', [x]), g.ints([0])]);
  const numbers = g.one('Range', [g.scalar('int64', 0), count, g.scalar('int64', 1)]);
  return cast(g, g.one('ScatterElements', [wide, wide, numbers], { axis: 0 }, node.name), x.dtype);
};

/** out[indices[k]] = data[k]: first all places, then all data, in one scatter. */
const dynamicStitch: Rule = (node, inputs, g) => {
  const count = inputs.length / 2;
  if (!Number.isInteger(count)) refuse(`has ${inputs.length} inputs, needs an index for each`);
  const indices = inputs.slice(0, count);
  const tail = sizesOf(g, inputs[count] as Value).slice(rank(indices[0] as Value));
  const places = indices.map((value) => reshape(g, int64(g, value), [-1]));
  const data = inputs.slice(count).map((value) => reshape(g, value, [-1, ...tail]));
  const all = g.one('Concat', places, { axis: 0 });
  const rows = g.one('Concat', data, { axis: 0 });
  const [at, last] = lastOfEach(g, all, rows);
  const shape = shapeList(g, [stitchedRows(g, all), ...tail]);
  return g.one('ScatterND', [zeros(g, rows, shape), unsqueeze(g, at, [1]), last], {}, node.name);
};

/** Every place once, with the last of its rows: of several rows for one place ScatterND may take any. */
function lastOfEach(g: GraphBuilder, places: Value, rows: Value): readonly [Value, Value] {
  if (places.constant) {
    const numbers = constantNumbers(places, 'indices');
    const last = new Map(numbers.map((place, i) => [place, i]));
    if (last.size === numbers.length) return [places, rows];
    const kept = g.one('Gather', [rows, g.ints([...last.values()])], { axis: 0 });
    return [g.ints([...last.keys()]), kept];
  }
  // From behind, the last is the first, and the first is what Unique tells.
  const reversed = backwards(g, places);
  const [each, first] = g.add('Unique', [reversed], { sorted: 0 }, { outputs: 2 }) as [Value, Value];
  return [each, g.one('Gather', [backwards(g, rows), first], { axis: 0 })];
}

function backwards(g: GraphBuilder, x: Value): Value {
  return g.one('Slice', [x, g.ints([-1]), g.ints([-(2 ** 31)]), g.ints([0]), g.ints([-1])]);
}

function stitchedRows(g: GraphBuilder, places: Value): Size {
  if (!places.constant) return rowCount(g, places);
  return constantNumbers(places, 'indices').reduce((a, b) => Math.max(a, b), -1) + 1;
}

const dynamicPartition: Rule = (node, [data, parts], g) => {
  if (rank(parts) !== 1) refuse('needs a list of partitions');
  return Array.from({ length: intAttribute(node, 'num_partitions') }, (_, i) => {
    const own = g.one('Equal', [parts, g.scalar(parts.dtype, i)]);
    return g.one('Compress', [data, own], { axis: 0 }, node.name);
  });
};

export const GATHERING: OpTable = {
  ...takes(1, { InvertPermutation: invertPermutation }),
  ...takes(2, {
    DynamicPartition: dynamicPartition,
    DynamicStitch: dynamicStitch,
    Gather: (node, [x, indices], g) =>
      gather(node, g, x, indices, { axis: 0, batch: intAttribute(node, 'batch_dims', 0) }),
    GatherNd: gatherNd,
    ParallelDynamicStitch: dynamicStitch,
    ResourceGather: (node, [x, indices], g) => {
      const batch = intAttribute(node, 'batch_dims', 0);
      return gather(node, g, x, indices, { axis: batch, batch });
    },
    ResourceGatherNd: gatherNd,
    SegmentMean: segment('mean'),
    SegmentSum: segment('sum'),
  }),
  ...takes(3, {
    GatherV2: (node, [x, indices, axis], g) =>
      gather(node, g, x, indices, {
        axis: constantNumber(axis, 'axis'),
        batch: intAttribute(node, 'batch_dims', 0),
      }),
    ScatterNd: scatterNd,
    SparseSegmentMean: sparseSegment('mean'),
    SparseSegmentSqrtN: sparseSegment('sqrtn'),
    SparseSegmentSum: sparseSegment('sum'),
    SparseToDense: sparseToDense,
    TensorScatterAdd: tensorScatter('add'),
    TensorScatterMax: tensorExtreme('Max'),
    TensorScatterMin: tensorExtreme('Min'),
    TensorScatterSub: tensorScatter('add', true),
    TensorScatterUpdate: tensorUpdate,
    UnsortedSegmentSum: unsortedSegmentSum,
  }),
  ...takes(4, {
    OneHot: oneHot,
    SparseSegmentMeanWithNumSegments: sparseSegment('mean', true),
    SparseSegmentSqrtNWithNumSegments: sparseSegment('sqrtn', true),
    SparseSegmentSumWithNumSegments: sparseSegment('sum', true),
  }),
};
