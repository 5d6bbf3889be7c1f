/** TensorFlow's operations that move elements, against loops that follow their definition. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Tensor } from '../../../../lib/contract/tensor.ts';
import { convertTensorflow } from '../../../../onnx-import/formats/tensorflow/convert.ts';
import {
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
  runGraph,
  tensor,
} from './graph.ts';

type Nested = number | Nested[];

function nest({ shape, data }: Tensor): Nested {
  const build = (axis: number, offset: number): Nested => {
    if (axis === shape.length) return Number(data[offset]);
    const inner = shape.slice(axis + 1).reduce((p, q) => p * q, 1);
    return Array.from({ length: shape[axis] as number }, (_, i) => build(axis + 1, offset + i * inner));
  };
  return build(0, 0);
}

/** One entry of x[...] as Python writes it. */
type Entry = number | 'all' | 'new' | 'rest' | readonly [number | undefined, number | undefined, number?];

/** The five masks and three lists that TensorFlow makes of Python's slices. */
function stridedSlice(entries: readonly Entry[]): { nodes: NodeSpec[]; y: NodeSpec } {
  const masks = { begin: 0, end: 0, ellipsis: 0, newAxis: 0, shrink: 0 };
  const lists = { begin: [] as number[], end: [] as number[], strides: [] as number[] };
  for (const [i, entry] of entries.entries()) {
    const bit = 1 << i;
    const [begin, end, stride] = Array.isArray(entry)
      ? [
          entry[0] as number | undefined,
          entry[1] as number | undefined,
          (entry[2] as number | undefined) ?? 1,
        ]
      : typeof entry === 'number'
        ? [entry, entry + 1, 1]
        : [undefined, undefined, 1];
    if (entry === 'new') masks.newAxis |= bit;
    else if (entry === 'rest') masks.ellipsis |= bit;
    else if (typeof entry === 'number') masks.shrink |= bit;
    else {
      if (begin === undefined) masks.begin |= bit;
      if (end === undefined) masks.end |= bit;
    }
    lists.begin.push(begin ?? 0);
    lists.end.push(end ?? 0);
    lists.strides.push(stride);
  }
  const size = entries.length;
  return {
    nodes: Object.entries(lists).map(([name, values]) => constant(name, int32s([size], values))),
    y: [
      'y',
      'StridedSlice',
      ['x', 'begin', 'end', 'strides'],
      {
        begin_mask: a.int(masks.begin),
        end_mask: a.int(masks.end),
        ellipsis_mask: a.int(masks.ellipsis),
        new_axis_mask: a.int(masks.newAxis),
        shrink_axis_mask: a.int(masks.shrink),
      },
    ],
  };
}

/** Python's slicing of nested lists. */
function slice(value: Nested, entries: readonly Entry[], dims: number): Nested {
  const [entry, ...rest] = entries;
  if (entry === undefined) return value;
  if (entry === 'new') return [slice(value, rest, dims)];
  const left = rest.filter((each) => each !== 'new').length;
  if (entry === 'rest') {
    if (dims > left) return (value as Nested[]).map((each) => slice(each, entries, dims - 1));
    return slice(value, rest, dims);
  }
  const list = value as Nested[];
  if (typeof entry === 'number') return slice(list.at(entry) as Nested, rest, dims - 1);
  const [begin, end, stride = 1] = entry === 'all' ? [undefined, undefined, 1] : entry;
  const at = (i: number | undefined, fallback: number) => {
    if (i === undefined) return fallback;
    const low = stride > 0 ? 0 : -1;
    return Math.min(Math.max(i < 0 ? i + list.length : i, low), stride > 0 ? list.length : list.length - 1);
  };
  const [from, to] =
    stride > 0 ? [at(begin, 0), at(end, list.length)] : [at(begin, list.length - 1), at(end, -1)];
  const picked: Nested[] = [];
  for (let i = from; stride > 0 ? i < to : i > to; i += stride) picked.push(list[i] as Nested);
  return picked.map((each) => slice(each, rest, dims - 1));
}

const SLICES: readonly (readonly Entry[])[] = [
  [[1, 3]],
  [
    [-2, undefined],
    [undefined, -1],
  ],
  [-1],
  [0, 'all', 2],
  ['all', [undefined, undefined, -1]],
  [
    [3, 0, -2],
    [undefined, undefined, 2],
  ],
  ['rest', 1],
  ['rest', 'new'],
  ['new', 'rest', [1, undefined]],
  [1, 'rest', [undefined, 2], 'new'],
  ['all', 'new', -2],
  [[0, 100], [-100, 2], 'new', 0],
  [2, 'new', 'rest', -1, 'new'],
  [[10, undefined, -1]],
];

for (const entries of SLICES) {
  test(`StridedSlice ${JSON.stringify(entries)} slices as Python does`, async () => {
    const x = noisy([4, 3, 5]);
    const { nodes, y } = stridedSlice(entries);
    const [out] = await run({ inputs: { x }, nodes: [...nodes, y], outputs: ['y'] });
    assert.deepEqual(nest(out as Tensor), slice(nest(x), entries, 3));
  });
}

test('begins and ends that are computed slice like constant ones', async () => {
  const x = noisy([4, 6]);
  const { nodes, y } = stridedSlice([2, [1, -1]]);
  const [strides] = nodes.filter(([name]) => name === 'strides') as [NodeSpec];
  const [out, sliced] = await run({
    inputs: { x, begin: int32s([2], [2, 1]), end: int32s([2], [3, -1]), size: int32s([2], [-1, 2]) },
    nodes: [strides, y, ['s', 'Slice', ['x', 'begin', 'size']]],
    outputs: ['y', 's'],
    sizes: 'fixed and batch',
  });
  assert.deepEqual(nest(out as Tensor), slice(nest(x), [2, [1, -1]], 2));
  assert.deepEqual(
    nest(sliced as Tensor),
    slice(
      nest(x),
      [
        [2, undefined],
        [1, 3],
      ],
      2,
    ),
  );
});

test('Slice takes begin and size, -1 being the rest', async () => {
  const x = noisy([4, 3, 5]);
  const [y] = await run({
    inputs: { x },
    nodes: [
      constant('begin', int32s([3], [1, 0, 2])),
      constant('size', int32s([3], [2, -1, 2])),
      ['y', 'Slice', ['x', 'begin', 'size']],
    ],
    outputs: ['y'],
  });
  assert.deepEqual(nest(y as Tensor), slice(nest(x), [[1, 3], 'all', [2, 4]], 3));
});

