/**
 * Converts scatter, segment and stitch operations. When an index occurs twice, ONNX does not guarantee which row
 * wins, because onnxruntime writes from several threads.
 */
import { reversed, unsqueeze } from '../../emit/gather.ts';
import type { GraphBuilder } from '../../graph/builder.ts';
import { constantNumbers } from '../../graph/numbers.ts';
import { fixed, rank } from '../../graph/shapes.ts';
import type { Value } from '../../graph/value.ts';
import type { TfNode } from '../graph.ts';
import { reshape, type Size, shapeList, sizesOf } from './dims.ts';
import { emit, int64, oneNumber } from './kernels.ts';
import { refuse } from './refuse.ts';
import { type OpTable, type Rule, takes } from './rule.ts';

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

/** The result is undefined for an index that occurs twice: onnxruntime writes from several threads. */
const tensorUpdate: Rule = (node, [x, indices, updates], g, { notes }) => {
  if (!isWrittenOnce(indices)) {
    notes.push(
      `node "${node.name}" (${node.op}) may write one place twice: TensorFlow does not say which counts, nor does ONNX`,
    );
  }
  return g.one('ScatterND', [x, int64(g, indices), updates], {}, node.name);
};

/** Whether certainly no index occurs twice. */
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

/** Opset 17 scatters no maximum. If no index occurs twice, the larger of the old and the new element is written. */
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

/** Segments are sorted, so the last row's number gives the number of results. */
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

/** A row with a negative segment goes to an extra last row, which is cut off. */
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

/** out[indices[k]] = data[k]: one scatter of all indices and all data. */
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

/** Each index once, with its last row; ScatterND may take any of several. */
function lastOfEach(g: GraphBuilder, places: Value, rows: Value): readonly [Value, Value] {
  if (places.constant) {
    const numbers = constantNumbers(places, 'indices');
    const last = new Map(numbers.map((place, i) => [place, i]));
    if (last.size === numbers.length) return [places, rows];
    const kept = g.one('Gather', [rows, g.ints([...last.values()])], { axis: 0 });
    return [g.ints([...last.keys()]), kept];
  }
  // Unique returns first occurrences, so the list is reversed.
  const [each, first] = g.add('Unique', [reversed(g, places, [0])], { sorted: 0 }, { outputs: 2 }) as [
    Value,
    Value,
  ];
  return [each, g.one('Gather', [reversed(g, rows, [0]), first], { axis: 0 })];
}

function stitchedRows(g: GraphBuilder, places: Value): Size {
  if (!places.constant) return rowCount(g, places);
  return constantNumbers(places, 'indices').reduce((a, b) => Math.max(a, b), -1) + 1;
}

export const SCATTERING: OpTable = {
  ...takes(2, {
    DynamicStitch: dynamicStitch,
    ParallelDynamicStitch: dynamicStitch,
    SegmentMean: segment('mean'),
    SegmentSum: segment('sum'),
  }),
  ...takes(3, {
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
    SparseSegmentMeanWithNumSegments: sparseSegment('mean', true),
    SparseSegmentSqrtNWithNumSegments: sparseSegment('sqrtn', true),
    SparseSegmentSumWithNumSegments: sparseSegment('sum', true),
  }),
};
