/** Slices, gathering and scattering. Negative indices count from the end in both formats, where OpenVINO allows them. */

import { badModel } from '../../../lib/contract/errors.ts';
import { reversed } from '../../emit/gather.ts';
import { BATCH } from '../../graph/batch.ts';
import { constantNumber, constantNumbers } from '../../graph/numbers.ts';
import { axisOf, known } from '../../graph/shapes.ts';
import type { Value } from '../../graph/value.ts';
import { int64, type OpTable, type OvNode, type Rule } from '../node.ts';
import { alongBatch } from './shaping.ts';

/** An end beyond every index. */
const TO_END = 2 ** 31 - 1;

/** Since version 10 a 1 in a mask means that the bound is ignored; before, that it holds. */
export const stridedSlice =
  (isOld: boolean): Rule =>
  (node) => {
    const x = node.input(0);
    const begin = constantNumbers(node.input(1), 'begin');
    const end = constantNumbers(node.input(2), 'end');
    const steps = node.optional(3) ? constantNumbers(node.input(3), 'strides') : begin.map(() => 1);
    const ignored = (name: string, i: number) => {
      const bit = node.numbers(name, [])[i];
      return isOld ? bit === 0 : bit === 1;
    };
    const set = (name: string, i: number) => node.numbers(name, [])[i] === 1;
    for (const name of ['begin_mask', 'end_mask', 'new_axis_mask', 'shrink_axis_mask', 'ellipsis_mask'])
      node.has(name);
    const rank = known(x).length;
    const taken = begin.filter((_, i) => !set('new_axis_mask', i) && !set('ellipsis_mask', i)).length;
    const plan = {
      starts: [] as number[],
      ends: [] as number[],
      axes: [] as number[],
      steps: [] as number[],
    };
    const [shrunk, added]: [number[], number[]] = [[], []];
    let axis = 0;
    let place = 0;
    for (const [i, first] of begin.entries()) {
      if (set('ellipsis_mask', i)) {
        axis += rank - taken;
        place += rank - taken;
      } else if (set('new_axis_mask', i)) added.push(place++);
      else {
        const step = steps[i] as number;
        const isShrunk = set('shrink_axis_mask', i);
        plan.axes.push(axis);
        plan.steps.push(isShrunk ? 1 : step);
        const start = ignored('begin_mask', i) && !isShrunk ? (step > 0 ? 0 : TO_END) : first;
        plan.starts.push(start);
        plan.ends.push(
          isShrunk
            ? start === -1
              ? TO_END
              : start + 1
            : ignored('end_mask', i)
              ? step > 0
                ? TO_END
                : -TO_END
              : (end[i] as number),
        );
        if (isShrunk) shrunk.push(axis);
        else place += 1;
        axis += 1;
      }
    }
    if (axis > rank) throw badModel(`slices ${axis} axes of ${rank}`);
    return sliced(node, x, plan, shrunk, added);
  };

interface SlicePlan {
  readonly starts: readonly number[];
  readonly ends: readonly number[];
  readonly axes: readonly number[];
  readonly steps: readonly number[];
}

function sliced(
  node: OvNode,
  x: Value,
  plan: SlicePlan,
  shrunk: readonly number[],
  added: readonly number[],
): Value {
  const { g } = node;
  const { starts, ends, axes, steps } = plan;
  const real = axes.flatMap((axis, i) => {
    const isAll = starts[i] === 0 && (ends[i] as number) >= TO_END && steps[i] === 1;
    const isBatch = known(x)[axis] === BATCH;
    if (isBatch && !isAll) node.bindBatch();
    return isAll ? [] : [i];
  });
  const list = (values: readonly number[]) => g.ints(real.map((i) => values[i] as number));
  const cut = real.length === 0 ? x : g.one('Slice', [x, list(starts), list(ends), list(axes), list(steps)]);
  const less = shrunk.length > 0 ? g.one('Squeeze', [cut, g.ints(shrunk)]) : cut;
  return added.length > 0 ? node.one('Unsqueeze', [less, g.ints(added)]) : node.one('Identity', [less]);
}

const slice: Rule = (node) => {
  const x = node.input(0);
  const [starts, ends, steps] = [1, 2, 3].map((i) => int64(node, node.input(i))) as [Value, Value, Value];
  const at = node.optional(4);
  const axes = at ? constantNumbers(at, 'list of axes') : (starts.elements ?? []).map((_, i) => i);
  const rank = known(x).length;
  const bounded = axes.some((axis, i) => {
    const isAll = starts.elements?.[i] === 0 && Number(ends.elements?.[i] ?? 0) >= TO_END;
    return known(x)[axisOf(axis, rank)] === BATCH && !isAll;
  });
  if (bounded) node.bindBatch();
  return node.one('Slice', [x, starts, ends, node.g.ints(axes), steps]);
};