test('GatherV2 takes rows along any axis, with and without batch dimensions', async () => {
  const x = noisy([2, 3, 4, 5]);
  const at = int32s([2, 2], [1, 0, 2, 1]);
  const data = nest(x) as number[][][][];
  const [plain, batched, behind] = await run({
    inputs: { x },
    nodes: [
      constant('at', at),
      constant('one', int32s([], [1])),
      constant('two', int32s([], [2])),
      ['p', 'GatherV2', ['x', 'at', 'one']],
      ['b', 'GatherV2', ['x', 'at', 'one'], { batch_dims: a.int(1) }],
      ['c', 'GatherV2', ['x', 'at', 'two'], { batch_dims: a.int(1) }],
    ],
    outputs: ['p', 'b', 'c'],
  });
  const rows = nest(at) as number[][];
  assert.deepEqual(
    nest(plain as Tensor),
    data.map((each) => rows.map((row) => row.map((i) => each[i]))),
  );
  assert.deepEqual(
    nest(batched as Tensor),
    data.map((each, n) => (rows[n] as number[]).map((i) => each[i])),
  );
  assert.deepEqual(
    nest(behind as Tensor),
    data.map((each, n) => each.map((inner) => (rows[n] as number[]).map((i) => inner[i]))),
  );
});

test('GatherNd, ScatterNd and the TensorScatter family follow their indices, adding doubles up', async () => {
  const x = noisy([3, 4]);
  const at = int32s([3, 1], [2, 0, 2]);
  const single = int32s([2, 1], [2, 0]);
  const updates = noisy([3, 4], 2);
  const two = noisy([2, 4], 3);
  const outputs = await run({
    inputs: { x, updates, two },
    nodes: [
      constant('at', at),
      constant('single', single),
      constant('pairs', int32s([2, 2], [0, 3, 2, 1])),
      constant('shape', int32s([2], [4, 4])),
      ['g', 'GatherNd', ['x', 'pairs']],
      ['s', 'ScatterNd', ['at', 'updates', 'shape']],
      ['add', 'TensorScatterAdd', ['x', 'at', 'updates']],
      ['sub', 'TensorScatterSub', ['x', 'at', 'updates']],
      ['put', 'TensorScatterUpdate', ['x', 'single', 'two']],
      ['max', 'TensorScatterMax', ['x', 'single', 'two']],
    ],
    outputs: ['g', 's', 'add', 'sub', 'put', 'max'],
    sizes: 'fixed and batch',
  });
  const [rows, more, pair] = [x, updates, two].map((each) => nest(each) as number[][]) as [
    number[][],
    number[][],
    number[][],
  ];
  const sum = (start: number[][], sign: number) => {
    const result = start.map((row) => [...row]);
    for (const [k, i] of [2, 0, 2].entries())
      result[i] = (result[i] as number[]).map(
        (value, j) => value + sign * ((more[k] as number[])[j] as number),
      );
    return result;
  };
  const flat = (values: number[][]) => floats([values.length, 4], values.flat());
  assert.deepEqual(nest(outputs[0] as Tensor), [rows[0]?.[3], rows[2]?.[1]]);
  assertTensor(
    outputs[1] as Tensor,
    flat(
      sum(
        [0, 1, 2, 3].map(() => [0, 0, 0, 0]),
        1,
      ),
    ),
  );
  assertTensor(outputs[2] as Tensor, flat(sum(rows, 1)));
  assertTensor(outputs[3] as Tensor, flat(sum(rows, -1)));
  assertTensor(outputs[4] as Tensor, flat([pair[1], rows[1], pair[0]] as number[][]));
  const larger = (i: number, k: number) =>
    (rows[i] as number[]).map((value, j) => Math.max(value, pair[k]?.[j] as number));
  assertTensor(outputs[5] as Tensor, flat([larger(0, 1), rows[1] as number[], larger(2, 0)]));
});

test('OneHot gives the off value for what is outside, and takes any axis', async () => {
  const at = int32s([2, 3], [0, 2, -1, 5, 1, 3]);
  const [last, first] = await run({
    inputs: { at },
    nodes: [
      constant('depth', int32s([], [4])),
      constant('on', floats([], [2])),
      constant('off', floats([], [-1])),
      ['l', 'OneHot', ['at', 'depth', 'on', 'off'], { axis: a.int(-1) }],
      ['f', 'OneHot', ['at', 'depth', 'on', 'off'], { axis: a.int(0) }],
    ],
    outputs: ['l', 'f'],
  });
  const hit = (i: number, k: number) => (at.data[i] === k ? 2 : -1);
  const numbers = [0, 1, 2, 3];
  assertTensor(
    last as Tensor,
    floats(
      [2, 3, 4],
      [0, 1, 2, 3, 4, 5].flatMap((i) => numbers.map((k) => hit(i, k))),
    ),
  );
  assertTensor(
    first as Tensor,
    floats(
      [4, 2, 3],
      numbers.flatMap((k) => [0, 1, 2, 3, 4, 5].map((i) => hit(i, k))),
    ),
  );
});

