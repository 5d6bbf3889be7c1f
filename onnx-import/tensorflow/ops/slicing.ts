/**
 * Converts Slice, StridedSlice with its five masks, Roll and Reverse. An index with shrink_axis_mask selects one
 * element, and -1 is the last one, whose end is not 0.
 */
import { cutAlong, TO_END } from '../../emit/gather.ts';
import type { GraphBuilder } from '../../graph/builder.ts';
import { constantNumber, constantNumbers } from '../../graph/numbers.ts';
import { axisOf, rank } from '../../graph/shapes.ts';
import type { Value } from '../../graph/value.ts';
import { intAttribute, type TfNode } from '../graph.ts';
import { cast, int64 } from './kernels.ts';
import { axisInTwin } from './layout.ts';
import { refuse } from './refuse.ts';
import { type Context, type OpTable, type Rule, takes } from './rule.ts';

/** A number if it is known, else an int64 list with one element. */
type Bound = number | Value;

function boundOf(g: GraphBuilder, list: Value, i: number): Bound {
  const known = list.elements?.[i];
  return typeof known === 'number' ? known : cutAlong(g, int64(g, list), 0, i, i + 1);
}

/** The number of entries in a list; if unknown, the number of axes of the tensor. */
function lengthOf(list: Value, x: Value): number {
  const length = list.elements?.length ?? list.shape?.[0];
  return typeof length === 'number' ? length : rank(x);
}

interface Part {
  readonly axis: number;
  readonly start: Bound;
  readonly end: Bound;
  readonly step: number;
}

function sliceParts(g: GraphBuilder, x: Value, parts: readonly Part[], hint: string): Value {
  const needed = parts.filter(({ start, end, step }) => !(start === 0 && end === TO_END && step === 1));
  if (needed.length === 0) return x;
  const list = (bounds: readonly Bound[]) =>
    bounds.every((bound) => typeof bound === 'number')
      ? g.ints(bounds)
      : g.one(
          'Concat',
          bounds.map((bound) => (typeof bound === 'number' ? g.ints([bound]) : bound)),
          { axis: 0 },
        );
  const inputs = [
    x,
    list(needed.map(({ start }) => start)),
    list(needed.map(({ end }) => end)),
    g.ints(needed.map(({ axis }) => axis)),
  ];
  const steps = needed.map(({ step }) => step);
  return g.one('Slice', steps.every((step) => step === 1) ? inputs : [...inputs, g.ints(steps)], {}, hint);
}

/** Slices the layout pair if there is one. */
function slicePlain(
  node: TfNode,
  x: Value,
  parts: readonly Part[],
  g: GraphBuilder,
  context: Context,
): Value {
  const pair = context.layouts.pair(x);
  const size = x.shape?.length;
  if (!pair || size === undefined) return sliceParts(g, x, parts, node.name);
  const moved = parts.map((part) => ({ ...part, axis: axisInTwin(axisOf(part.axis, size), size) }));
  const made = sliceParts(g, pair, moved, node.name);
  return made === pair ? x : context.layouts.last(g, made, node.name);
}

const slice: Rule = (node, [x, begin, sizes], g, context) => {
  const count = Math.min(lengthOf(begin, x), lengthOf(sizes, x));
  const parts = Array.from({ length: count }, (_, axis): Part => {
    const start = boundOf(g, begin, axis);
    return { axis, start, end: sliceEnd(g, start, boundOf(g, sizes, axis)), step: 1 };
  });
  return slicePlain(node, x, parts, g, context);
};

/** begin + size, where a size of -1 is the rest. */
function sliceEnd(g: GraphBuilder, start: Bound, size: Bound): Bound {
  if (size === -1) return TO_END;
  if (typeof start === 'number' && typeof size === 'number') return start + size;
  const [from, by] = [start, size].map((bound) => (typeof bound === 'number' ? g.ints([bound]) : bound)) as [
    Value,
    Value,
  ];
  const end = g.one('Add', [from, by]);
  if (typeof size === 'number') return end;
  return g.one('Where', [g.one('Less', [by, g.ints([0])]), g.ints([TO_END]), end]);
}

/** The specification of StridedSlice for one axis of the input. */
interface Entry {
  readonly axis: number;
  /** The position in begin, end and strides; undefined selects the whole axis. */
  readonly index: number | undefined;
  readonly shrink: boolean;
}

interface Plan {
  readonly entries: readonly Entry[];
  /** New axes of the result. */
  readonly added: readonly number[];
}

function planOf(node: TfNode, count: number, x: Value): Plan {
  const mask = (name: string) => {
    const bits = intAttribute(node, name, 0);
    return (i: number) => ((bits >> i) & 1) === 1;
  };
  const [ellipsis, newAxis, shrink] = ['ellipsis_mask', 'new_axis_mask', 'shrink_axis_mask'].map(mask) as [
    (i: number) => boolean,
    (i: number) => boolean,
    (i: number) => boolean,
  ];
  const entries: Entry[] = [];
  const added: number[] = [];
  let axis = 0;
  let result = 0;
  for (let i = 0; i < count; i++) {
    if (ellipsis(i)) {
      const used = Array.from({ length: count }, (_, k) => k).filter(
        (k) => k !== i && !(newAxis(k) && !ellipsis(k)),
      );
      const after = used.filter((k) => k > i).length;
      const before = used.length - after;
      // Nothing follows, so all other axes are whole and the rank need not be known.
      const hidden =
        after === 0 && !Array.from({ length: count }).some((_, k) => k > i && newAxis(k))
          ? 0
          : rank(x) - used.length;
      if (hidden < 0) refuse(`has too many indices for ${rank(x)} dimensions`);
      axis = before + hidden;
      result += hidden;
    } else if (newAxis(i)) {
      added.push(result);
      result += 1;
    } else {
      entries.push({ axis, index: i, shrink: shrink(i) });
      axis += 1;
      if (!shrink(i)) result += 1;
    }
  }
  return { entries, added };
}

