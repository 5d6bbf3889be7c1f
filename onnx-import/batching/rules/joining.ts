/** Operators that join, cut and pad tensors. They must leave the batch axis whole. */
import { sliceBounds } from '../../graph/elements.ts';
import type { Call, Rule } from '../call.ts';
import { dependsOnRows, numberOf, ONE, type Size, same, size } from '../size.ts';
import {
  type Data,
  elementsOf,
  fixedOf,
  isSamePlace,
  MAX_ELEMENTS,
  type Rows,
  type Shape,
} from '../value.ts';
import { allPlaces, elementsAt, known } from './arithmetic.ts';
import { joiningIndices, moving } from './row-numbers.ts';

/** Slice's way to say "to the end"; exporters write the largest 32-bit or 64-bit number. */
const TO_THE_END = 2 ** 31 - 1;

/** The one place of the rows of several inputs. @throws ProofEnd where an input that is fixed could not have it */
export function samePlace(call: Call, values: readonly Data[]): Rows | undefined {
  const first = values.find((value): value is Rows => value.kind === 'rows');
  if (!first) return undefined;
  const axisSize = first.shape[first.axis] as Size;
  for (const value of values) {
    const shape = call.shape(value);
    if (value.kind === 'rows') {
      if (!isSamePlace(value, first)) call.end('its inputs have their rows on different axes');
    } else if (value.uniform !== true || !same(shape[first.axis] ?? ONE, axisSize)) {
      call.end('it combines the rows with a constant that differs along the batch axis');
    }
  }
  return first;
}

const concat: Rule = (call) => {
  const small = Array.from({ length: call.count }, (_, i) => known(call.value(i)));
  if (small.every((item) => item?.shape.length === 1)) {
    const elements = small.flatMap((item) => item?.elements ?? []);
    if (elements.length <= MAX_ELEMENTS) return elementsOf([size(elements.length)], elements, small[0]?.type);
  }
  const values = call.all();
  const shapes = values.map((value) => call.shape(value));
  const first = shapes[0] as Shape;
  const axis = call.axis(call.int('axis', 1), first.length);
  const sizes = shapes.map((shape) => numberOf(shape[axis]));
  const total = sizes.reduce((a, b) => (a === undefined || b === undefined ? undefined : a + b), 0);
  const shape = first.with(axis, shapes.length === 1 ? (first[axis] as Size) : call.dimOr(total));
  const place = samePlace(call, values);
  if (!place) return fixedOf(shape);
  if (axis === place.axis && values.length > 1) call.end('it joins tensors along the batch axis');
  return call.rows(shape, place);
};

const split: Rule = (call) => {
  const x = call.data(0);
  const shape = call.shape(x);
  const axis = call.axis(call.int('axis', 0), shape.length);
  const parts = call.ints('split') ?? call.elements(1)?.map(numberOf);
  const count = call.node.outputs.length;
  const whole = numberOf(shape[axis]);
  const even = whole !== undefined && whole % count === 0 ? whole / count : undefined;
  if (x.kind === 'rows' && x.axis === axis) call.end('it splits the batch axis');
  return call.node.outputs.map((_, i) =>
    call.moved(x, shape.with(axis, call.dimOr(parts ? parts[i] : call.has(1) ? undefined : even))),
  );
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

const slice: Rule = (call) => {
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

const pad: Rule = (call) => {
  const x = call.data(0);
  const shape = call.shape(x);
  const pads = call.opset < 11 ? call.ints('pads') : call.elements(1)?.map(numberOf);
  call.fixed(2);
  const axes = (call.numbers(3, 'axes') ?? [...shape.keys()]).map((axis) => call.axis(axis, shape.length));
  const grown = (axis: number): number | undefined => {
    const at = axes.indexOf(axis);
    if (at < 0) return 0;
    const [before, after] = [pads?.[at], pads?.[at + axes.length]];
    if (x.kind === 'rows' && axis === x.axis && (before !== 0 || after !== 0))
      call.end('it pads the batch axis');
    return before === undefined || after === undefined ? undefined : before + after;
  };
  return call.moved(
    x,
    shape.map((dim, axis) => {
      const [length, more] = [numberOf(dim), grown(axis)];
      if (more === 0) return dim;
      return call.dimOr(length === undefined || more === undefined ? undefined : length + more);
    }),
  );
};

export const JOINING: Readonly<Record<string, Rule>> = {
  Concat: joiningIndices(concat),
  Split: split,
  Slice: moving(slice),
  Pad: pad,
};