test('reductions over no axes change nothing, over listed ones they reduce', async () => {
  const x = noisy([2, 3, 4]);
  const numbers = tensor('uint8', [2, 2], [200, 100, 3, 4]);
  const flags = tensor('bool', [2, 2], [1, 0, 1, 1]);
  const [none, sum, mean, all, any, total, norm, most] = await run({
    inputs: { x, numbers, flags },
    nodes: [
      constant('empty', int32s([0], [])),
      constant('outer', int32s([2], [0, -1])),
      constant('first', int32s([], [0])),
      ['none', 'Sum', ['x', 'empty']],
      ['sum', 'Sum', ['x', 'outer']],
      ['mean', 'Mean', ['x', 'outer'], { keep_dims: a.flag(true) }],
      ['all', 'All', ['flags', 'first']],
      ['any', 'Any', ['flags', 'first'], { keep_dims: a.flag(true) }],
      ['prod', 'Max', ['numbers', 'first']],
      ['norm', 'EuclideanNorm', ['x', 'outer']],
      ['most', 'ArgMax', ['x', 'first'], { output_type: a.type('int32') }],
    ],
    outputs: ['none', 'sum', 'mean', 'all', 'any', 'prod', 'norm', 'most'],
  });
  const column = (j: number) =>
    [0, 1].flatMap((i) => [0, 1, 2, 3].map((k) => x.data[(i * 3 + j) * 4 + k] as number));
  const sums = [0, 1, 2].map((j) => column(j).reduce((p, q) => p + q, 0));
  assertTensor(none as Tensor, x);
  assertTensor(sum as Tensor, floats([3], sums));
  assertTensor(
    mean as Tensor,
    floats(
      [1, 3, 1],
      sums.map((value) => value / 8),
    ),
  );
  assertTensor(all as Tensor, tensor('bool', [2], [1, 0]));
  assertTensor(any as Tensor, tensor('bool', [1, 2], [1, 1]));
  assertTensor(total as Tensor, tensor('uint8', [2], [200, 100]));
  assertTensor(
    norm as Tensor,
    floats(
      [3],
      [0, 1, 2].map((j) => Math.hypot(...column(j))),
    ),
  );
  const half = x.data.length / 2;
  const larger = Array.from({ length: half }, (_, i) =>
    (x.data[i + half] as number) > (x.data[i] as number) ? 1 : 0,
  );
  assertTensor(most as Tensor, int32s([3, 4], larger));
});

test('shapes, packing and splitting are understood through arithmetic on free sizes', async () => {
  const x = noisy([2, 3, 4]);
  const [flat, rows, parts, filled, back] = await run({
    inputs: { x },
    nodes: [
      ['shape', 'Shape', ['x']],
      ['sizes', 'Unpack', ['shape'], { num: a.int(3), axis: a.int(0) }],
      ['inner', 'Mul', ['sizes:1', 'sizes:2']],
      ['target', 'Pack', ['sizes:0', 'inner'], { axis: a.int(0) }],
      ['flat', 'Reshape', ['x', 'target']],
      constant('minus', int32s([], [-1])),
      ['swapped', 'Pack', ['minus', 'sizes:0'], { axis: a.int(0) }],
      ['rows', 'Reshape', ['x', 'swapped']],
      constant('axis', int32s([], [2])),
      constant('three', int32s([2], [1, 3])),
      ['parts', 'SplitV', ['x', 'three', 'axis'], { num_split: a.int(2) }],
      constant('value', floats([], [7])),
      ['filled', 'Fill', ['target', 'value']],
      ['back', 'ConcatV2', ['parts:0', 'parts:1', 'axis']],
    ],
    outputs: ['flat', 'rows', 'parts:1', 'filled', 'back'],
  });
  assertTensor(flat as Tensor, floats([2, 12], x.data as Float32Array));
  assertTensor(rows as Tensor, floats([12, 2], x.data as Float32Array));
  assert.deepEqual((parts as Tensor).shape, [2, 3, 3]);
  assertTensor(filled as Tensor, floats([2, 12], new Float32Array(24).fill(7)));
  assertTensor(back as Tensor, x);
});

test('Cumsum and Cumprod run forwards, backwards, with and without the own element', async () => {
  const x = noisy([2, 4]);
  for (const exclusive of [false, true])
    for (const reverse of [false, true]) {
      const attributes = { exclusive: a.flag(exclusive), reverse: a.flag(reverse) };
      const [sum, product] = await run({
        inputs: { x },
        nodes: [
          constant('axis', int32s([], [1])),
          ['s', 'Cumsum', ['x', 'axis'], attributes],
          ['p', 'Cumprod', ['x', 'axis'], attributes],
        ],
        outputs: ['s', 'p'],
      });
      const scan = (start: number, combine: (p: number, q: number) => number) =>
        (nest(x) as number[][]).flatMap((row) => {
          const order = reverse ? row.toReversed() : row;
          const result = order.map((_, i) => order.slice(0, exclusive ? i : i + 1).reduce(combine, start));
          return reverse ? result.reverse() : result;
        });
      assertTensor(
        sum as Tensor,
        floats(
          [2, 4],
          scan(0, (p, q) => p + q),
        ),
      );
      assertTensor(
        product as Tensor,
        floats(
          [2, 4],
          scan(1, (p, q) => p * q),
        ),
      );
    }
});

test('reversing, rolling and inverting keep every element', async () => {
  const x = noisy([3, 4]);
  const [reversed, parts, rolled, inverse, computed] = await run({
    inputs: { x, order: int32s([4], [2, 0, 3, 1]) },
    nodes: [
      constant('axes', int32s([1], [1])),
      constant('lengths', int32s([3], [4, 2, 1])),
      constant('shift', int32s([1], [-1])),
      constant('fixed', int32s([4], [2, 0, 3, 1])),
      ['r', 'ReverseV2', ['x', 'axes']],
      ['p', 'ReverseSequence', ['x', 'lengths'], { seq_dim: a.int(1), batch_dim: a.int(0) }],
      ['o', 'Roll', ['x', 'shift', 'axes']],
      ['i', 'InvertPermutation', ['fixed']],
      ['c', 'InvertPermutation', ['order']],
    ],
    outputs: ['r', 'p', 'o', 'i', 'c'],
  });
  const rows = nest(x) as number[][];
  assert.deepEqual(
    nest(reversed as Tensor),
    rows.map((row) => row.toReversed()),
  );
  assert.deepEqual(
    nest(parts as Tensor),
    rows.map((row, i) => {
      const count = [4, 2, 1][i] as number;
      return [...row.slice(0, count).reverse(), ...row.slice(count)];
    }),
  );
  assert.deepEqual(
    nest(rolled as Tensor),
    rows.map((row) => [...row.slice(1), row[0]]),
  );
  assert.deepEqual(nest(inverse as Tensor), [1, 3, 0, 2]);
  assert.deepEqual(nest(computed as Tensor), [1, 3, 0, 2]);
});