const stridedSlice: Rule = (node, [x, begin, end, strides], g, context) => {
  const steps = constantNumbers(strides, 'strides');
  const { entries, added } = planOf(node, steps.length, x);
  if (x.shape && entries.some(({ axis }) => axis >= rank(x)))
    refuse(`has too many indices for ${rank(x)} dimensions`);
  const masks = { begin: intAttribute(node, 'begin_mask', 0), end: intAttribute(node, 'end_mask', 0) };
  const parts = entries.flatMap(({ axis, index, shrink }): Part[] => {
    if (index === undefined || shrink) return [];
    const step = steps[index] as number;
    if (step === 0) refuse('has a stride of 0');
    const first = step > 0 ? 0 : TO_END;
    const last = step > 0 ? TO_END : -TO_END;
    return [
      {
        axis,
        start: (masks.begin >> index) & 1 ? first : boundOf(g, begin, index),
        end: (masks.end >> index) & 1 ? last : boundOf(g, end, index),
        step,
      },
    ];
  });
  const sliced = slicePlain(node, x, parts, g, context);
  const shrunk = entries
    .filter(({ shrink }) => shrink)
    .toReversed()
    .reduce<Value>(
      (value, { axis, index }) => element(node, g, value, boundOf(g, begin, index as number), axis),
      sliced,
    );
  return added.reduce<Value>(
    (value, axis) => g.one('Unsqueeze', [value, g.ints([axis])], {}, node.name),
    shrunk,
  );
};

/** Selects one index of an axis and removes the axis. */
function element(node: TfNode, g: GraphBuilder, x: Value, index: Bound, axis: number): Value {
  const at = typeof index === 'number' ? g.scalar('int64', index) : g.one('Squeeze', [index, g.ints([0])]);
  return g.one('Gather', [x, at], { axis }, node.name);
}

function reverseAxes(node: TfNode, x: Value, axes: readonly number[], g: GraphBuilder): Value {
  const parts = axes.map((axis): Part => ({ axis, start: -1, end: -TO_END, step: -1 }));
  return sliceParts(g, x, parts, node.name);
}

/** Shifts elements along an axis; those that leave one end enter at the other. */
const roll: Rule = (node, [x, shiftValue, axisValue], g) => {
  const shifts = constantNumbers(shiftValue, 'shift');
  return constantNumbers(axisValue, 'axis').reduce<Value>((value, axis, i) => {
    const shift = shifts[i] ?? 0;
    const own = axisOf(axis, rank(x));
    const size = x.shape?.[own];
    if (typeof size === 'number') {
      const by = size > 0 ? ((shift % size) + size) % size : 0;
      if (by === 0) return value;
      const fixedParts = [cutAlong(g, value, own, -by, TO_END), cutAlong(g, value, own, 0, -by)];
      return g.one('Concat', fixedParts, { axis: own }, node.name);
    }
    // A shift may exceed the length. Max avoids a division by 0.
    const length = g.one('Shape', [value], { start: own, end: own + 1 });
    const by = g.one('Mod', [g.ints([shift]), g.one('Max', [length, g.ints([1])])]);
    const at = g.one('Sub', [length, by]);
    const parts = [cutAlong(g, value, own, at, TO_END), cutAlong(g, value, own, 0, at)];
    return g.one('Concat', parts, { axis: own }, node.name);
  }, x);
};

/** ONNX's ReverseSequence needs batch and time as the first two axes. */
const reverseSequence: Rule = (node, [x, lengths], g) => {
  const time = intAttribute(node, 'seq_dim');
  const batch = intAttribute(node, 'batch_dim', 0);
  const rest = Array.from({ length: rank(x) }, (_, i) => i).filter((axis) => axis !== time && axis !== batch);
  const perm = [batch, time, ...rest];
  const moved = g.one('Transpose', [x], { perm });
  const made = g.one(
    'ReverseSequence',
    [moved, int64(g, lengths)],
    { batch_axis: 0, time_axis: 1 },
    node.name,
  );
  return g.one('Transpose', [made], { perm: perm.map((_, i) => perm.indexOf(i)) }, node.name);
};

const cumulative: Rule = (node, [x, axisValue], g) => {
  const axis = constantNumber(axisValue, 'axis');
  const flag = (name: string) =>
    node.attributes[name]?.kind === 'bool' && node.attributes[name].value ? 1 : 0;
  const own = ['int8', 'uint8', 'int16', 'uint16'].includes(x.dtype) ? cast(g, x, 'int32') : x;
  const attributes = { exclusive: flag('exclusive'), reverse: flag('reverse') };
  return cast(g, g.one('CumSum', [own, g.scalar('int64', axis)], attributes, node.name), x.dtype);
};

export const SLICING: OpTable = {
  ...takes(2, {
    Cumsum: cumulative,
    Reverse: (node, [x, flags], g) => {
      const flagged = constantNumbers(flags, 'list of flags');
      return reverseAxes(
        node,
        x,
        flagged.flatMap((flag, axis) => (flag === 0 ? [] : [axis])),
        g,
      );
    },
    ReverseSequence: reverseSequence,
    ReverseV2: (node, [x, axes], g) => reverseAxes(node, x, constantNumbers(axes, 'list of axes'), g),
  }),
  ...takes(3, { Roll: roll, Slice: slice }),
  ...takes(4, { StridedSlice: stridedSlice }),
};