const gather: Rule = (node) => {
  const [x, indices] = [node.input(0), node.input(1)];
  const rank = known(x).length;
  const axis = axisOf(constantNumber(node.input(2), 'axis'), rank);
  const size = known(indices).length;
  const batches = node.whole('batch_dims', 0);
  const shared = batches < 0 ? batches + size : batches;
  return gathered(node, x, indices, axis, shared);
};

export function gathered(node: OvNode, x: Value, indices: Value, axis: number, shared: number): Value {
  const at = indices.dtype === 'int32' || indices.dtype === 'int64' ? indices : int64(node, indices);
  if (known(x)[axis] === BATCH) node.bindBatch();
  if (shared === 0) return node.one('Gather', [x, at], { axis });
  if (shared !== axis || known(indices).length < shared) return gatherRows(node, x, at, axis, shared);
  const last = node.g.one('Unsqueeze', [int64(node, at), node.g.ints([-1])]);
  return node.one('GatherND', [x, last], { batch_dims: shared });
}

/** The axis is moved behind those that both share, and back. */
function gatherRows(node: OvNode, x: Value, indices: Value, axis: number, shared: number): Value {
  const rank = known(x).length;
  const rest = Array.from({ length: rank }, (_, i) => i).filter((i) => i !== axis);
  const moved = node.g.one('Transpose', [x], { perm: rest.toSpliced(shared, 0, axis) });
  const made = gathered(node, moved, indices, shared, shared);
  const inner = known(indices).length - shared;
  const between = axis - shared;
  // [shared, indices, between, after] becomes [shared, between, indices, after].
  const total = known(made).length;
  const all = Array.from({ length: total }, (_, i) => i);
  const perm = [
    ...all.slice(0, shared),
    ...all.slice(shared + inner, shared + inner + between),
    ...all.slice(shared, shared + inner),
    ...all.slice(shared + inner + between),
  ];
  return node.one('Transpose', [made], { perm });
}

const gatherNd: Rule = (node) => {
  const [x, indices] = [node.input(0), int64(node, node.input(1))];
  const shared = node.whole('batch_dims', 0);
  const made = node.one('GatherND', [x, indices], { batch_dims: shared });
  if (node.opset >= 8 || shared < 2) return made;
  // Before opset 8 the shared axes become one.
  throw badModel('shares several axes, which is not supported before opset 8');
};

const gatherElements: Rule = (node) => {
  const x = node.input(0);
  return node.one('GatherElements', [x, node.input(1)], {
    axis: axisOf(node.whole('axis'), known(x).length),
  });
};

const scatterUpdate: Rule = (node) => {
  const [x, indices, updates] = [node.input(0), int64(node, node.input(1)), node.input(2)];
  const rank = known(x).length;
  const axis = axisOf(constantNumber(node.input(3), 'axis'), rank);
  // Rows become the first axis, which ScatterND sets.
  const order = [axis, ...Array.from({ length: rank }, (_, i) => i).filter((i) => i !== axis)];
  const inner = known(indices).length;
  const all = Array.from({ length: known(updates).length }, (_, i) => i);
  const moved = [...all.slice(axis, axis + inner), ...all.slice(0, axis), ...all.slice(axis + inner)];
  const { g } = node;
  const rows = g.one('ScatterND', [
    g.one('Transpose', [x], { perm: order }),
    g.one('Unsqueeze', [indices, g.ints([-1])]),
    g.one('Transpose', [updates], { perm: moved }),
  ]);
  const back = Array.from({ length: rank }, (_, i) => order.indexOf(i));
  return node.one('Transpose', [rows], { perm: back });
};

const scatterElements: Rule = (node) => {
  const [x, indices, updates] = [node.input(0), int64(node, node.input(1)), node.input(2)];
  const axis = axisOf(constantNumber(node.input(3), 'axis'), known(x).length);
  const reduction = node.choice('reduction', ['none', 'sum', 'prod', 'mean', 'min', 'max'], 'none');
  const usesInitial = node.flag('use_init_val', true);
  if (reduction !== 'none' && reduction !== 'sum' && reduction !== 'prod')
    throw badModel(`reduction ${reduction} is not supported`);
  if (reduction !== 'none' && !usesInitial) throw badModel('use_init_val false is not supported');
  const how = { none: 'none', sum: 'add', prod: 'mul' }[reduction];
  return node.one('ScatterElements', [x, indices, updates], { axis, reduction: how });
};