test('segments are summed, averaged and, unsorted, dropped when negative', async () => {
  const x = noisy([4, 2]);
  const [sum, mean, sparse, unsorted] = await run({
    inputs: { x },
    nodes: [
      constant('ids', int32s([4], [0, 0, 2, 2])),
      constant('at', int32s([3], [3, 0, 1])),
      constant('rows', int32s([3], [0, 1, 1])),
      constant('wild', int32s([4], [1, -1, 0, 1])),
      constant('count', int32s([], [3])),
      ['s', 'SegmentSum', ['x', 'ids']],
      ['m', 'SegmentMean', ['x', 'ids']],
      ['p', 'SparseSegmentSqrtN', ['x', 'at', 'rows']],
      ['u', 'UnsortedSegmentSum', ['x', 'wild', 'count']],
    ],
    outputs: ['s', 'm', 'p', 'u'],
  });
  const rows = nest(x) as number[][];
  const add = (...which: number[]) =>
    [0, 1].map((k) => which.reduce((total, i) => total + (rows[i]?.[k] as number), 0));
  const half = (values: number[], by: number) => values.map((value) => value / by);
  assertTensor(sum as Tensor, floats([3, 2], [...add(0, 1), 0, 0, ...add(2, 3)]));
  assertTensor(mean as Tensor, floats([3, 2], [...half(add(0, 1), 2), 0, 0, ...half(add(2, 3), 2)]));
  assertTensor(sparse as Tensor, floats([2, 2], [...add(3), ...half(add(0, 1), Math.SQRT2)]));
  assertTensor(unsorted as Tensor, floats([3, 2], [...add(2), ...add(0, 3), 0, 0]));
});

test('Einsum and BatchMatMul multiply what their letters and flags say', async () => {
  const x = noisy([2, 3, 4]);
  const y = noisy([2, 5, 4], 2);
  const [letters, flags] = await run({
    inputs: { x, y },
    nodes: [
      ['e', 'Einsum', ['x', 'y'], { equation: a.text('bij, bkj -> bik') }],
      ['m', 'BatchMatMulV2', ['x', 'y'], { adj_y: a.flag(true) }],
    ],
    outputs: ['e', 'm'],
  });
  const values: number[] = [];
  for (let b = 0; b < 2; b++)
    for (let i = 0; i < 3; i++)
      for (let k = 0; k < 5; k++)
        values.push(
          [0, 1, 2, 3].reduce(
            (sum, j) =>
              sum + (x.data[(b * 3 + i) * 4 + j] as number) * (y.data[(b * 5 + k) * 4 + j] as number),
            0,
          ),
        );
  assertTensor(letters as Tensor, floats([2, 3, 5], values));
  assertTensor(flags as Tensor, floats([2, 3, 5], values));
});

test('Where, Unique, TopKV2 and the sets find places in the order of the elements', async () => {
  const x = floats([6], [3, 1, 3, 0, 2, 1]);
  const [places, values, index, top, at, rest, found] = await run({
    inputs: { x },
    nodes: [
      constant('k', int32s([], [3])),
      constant('y', floats([2], [3, 0])),
      ['w', 'Where', ['x']],
      ['u', 'Unique', ['x']],
      ['t', 'TopKV2', ['x', 'k']],
      ['d', 'ListDiff', ['x', 'y']],
    ],
    outputs: ['w', 'u:0', 'u:1', 't:0', 't:1', 'd:0', 'd:1'],
  });
  assertTensor(places as Tensor, tensor('int64', [5, 1], [0, 1, 2, 4, 5]));
  assertTensor(values as Tensor, floats([4], [3, 1, 0, 2]));
  assertTensor(index as Tensor, int32s([6], [0, 1, 0, 2, 3, 1]));
  assertTensor(top as Tensor, floats([3], [3, 3, 2]));
  assertTensor(at as Tensor, int32s([3], [0, 2, 4]));
  assertTensor(rest as Tensor, floats([3], [1, 2, 1]));
  assertTensor(found as Tensor, int32s([3], [1, 4, 5]));
});

test('matrices keep bands and diagonals', async () => {
  const x = noisy([2, 3, 3]);
  const row = noisy([2, 3], 2);
  const band = (low: number, high: number) =>
    Array.from(x.data as Float32Array, (value, k) => {
      const [i, j] = [Math.floor(k / 3) % 3, k % 3];
      return (low < 0 || i - j <= low) && (high < 0 || j - i <= high) ? value : 0;
    });
  const [lower, narrow, wide, part, set] = await run({
    inputs: { x, row },
    nodes: [
      constant('minus', tensor('int64', [], [-1])),
      constant('zero', tensor('int64', [], [0])),
      constant('one', tensor('int64', [], [1])),
      ['l', 'MatrixBandPart', ['x', 'minus', 'zero']],
      ['n', 'MatrixBandPart', ['x', 'one', 'zero']],
      ['d', 'MatrixDiag', ['row']],
      ['p', 'MatrixDiagPart', ['x']],
      ['s', 'MatrixSetDiag', ['x', 'row']],
    ],
    outputs: ['l', 'n', 'd', 'p', 's'],
    sizes: 'fixed and batch',
  });
  assertTensor(lower as Tensor, floats([2, 3, 3], band(-1, 0)));
  assertTensor(narrow as Tensor, floats([2, 3, 3], band(1, 0)));
  const diagonal = (own: (k: number) => number) =>
    Array.from({ length: 18 }, (_, k) =>
      Math.floor(k / 3) % 3 === k % 3 ? (row.data[Math.floor(k / 9) * 3 + (k % 3)] as number) : own(k),
    );
  assertTensor(
    wide as Tensor,
    floats(
      [2, 3, 3],
      diagonal(() => 0),
    ),
  );
  assertTensor(
    set as Tensor,
    floats(
      [2, 3, 3],
      diagonal((k) => x.data[k] as number),
    ),
  );
  assertTensor(
    part as Tensor,
    floats(
      [2, 3],
      [0, 4, 8, 9, 13, 17].map((k) => x.data[k] as number),
    ),
  );
});

