/** Operators that join, cut and pad tensors. They must leave the batch axis whole. */
import { elementCount, type Tensor } from '../../../lib/contract/tensor.ts';
import { int } from '../attributes.ts';
import { sliceBounds } from '../elements.ts';
import { type Elements, made, pick, similar, stridesOf, walker } from '../moves.ts';
import { MAX_FOLDED_ELEMENTS, numbersOf } from '../numbers.ts';
import { allPlaces, elementsAt, known } from '../rows/arithmetic.ts';
import type { Call, RowRule } from '../rows/call.ts';
import { samePlace } from '../rows/combine.ts';
import { joiningIndices, moving } from '../rows/row-numbers.ts';
import { listOf, type ShapeRule } from '../rows/shape-node.ts';
import { dependsOnRows, numberOf, type Shape, type Size, same, size } from '../rows/size.ts';
import { elementsOf, fixedOf, MAX_ELEMENTS } from '../rows/value.ts';
import { axisOf } from '../shapes.ts';
import { type ElementRule, type Fold, type Operators, SMALL, UNSIGNED, WIDE } from './operator.ts';

/** Slice's way to say "to the end"; exporters write the largest 32-bit or 64-bit number. */
const TO_THE_END = 2 ** 31 - 1;

const concatShape: ShapeRule = (node) => {
  const shapes = Array.from({ length: node.count }, (_, i) => node.shapeAt(i));
  const first = shapes.find((shape) => shape !== undefined);
  if (!first) return [undefined];
  const axis = node.axis(node.int('axis', 0), first.length);
  return [
    first.map((dim, i) => {
      const dims = shapes.map((shape) => shape?.[i]);
      const numbers = dims.flatMap((each) => numberOf(each) ?? []);
      if (i !== axis) return numbers[0] === undefined ? dim : size(numbers[0]);
      if (dims.length === 1) return dim;
      return numbers.length === dims.length ? size(numbers.reduce((a, b) => a + b, 0)) : node.dim();
    }),
  ];
};

const splitShapes: ShapeRule = (node) => {
  const shape = node.shapeAt(0);
  if (!shape) return [];
  const axis = node.axis(node.int('axis', 0), shape.length);
  const parts = node.ints('split')?.map(size) ?? (node.has(1) ? (node.listAt(1) ?? []) : undefined);
  const even = (numberOf(shape[axis]) ?? Number.NaN) / node.outputs;
  return Array.from({ length: node.outputs }, (_, i) => {
    const part = parts ? parts[i] : Number.isInteger(even) ? size(even) : undefined;
    return shape.with(axis, part ?? node.dim());
  });
};

const slicedShape: ShapeRule = (node) => {
  const shape = node.shapeAt(0);
  if (!shape) return [undefined];
  const [starts, ends] = [node.listAt(1), node.listAt(2)];
  const axes = node.has(3) ? listOf(node, 'axes', 3) : [...(starts ?? shape).keys()];
  if (!axes) return [shape.map(() => node.dim())];
  const result = [...shape];
  for (const [i, raw] of axes.entries()) {
    const axis = node.axis(raw, shape.length);
    const [from, to, dim] = [numberOf(starts?.[i]), ends?.[i], shape[axis] as Size];
    const step = node.has(4) ? numberOf(node.listAt(4)?.[i]) : 1;
    const isToEnd = to !== undefined && ((numberOf(to) ?? 0) >= TO_THE_END || same(to, dim));
    if (from === 0 && step === 1 && isToEnd) continue;
    const [length, end] = [numberOf(dim), numberOf(to)];
    if (from === undefined || end === undefined || step === undefined || length === undefined) {
      result[axis] = node.dim();
    } else {
      const [first, last] = sliceBounds(from, end, step, length);
      result[axis] = size(Math.max(0, Math.ceil((last - first) / step)));
    }
  }
  return [result];
};

const paddedShape: ShapeRule = (node) => {
  const shape = node.shapeAt(0);
  if (!shape) return [undefined];
  const pads = node.opset < 11 ? node.ints('pads') : node.listAt(1)?.map(numberOf);
  const axes = node.has(3)
    ? listOf(node, '', 3)?.map((axis) => node.axis(axis, shape.length))
    : [...shape.keys()];
  return [
    shape.map((dim, axis) => {
      const at = axes?.indexOf(axis) ?? Number.NaN;
      if (at < 0) return dim;
      const added = (pads?.[at] ?? Number.NaN) + (pads?.[at + (axes?.length ?? 0)] ?? Number.NaN);
      if (added === 0) return dim;
      const length = (numberOf(dim) ?? Number.NaN) + added;
      return Number.isFinite(length) ? size(length) : node.dim();
    }),
  ];
};