const scatterNd: Rule = (node) => {
  const reduction = node.choice('reduction', ['none', 'sum', 'sub', 'prod'], 'none');
  const how = { none: 'none', sum: 'add', sub: 'add', prod: 'mul' }[reduction];
  const updates = reduction === 'sub' ? node.g.one('Neg', [node.input(2)]) : node.input(2);
  return node.one('ScatterND', [node.input(0), int64(node, node.input(1)), updates], { reduction: how });
};

const reverse: Rule = (node) => {
  const x = node.input(0);
  const mode = node.choice('mode', ['index', 'mask']);
  const numbers = constantNumbers(node.input(1), 'list of axes');
  const axes = mode === 'index' ? numbers : numbers.flatMap((flag, i) => (flag === 0 ? [] : [i]));
  if (axes.length === 0) return node.one('Identity', [x]);
  if (axes.some((axis) => known(x)[axisOf(axis, known(x).length)] === BATCH)) node.bindBatch();
  return reversed(node, x, axes);
};

const reverseSequence: Rule = (node) => {
  const x = node.input(0);
  const rank = known(x).length;
  const batch = axisOf(node.whole('batch_axis', 0), rank);
  const time = axisOf(node.whole('seq_axis', 1), rank);
  const lengths = alongBatch(node, int64(node, node.input(1)), x, 0);
  if (rank >= 2 && batch + time === 1)
    return node.one('ReverseSequence', [x, lengths], { batch_axis: batch, time_axis: time });
  const rest = Array.from({ length: rank }, (_, i) => i).filter((i) => i !== batch && i !== time);
  const perm = [batch, time, ...rest];
  const moved = node.g.one('Transpose', [x], { perm });
  const made = node.g.one('ReverseSequence', [moved, lengths], { batch_axis: 0, time_axis: 1 });
  return node.one('Transpose', [made], { perm: perm.map((_, i) => perm.indexOf(i)) });
};

const roll: Rule = (node) => {
  const shifts = constantNumbers(node.input(1), 'shift');
  const x = node.input(0);
  const rank = known(x).length;
  const axes = constantNumbers(node.input(2), 'list of axes').map((axis) => axisOf(axis, rank));
  return axes.reduce<Value>((value, axis, i) => {
    const dim = known(value)[axis];
    const shift = shifts.length === 1 ? (shifts[0] as number) : (shifts[i] as number);
    if (typeof dim !== 'number') {
      node.bindBatch();
      throw badModel('rolls a free size; give it with --input');
    }
    const by = ((shift % dim) + dim) % dim;
    if (by === 0) return value;
    const part = (from: number, to: number) =>
      node.g.one('Slice', [value, node.g.ints([from]), node.g.ints([to]), node.g.ints([axis])]);
    return node.one('Concat', [part(dim - by, dim), part(0, dim - by)], { axis });
  }, x);
};

/** Sums the rows that the indices of each bag name. */
const embeddingBag: Rule = (node) => {
  const [table, indices, weights] = [node.input(0), node.input(1), node.optional(2)];
  const mode = node.choice('reduction', ['sum', 'mean'], 'sum');
  const rows = node.g.one('Gather', [table, int64(node, indices)], { axis: 0 });
  const shares = weights
    ? node.g.one('Mul', [rows, node.g.one('Unsqueeze', [weights, node.g.ints([2])])])
    : rows;
  return mode === 'sum'
    ? node.one('ReduceSum', [shares, node.g.ints([1])], { keepdims: 0 })
    : node.one('ReduceMean', [shares], { axes: [1], keepdims: 0 });
};

export const SLICINGS: OpTable = {
  EmbeddingBagPacked: embeddingBag,
  EmbeddingBagPackedSum: embeddingBag,
  Gather: gather,
  GatherElements: gatherElements,
  GatherND: gatherNd,
  Reverse: reverse,
  ReverseSequence: reverseSequence,
  Roll: roll,
  ScatterElementsUpdate: scatterElements,
  ScatterNDUpdate: scatterNd,
  ScatterUpdate: scatterUpdate,
  Slice: slice,
  StridedSlice: stridedSlice(false),
};