test('SparseToDense and DynamicStitch put values where their indices say', async () => {
  const values = noisy([2], 1);
  const [dense, stitched] = await run({
    inputs: { values, x: noisy([2, 2], 2), y: noisy([1, 2], 3) },
    nodes: [
      constant('at', int32s([2, 2], [0, 1, 1, 2])),
      constant('shape', int32s([2], [2, 3])),
      constant('default', floats([], [9])),
      constant('a', int32s([2], [2, 0])),
      constant('b', int32s([1], [1])),
      ['d', 'SparseToDense', ['at', 'shape', 'values', 'default']],
      ['s', 'DynamicStitch', ['a', 'b', 'x', 'y']],
    ],
    outputs: ['d', 's'],
    sizes: 'fixed and batch',
  });
  assertTensor(
    dense as Tensor,
    floats([2, 3], [9, values.data[0] as number, 9, 9, 9, values.data[1] as number]),
  );
  const [x, y] = [noisy([2, 2], 2), noisy([1, 2], 3)].map((each) => [...each.data] as number[]) as [
    number[],
    number[],
  ];
  assertTensor(stitched as Tensor, floats([3, 2], [...x.slice(2), ...y, ...x.slice(0, 2)]));
});

test('Select with a list of conditions chooses rows, SelectV2 broadcasts', async () => {
  const [x, y] = [noisy([2, 3], 1), noisy([2, 3], 2)];
  const condition = tensor('bool', [2], [0, 1]);
  const [rows, wide] = await run({
    inputs: { x, y, condition, flag: tensor('bool', [2, 1], [1, 0]) },
    nodes: [
      ['r', 'Select', ['condition', 'x', 'y']],
      ['w', 'SelectV2', ['flag', 'x', 'y']],
    ],
    outputs: ['r', 'w'],
    sizes: 'fixed and batch',
  });
  const [a0, b0] = [[...x.data] as number[], [...y.data] as number[]];
  assertTensor(rows as Tensor, floats([2, 3], [...b0.slice(0, 3), ...a0.slice(3)]));
  assertTensor(wide as Tensor, floats([2, 3], [...a0.slice(0, 3), ...b0.slice(3)]));
});

test('non-maximum suppression keeps the best boxes, padded when asked for', async () => {
  const boxes = floats([4, 4], [0, 0, 1, 1, 0, 0.05, 1, 1.05, 2, 2, 3, 3, 5, 5, 6, 6]);
  const scores = floats([4], [0.6, 0.9, 0.8, 0.1]);
  const [kept, padded, valid, best] = await run({
    inputs: { boxes, scores },
    nodes: [
      constant('most', int32s([], [4])),
      constant('overlap', floats([], [0.5])),
      constant('least', floats([], [0.3])),
      constant('sigma', floats([], [0])),
      ['a', 'NonMaxSuppressionV3', ['boxes', 'scores', 'most', 'overlap', 'least']],
      [
        'b',
        'NonMaxSuppressionV4',
        ['boxes', 'scores', 'most', 'overlap', 'least'],
        { pad_to_max_output_size: a.flag(true) },
      ],
      ['c', 'NonMaxSuppressionV5', ['boxes', 'scores', 'most', 'overlap', 'least', 'sigma']],
    ],
    outputs: ['a', 'b:0', 'b:1', 'c:1'],
  });
  assertTensor(kept as Tensor, int32s([2], [1, 2]));
  assertTensor(padded as Tensor, int32s([4], [1, 2, 0, 0]));
  assertTensor(valid as Tensor, int32s([], [2]));
  assertTensor(best as Tensor, floats([2], [0.9, 0.8]));
});

test('combined suppression works on a batch with classes and says how many are valid', async () => {
  const boxes = floats(
    [2, 3, 1, 4],
    [0, 0, 0.5, 0.5, 0, 0.05, 0.5, 0.55, 0.6, 0.6, 1.2, 1.2, 0, 0, 1, 1, 0, 0, 0.1, 0.1, 0.5, 0.5, 0.6, 0.6],
  );
  const scores = floats([2, 3, 2], [0.9, 0.2, 0.8, 0.1, 0.3, 0.7, 0.05, 0.1, 0.2, 0.95, 0.1, 0.1]);
  const [kept, best, classes, valid] = await run({
    inputs: { boxes, scores },
    nodes: [
      constant('per', int32s([], [2])),
      constant('total', int32s([], [4])),
      constant('overlap', floats([], [0.5])),
      constant('least', floats([], [0.15])),
      [
        'c',
        'CombinedNonMaxSuppression',
        ['boxes', 'scores', 'per', 'total', 'overlap', 'least'],
        { clip_boxes: a.flag(true) },
      ],
    ],
    outputs: ['c:0', 'c:1', 'c:2', 'c:3'],
    sizes: 'fixed and batch',
  });
  assertTensor(best as Tensor, floats([2, 4], [0.9, 0.7, 0.3, 0.2, 0.95, 0.2, 0, 0]));
  assertTensor(classes as Tensor, floats([2, 4], [0, 1, 0, 1, 1, 0, 0, 0]));
  assertTensor(valid as Tensor, int32s([2], [4, 2]));
  const row = (k: number) =>
    [...(kept as Tensor).data].slice(4 * k, 4 * k + 4).map((value) => Math.round(Number(value) * 100) / 100);
  assert.deepEqual(row(1), [0.6, 0.6, 1, 1]);
  assert.deepEqual(row(4), [0, 0, 0.1, 0.1]);
  assert.deepEqual(row(7), [0, 0, 0, 0]);
});

test('combined suppression of boxes or scores of another rank is refused', () => {
  for (const [boxes, scores] of [
    [noisy([2, 3, 4]), noisy([2, 3, 2])],
    [noisy([2, 3, 1, 4]), noisy([2, 3])],
  ] as const) {
    const nodes: NodeSpec[] = [
      constant('per', int32s([], [2])),
      constant('overlap', floats([], [0.5])),
      ['c', 'CombinedNonMaxSuppression', ['boxes', 'scores', 'per', 'per', 'overlap', 'overlap']],
    ];
    assert.throws(
      () => convertTensorflow(graphOf({ inputs: { boxes, scores }, nodes, outputs: ['c:0'] }, 'fixed'), {}),
      {
        code: 'bad_model',
        message: new RegExp(
          `needs boxes of 4 and scores of 3 dimensions, got ${boxes.shape.length} and ${scores.shape.length}`,
        ),
      },
    );
  }
});