const concat: RowRule = (call) => {
  const small = Array.from({ length: call.count }, (_, i) => known(call.value(i)));
  if (small.every((item) => item?.shape.length === 1)) {
    const elements = small.flatMap((item) => item?.elements ?? []);
    if (elements.length <= MAX_ELEMENTS) return elementsOf([size(elements.length)], elements, small[0]?.type);
  }
  const values = call.all();
  for (const value of values) call.shape(value);
  const shape = call.result();
  const place = samePlace(call, values);
  if (!place) return fixedOf(shape);
  const axis = call.axis(call.int('axis', 0), shape.length);
  if (axis === place.axis && values.length > 1) call.end('it joins tensors along the batch axis');
  return call.rows(shape, place);
};

const split: RowRule = (call) => {
  const x = call.data(0);
  const shape = call.shape(x);
  call.fixed(1);
  const axis = call.axis(call.int('axis', 0), shape.length);
  if (x.kind === 'rows' && x.axis === axis) call.end('it splits the batch axis');
  return call.node.outputs.map((_, i) => call.moved(x, call.result(i)));
};

interface Cut {
  readonly start: number | undefined;
  readonly end: number | undefined;
  readonly step: number | undefined;
  /** Whether it leaves the axis as it is. */
  readonly isWhole: boolean;
}

function isOfRows(element: Size | undefined): boolean {
  return element === undefined || dependsOnRows(element);
}

/** By axis. */
function cutsOf(call: Call, shape: Shape): Map<number, Cut> {
  const list = (name: string, index: number) =>
    call.opset < 10 ? call.ints(name)?.map(size) : call.sizes(index);
  const [starts, ends] = [list('starts', 1), list('ends', 2)];
  const axes = call.opset < 10 ? call.ints('axes') : call.numbers(3, 'axes');
  const steps = call.opset < 10 ? undefined : call.elements(4);
  if (call.opset >= 10 && call.has(4) && !steps) call.end('its steps are not constant');
  const count = axes?.length ?? starts?.length ?? numberOf(call.fixed(1)?.shape?.[0]);
  if (count === undefined) return call.end('which axes it cuts is not known');
  return new Map(
    Array.from({ length: count }, (_, i): [number, Cut] => {
      const axis = call.axis(axes?.[i] ?? i, shape.length);
      const [start, end] = [starts?.[i], ends?.[i]];
      const step = steps ? numberOf(steps[i]) : 1;
      const isToEnd =
        (numberOf(end) ?? 0) >= TO_THE_END || (end !== undefined && same(end, shape[axis] as Size));
      const isWhole = step === 1 && numberOf(start) === 0 && isToEnd;
      if (!isWhole && ((starts && isOfRows(start)) || (ends && isOfRows(end)))) {
        call.end('where it cuts depends on how many rows share the run');
      }
      return [
        axis,
        { start: numberOf(start), end: isToEnd ? Number.POSITIVE_INFINITY : numberOf(end), step, isWhole },
      ];
    }),
  );
}

/** The places that a slice takes from an axis. */
function placesOf({ start, end, step }: Cut, length: number | undefined): number[] | undefined {
  if (length === undefined || start === undefined || end === undefined || step === undefined || step === 0)
    return undefined;
  // Only the largest integers are "to the end", which is the beginning here.
  if (step < 0 && end >= TO_THE_END) return undefined;
  const [first, stop] = sliceBounds(start, end, step, length);
  const places: number[] = [];
  for (let at = first; step > 0 ? at < stop : at > stop; at += step) places.push(at);
  return places;
}