test('every operation that is not supported is named with its node, file and what helps', () => {
  const nodes: NodeSpec[] = [
    ['parse', 'ParseExample', ['x']],
    ['decode', 'DecodeJpeg', ['parse']],
    ['mine', 'MyOwnOp', ['x']],
    ['sum', 'Add', ['decode', 'mine']],
  ];
  const graph = graphOf({ inputs: { x: floats([1], [0]) }, nodes, outputs: ['sum'] }, 'fixed');
  assert.throws(() => convertTensorflow(graph, {}), {
    code: 'bad_model',
    message: [
      'test.pb: 3 nodes cannot be converted:',
      '  ParseExample (node "parse"): reads serialized records, which ONNX cannot do; name another input tensor with --input to cut the preprocessing off; right behind it is decode:0',
      '  DecodeJpeg (node "decode"): decodes files, which ONNX cannot do; name another input tensor with --input to cut the preprocessing off; right behind it is decode:0',
      '  MyOwnOp (node "mine"): is not supported',
    ].join('\n'),
  });
});

test('behind a loop that decodes files the tensors that its rows become are named', () => {
  const variant = { unsupported: 'variant' };
  const arguments_ = { i: 'int32', files: 'string', out: variant } as const;
  const body = makeFunction(
    'body',
    arguments_,
    [
      ['file', 'GatherV2', ['files', 'i', 'i']],
      ['image', 'DecodeJpeg', ['file']],
      ['set', 'TensorListSetItem', ['out', 'i', 'image'], { element_dtype: a.type('uint8') }],
      ['next', 'AddV2', ['i', 'i']],
    ],
    ['next', 'files:0', 'set'],
  );
  const condition = makeFunction('condition', arguments_, [['less', 'Less', ['i', 'i']]], ['less']);
  const nodes: NodeSpec[] = [
    constant('zero', int32s([], [0])),
    constant('shape', int32s([3], [-1, -1, 3])),
    ['out', 'TensorListReserve', ['shape', 'zero'], { element_dtype: a.type('uint8') }],
    ['w', 'While', ['zero', 'x', 'out'], { body: a.func('body'), cond: a.func('condition') }],
    ['images', 'TensorListStack', ['w:2', 'shape'], { element_dtype: a.type('uint8') }],
    ['y', 'Cast', ['images'], { DstT: a.type('float32') }],
  ];
  const graph = graphOf(
    { inputs: { x: floats([1], [0]) }, nodes, outputs: ['y'], functions: [body, condition] },
    'fixed',
  );
  assert.throws(() => convertTensorflow(graph, {}), {
    code: 'bad_model',
    message: /DecodeJpeg \(node "image"\): .*to cut the preprocessing off; right behind it is images:0$/m,
  });
});

test('a node with too few inputs is refused, not crashed on', () => {
  const graph = graphOf(
    { inputs: { x: noisy([1, 2, 2, 1]) }, nodes: [['c', 'Conv2D', ['x']]], outputs: ['c'] },
    'fixed',
  );
  assert.throws(() => convertTensorflow(graph, {}), {
    code: 'bad_model',
    message: /Conv2D \(node "c"\): has 1 inputs, needs 2/,
  });
});

test('MatrixDiagV3 fills up what is beside the diagonal, and refuses matrices that are not square', async () => {
  const spec = (side: number) => ({
    inputs: { x: floats([2], [1, 2]) },
    nodes: [
      constant('k', int32s([], [0])),
      constant('rows', int32s([], [side])),
      constant('any', int32s([], [-1])),
      constant('beside', floats([], [9])),
      ['y', 'MatrixDiagV3', ['x', 'k', 'rows', 'any', 'beside']] as NodeSpec,
    ],
    outputs: ['y'],
  });
  for (const side of [-1, 2]) {
    const [y] = await run({ ...spec(side), sizes: side === 2 ? 'fixed' : 'fixed and batch' });
    assertTensor(y as Tensor, floats([2, 2], [1, 9, 9, 2]));
  }
  assert.throws(() => convertTensorflow(graphOf(spec(3), 'fixed'), {}), {
    message: /MatrixDiagV3 \(node "y"\): needs square matrices, asks for a side of 3/,
  });
});

test('a batch norm that trains gives the running mean with its share of the old one', async () => {
  const [mean, y] = await run({
    inputs: { x: floats([1, 1, 2, 1], [1, 3]) },
    nodes: [
      constant('one', floats([1], [1])),
      constant('zero', floats([1], [0])),
      constant('old', floats([1], [10])),
      [
        'n',
        'FusedBatchNormV3',
        ['x', 'one', 'zero', 'old', 'one'],
        { is_training: a.flag(true), exponential_avg_factor: a.float(0.25), epsilon: a.float(0) },
      ],
    ],
    outputs: ['n:1', 'n:0'],
    sizes: 'fixed',
  });
  assertTensor(mean as Tensor, floats([1], [8]));
  assertTensor(y as Tensor, floats([1, 1, 2, 1], [-1, 1]));
});

test('the old Select needs to know whether its conditions are rows', () => {
  const graph = graphOf(
    {
      inputs: { p: tensor('bool', [2], [1, 0]), x: noisy([2, 2]) },
      nodes: [['y', 'Select', ['p', 'x', 'x']]],
      outputs: ['y'],
    },
    'fixed',
  );
  const open = { ...graph, inputs: graph.inputs.map((input) => ({ ...input, shape: undefined })) };
  assert.throws(() => convertTensorflow(open, {}), {
    message: /Select \(node "y"\): needs an input of known rank/,
  });
});

test('Roll goes around more than once, along a free axis too', async () => {
  const x = floats([3], [1, 2, 3]);
  for (const [shift, expected] of [
    [5, [2, 3, 1]],
    [-4, [2, 3, 1]],
    [3, [1, 2, 3]],
    [1, [3, 1, 2]],
  ] as const) {
    const nodes: NodeSpec[] = [
      constant('shift', int32s([], [shift])),
      constant('axis', int32s([], [0])),
      ['y', 'Roll', ['x', 'shift', 'axis']],
    ];
    const [y] = await run({ inputs: { x }, nodes, outputs: ['y'] });
    assertTensor(y as Tensor, floats([3], expected), `shift ${shift}`);
  }
});

test('what depends on places that come twice is refused unless they surely come once', () => {
  const refused = (nodes: NodeSpec[], message: RegExp) => {
    const inputs = { x: floats([3], [1, 2, 3]), at: int32s([2, 1], [0, 1]), u: floats([2], [5, 6]) };
    const graph = graphOf({ inputs, nodes, outputs: ['y'] }, 'fixed');
    assert.throws(() => convertTensorflow(graph, {}), { code: 'bad_model', message });
  };
  refused(
    [['y', 'TensorScatterMax', ['x', 'at', 'u']]],
    /TensorScatterMax .*needs a constant list of places/,
  );
});

test('DynamicStitch takes the last of the rows for one place, however many there are', async () => {
  const count = 4000;
  const rows = noisy([count, 3], 4);
  // Each of 40 places comes a hundred times, so that an order that is not kept is seen.
  const places = Array.from({ length: count }, (_, i) => (i * 7) % 40);
  const expected = Array.from({ length: 40 }, (_, place) => {
    const last = places.lastIndexOf(place);
    return Array.from(rows.data.slice(last * 3, last * 3 + 3) as Float32Array);
  }).flat();
  const half = count / 2;
  const parts = (from: number) => int32s([half], places.slice(from, from + half));
  for (const computed of [true, false]) {
    const given = { a: parts(0), b: parts(half) };
    const [y] = await run({
      inputs: computed ? { rows, ...given } : { rows },
      nodes: [
        ...(computed ? [] : [constant('a', given.a), constant('b', given.b)]),
        constant('axis', int32s([], [0])),
        ['halves', 'Split', ['axis', 'rows'], { num_split: a.int(2) }],
        ['y', 'DynamicStitch', ['a', 'b', 'halves:0', 'halves:1']],
      ],
      outputs: ['y'],
      sizes: 'fixed and batch',
    });
    assertTensor(y as Tensor, floats([40, 3], expected), computed ? 'computed' : 'constant');
  }
});

test('an index that TensorScatterUpdate may write twice is reported, one that it certainly writes once is not', () => {
  const notesFor = (rows: number, at: NodeSpec[]) => {
    const inputs = { x: floats([3], [1, 2, 3]), places: int32s([2, 1], [0, 1]), one: int32s([1, 1], [0]) };
    const nodes: NodeSpec[] = [
      constant('u', floats([rows], [5, 6].slice(0, rows))),
      ...at,
      ['y', 'TensorScatterUpdate', ['x', at.length > 0 ? 'at' : rows === 1 ? 'one' : 'places', 'u']],
    ];
    return convertTensorflow(graphOf({ inputs, nodes, outputs: ['y'] }, 'fixed'), {}).notes;
  };
  const told = /^node "y" \(TensorScatterUpdate\) .*TensorFlow does not say which counts/;
  assert.match(notesFor(2, []).join(), told);
  assert.match(notesFor(2, [constant('at', int32s([2, 1], [1, 1]))]).join(), told);
  assert.deepEqual(notesFor(2, [constant('at', int32s([2, 1], [1, 2]))]), []);
  assert.deepEqual(notesFor(1, []), []);
});

test('TopKV2 that is not asked to sort sorts, and says that TensorFlow may not', async () => {
  const spec = (k: number, sorted: boolean) => ({
    inputs: { x: floats([2, 5], [1, 5, 2, 4, 3, 7, 9, 8, 6, 7]) },
    nodes: [
      constant('k', int32s([], [k])),
      ['t', 'TopKV2', ['x', 'k'], { sorted: a.flag(sorted) }],
    ] as NodeSpec[],
    outputs: ['t:0', 't:1'],
  });
  const [top, at] = await run(spec(5, false));
  assertTensor(top as Tensor, floats([2, 5], [5, 4, 3, 2, 1, 9, 8, 7, 7, 6]));
  assertTensor(at as Tensor, int32s([2, 5], [1, 3, 4, 2, 0, 1, 2, 0, 4, 3]));
  const notes = (k: number, sorted: boolean) =>
    convertTensorflow(graphOf(spec(k, sorted), 'fixed'), {}).notes.join();
  assert.match(notes(5, false), /^node "t" \(TopKV2\) .*no order/);
  assert.equal(notes(5, true), '');
  // The largest one is in order.
  assert.equal(notes(1, false), '');
});

test('the mean of nothing is NaN, also where the rank is not known', async () => {
  const shape = [0, 2];
  const graph = graphOf(
    {
      inputs: { x: floats(shape, []) },
      nodes: [constant('axis', int32s([1], [0])), ['y', 'Mean', ['x', 'axis']]],
      outputs: ['y'],
    },
    'free',
  );
  const rankless = { ...graph, inputs: graph.inputs.map((input) => ({ ...input, shape: undefined })) };
  for (const each of [graph, rankless]) {
    const [y] = await runGraph(convertTensorflow(each, {}), { x: floats(shape, []) });
    assertTensor(y as Tensor, floats([2], [Number.NaN, Number.NaN]));
    const [full] = await runGraph(convertTensorflow(each, {}), { x: floats([2, 2], [1, 2, 3, 6]) });
    assertTensor(full as Tensor, floats([2], [2, 4]));
  }
});

test('a Squeeze of all axes keeps free ones and says so', () => {
  const spec = {
    inputs: { x: noisy([2, 1, 3]) },
    nodes: [['y', 'Squeeze', ['x']] as NodeSpec],
    outputs: ['y'],
  };
  assert.deepEqual(convertTensorflow(graphOf(spec, 'fixed'), {}).notes, []);
  const { notes, graph } = convertTensorflow(graphOf(spec, 'batch'), {});
  assert.match(notes.join(), /"y" \(Squeeze\) keeps N2, which TensorFlow drops where it is 1/);
  assert.deepEqual(graph.outputs[0]?.value.shape, ['N2', 3]);
});

test('a Reshape to a size of 0 and one that is left over is refused', () => {
  const nodes: NodeSpec[] = [constant('to', int32s([2], [0, -1])), ['y', 'Reshape', ['x', 'to']]];
  const graph = graphOf({ inputs: { x: floats([2, 0], []) }, nodes, outputs: ['y'] }, 'fixed');
  assert.throws(() => convertTensorflow(graph, {}), {
    code: 'bad_model',
    message: /Reshape \(node "y"\): asks for the size that is left over beside a size of 0/,
  });
});