const slice: RowRule = (call) => {
  const small = known(call.value(0));
  if (small) {
    const cuts = cutsOf(call, small.shape);
    const places = small.shape.map((dim, axis) => {
      const cut = cuts.get(axis);
      return cut ? placesOf(cut, dim.factor) : allPlaces(dim);
    });
    if (places.every((list) => list !== undefined)) return elementsAt(small, places);
  }
  const x = call.data(0);
  const shape = call.shape(x);
  const cuts = cutsOf(call, shape);
  const result = shape.map((dim, axis) => {
    const cut = cuts.get(axis);
    if (!cut || cut.isWhole) return dim;
    return call.dimOr(placesOf(cut, numberOf(dim))?.length);
  });
  const own = x.kind === 'rows' ? cuts.get(x.axis) : undefined;
  if (own && !own.isWhole) call.end('it cuts the batch axis');
  return x.kind === 'rows' ? call.moved(x, result) : { ...fixedOf(result), uniform: x.uniform };
};

const pad: RowRule = (call) => {
  const x = call.data(0);
  const shape = call.shape(x);
  const pads = call.opset < 11 ? call.ints('pads') : call.elements(1)?.map(numberOf);
  call.fixed(2);
  const axes = (call.numbers(3, 'axes') ?? [...shape.keys()]).map((axis) => call.axis(axis, shape.length));
  const at = x.kind === 'rows' ? axes.indexOf(x.axis) : -1;
  if (at >= 0 && (pads?.[at] !== 0 || pads[at + axes.length] !== 0)) call.end('it pads the batch axis');
  return call.moved(x, call.result());
};

const joinedElements: ElementRule = (inputs) => {
  const parts = inputs.map((input) => input?.elements);
  return parts.every((part) => part !== undefined) ? parts.flat() : undefined;
};

const slicedElements: ElementRule = ([x, starts, ends, , steps]) => {
  const elements = x?.elements;
  const [start, end, step] = [starts?.elements?.[0], ends?.elements?.[0], steps ? steps.elements?.[0] : 1];
  if (!elements || typeof start !== 'number' || typeof end !== 'number') return undefined;
  if (step === 1) return elements.slice(start, end);
  if (step === -1) {
    const [from, to] = sliceBounds(start, end, -1, elements.length);
    return elements.slice(to + 1, from + 1).toReversed();
  }
  return undefined;
};

const foldConcat: Fold = (inputs, attributes, shapeOf) => {
  const tensors = inputs as readonly Tensor[];
  const [first, shape] = [tensors[0] as Tensor, shapeOf()];
  if (!shape) return undefined;
  const axis = axisOf(int(attributes.axis, 0), shape.length);
  const data = similar(first, elementCount(shape, MAX_FOLDED_ELEMENTS)) as unknown[];
  const inner = elementCount(shape.slice(axis + 1));
  const row = (shape[axis] as number) * inner;
  let column = 0;
  for (const tensor of tensors) {
    const width = (tensor.shape[axis] as number) * inner;
    const source = tensor.data as unknown as readonly unknown[];
    for (let i = 0; i < source.length; i++)
      data[Math.floor(i / width) * row + column + (i % width)] = source[i];
    column += width;
  }
  return [made(first, shape, data as unknown as Elements)];
};

const foldSlice: Fold = ([x, starts, ends, axes, steps]) => {
  const tensor = x as Tensor;
  const [from, to, by] = [numbersOf(starts as Tensor), numbersOf(ends as Tensor), steps && numbersOf(steps)];
  const at = axes ? numbersOf(axes) : from && Array.from(from, (_, i) => i);
  if (!from || !to || !at) return undefined;
  const strides = stridesOf(tensor.shape);
  const shape = [...tensor.shape];
  let offset = 0;
  const moves = [...strides];
  for (let i = 0; i < at.length; i++) {
    const axis = axisOf(at[i] as number, shape.length);
    const step = by?.[i] ?? 1;
    const [start, end] = sliceBounds(from[i] as number, to[i] as number, step, tensor.shape[axis] as number);
    shape[axis] = Math.max(0, Math.ceil((end - start) / step));
    offset += start * (strides[axis] as number);
    moves[axis] = (strides[axis] as number) * step;
  }
  return [pick(tensor, shape, walker(shape, moves, offset))];
};

export const JOINING: Operators = {
  Concat: { shapes: concatShape, elements: joinedElements, fold: foldConcat, rows: joiningIndices(concat) },
  Split: { shapes: splitShapes, rows: split },
  Slice: { shapes: slicedShape, elements: slicedElements, fold: foldSlice, rows: moving(slice) },
  Pad: {
    shapes: paddedShape,
    dtypes: [...WIDE, ...SMALL, ...UNSIGNED, 'bool'],
    typed: [0, 2],
    rows: pad,
  },
};