test('Bincount counts all numbers of any shape together, one alone too', async () => {
  const nodes: NodeSpec[] = [
    constant('size', int32s([], [4])),
    constant('none', floats([0], [])),
    ['y', 'Bincount', ['x', 'size', 'none']],
  ];
  const [alone] = await run({ inputs: { x: int32s([], [2]) }, nodes, outputs: ['y'] });
  assertTensor(alone as Tensor, floats([4], [0, 0, 1, 0]));
  const x = int32s([2, 3], [1, 1, 3, 0, 5, 3]);
  const [all] = await run({ inputs: { x }, nodes, outputs: ['y'] });
  assertTensor(all as Tensor, floats([4], [1, 2, 0, 2]));
  const weights = floats([2, 3], [1, 2, 3, 4, 5, 6]);
  const [weighted] = await run({
    inputs: { x, weights },
    nodes: [constant('size', int32s([], [4])), ['y', 'Bincount', ['x', 'size', 'weights']]],
    outputs: ['y'],
    sizes: 'fixed',
  });
  assertTensor(weighted as Tensor, floats([4], [4, 3, 0, 9]));
  const [dense] = await run({
    inputs: { x: int32s([], [2]) },
    nodes: [...nodes.slice(0, 2), ['y', 'DenseBincount', ['x', 'size', 'none']]],
    outputs: ['y'],
  });
  assertTensor(dense as Tensor, floats([4], [0, 0, 1, 0]));
});

test('reductions over no axes keep the values, constant or computed', async () => {
  const x = noisy([2, 3]);
  const constantAxes = constant('axes', int32s([0], []));
  for (const op of ['Mean', 'Sum', 'Max', 'Min', 'Prod', 'EuclideanNorm']) {
    const [y] = await run({ inputs: { x }, nodes: [constantAxes, ['y', op, ['x', 'axes']]], outputs: ['y'] });
    assertTensor(y as Tensor, x, op);
  }
  for (const op of ['Any', 'All']) {
    const flags = tensor('bool', [2, 2], [0, 1, 1, 0]);
    const [y] = await run({
      inputs: { x: flags },
      nodes: [constantAxes, ['y', op, ['x', 'axes']]],
      outputs: ['y'],
    });
    assertTensor(y as Tensor, flags, op);
  }
  const [sum] = await run({
    inputs: { x, axes: int32s([0], []) },
    nodes: [['y', 'Sum', ['x', 'axes']]],
    outputs: ['y'],
    sizes: 'fixed',
  });
  assertTensor(sum as Tensor, x);
  const open = graphOf(
    { inputs: { x, axes: int32s([1], [0]) }, nodes: [['y', 'Mean', ['x', 'axes']]], outputs: ['y'] },
    'free',
  );
  assert.throws(() => convertTensorflow(open, {}), { message: /needs a constant list of axes/ });
});

test('reductions of nothing: any is false, all is true, the mean is no number', async () => {
  const axes = (value: number) => constant('axes', int32s([1], [value]));
  const none = tensor('bool', [0, 2], []);
  for (const [op, value] of [
    ['Any', 0],
    ['All', 1],
  ] as const) {
    const [y] = await run({
      inputs: { x: none },
      nodes: [axes(0), ['y', op, ['x', 'axes']]],
      outputs: ['y'],
    });
    assertTensor(y as Tensor, tensor('bool', [2], [value, value]), op);
  }
  const [mean] = await run({
    inputs: { x: floats([0, 2], []) },
    nodes: [axes(0), ['y', 'Mean', ['x', 'axes']]],
    outputs: ['y'],
  });
  assertTensor(mean as Tensor, floats([2], [Number.NaN, Number.NaN]));
  const [folded] = await run({
    inputs: { x: floats([1], [1]) },
    nodes: [constant('e', floats([0], [])), axes(0), ['m', 'Mean', ['e', 'axes']], ['y', 'Add', ['m', 'x']]],
    outputs: ['y'],
  });
  assertTensor(folded as Tensor, floats([1], [Number.NaN]));
});

test('the losses of classifiers take classes as numbers or as weights', async () => {
  const x = noisy([3, 4]);
  const rows = [0, 1, 2].map((k) => [...x.data].slice(4 * k, 4 * k + 4).map(Number));
  const soft = rows.map((row) => {
    const sum = row.reduce((all, value) => all + Math.exp(value), 0);
    return row.map((value) => Math.exp(value) / sum);
  });
  const classes = [2, 0, 3];
  const hot = classes.flatMap((own) => [0, 1, 2, 3].map((k) => (k === own ? 1 : 0)));
  const loss = floats(
    [3],
    classes.map((own, k) => -Math.log((soft[k] as number[])[own] as number)),
  );
  const slope = floats(
    [3, 4],
    soft.flat().map((value, k) => value - (hot[k] as number)),
  );
  for (const [op, labels] of [
    ['SparseSoftmaxCrossEntropyWithLogits', int32s([3], classes)],
    ['SoftmaxCrossEntropyWithLogits', floats([3, 4], hot)],
  ] as const) {
    const [own, derived] = await run({
      inputs: { x, labels },
      nodes: [['y', op, ['x', 'labels']]],
      outputs: ['y:0', 'y:1'],
      sizes: 'fixed and batch',
    });
    assertTensor(own as Tensor, loss, op);
    assertTensor(derived as Tensor, slope, op);
  }
});

test('DenseBincount counts per row, UnravelIndex gives rows and columns', async () => {
  const x = int32s([2, 3], [1, 1, 3, 0, 5, 3]);
  const [counts, flags, places] = await run({
    inputs: { x, at: int32s([3], [0, 5, 7]) },
    nodes: [
      constant('size', int32s([], [4])),
      constant('none', floats([0], [])),
      constant('dims', int32s([2], [3, 4])),
      ['c', 'DenseBincount', ['x', 'size', 'none']],
      ['b', 'DenseBincount', ['x', 'size', 'none'], { binary_output: a.flag(true) }],
      ['u', 'UnravelIndex', ['at', 'dims']],
    ],
    outputs: ['c', 'b', 'u'],
  });
  assertTensor(counts as Tensor, floats([2, 4], [0, 2, 0, 1, 1, 0, 0, 1]));
  assertTensor(flags as Tensor, floats([2, 4], [0, 1, 0, 1, 1, 0, 0, 1]));
  assertTensor(places as Tensor, int32s([2, 3], [0, 1, 1, 0, 1, 3]));
});
