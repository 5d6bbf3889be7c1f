/** Operators that move elements without computing: where the batch axis is afterwards. */
import type { Call, Rule } from '../call.ts';
import {
  dependsOnRows,
  isUnknown,
  numberOf,
  ONE,
  over,
  product,
  type Size,
  same,
  size,
  times,
} from '../size.ts';
import {
  broadcastSize,
  type Data,
  elementsOf,
  type Fixed,
  fixedOf,
  type Rows,
  type Shape,
} from '../value.ts';
import { allPlaces, elementsAt, known } from './arithmetic.ts';
import { moving } from './row-numbers.ts';

/** The elements of a shape input: undefined ones depend on N in a way that is not known. */
function target(call: Call, index: number): readonly (Size | undefined)[] {
  const elements = call.sizes(index);
  if (elements) return elements;
  // Fixed, of a known length, and of unknown content.
  const length = numberOf(call.fixed(index)?.shape?.[0]);
  if (length === undefined || length > 64) call.end('its shape input is not known');
  return Array.from({ length }, () => call.names.integer());
}

/** A size of a shape input: an integer that is not known is a size that we do not know. */
function dimOf(call: Call, element: Size | undefined): Size {
  if (!element) return call.end('its shape depends on how many rows share the run');
  // One row less than none is -1, which is what is left.
  if (element.factor < 0 && element.names.length > 0) call.end('its shape has a negative size');
  return element.names.some(isUnknown) ? call.dim() : element;
}

/**
 * Where N·(what follows) begins again among the new sizes. Elements keep their order, so the rows stay together if the
 * sizes before the new axis are a part of those before the old one, and N is a whole factor of the new axis.
 */
export function reshape(call: Call, x: Rows, shape: Shape): Rows {
  const before = times(product(x.shape.slice(0, x.axis)), x.outer);
  let passed = ONE;
  for (const [axis, dim] of shape.entries()) {
    const outer = over(before, passed);
    if (!outer) break;
    const inner = over(dim, times(outer, call.analysis.n));
    if (inner) return call.rows(shape, { axis, outer, inner });
    passed = times(passed, dim);
  }
  return call.end('its new shape does not keep the rows apart');
}

/** @param wanted with -1 for what is left */
function withRest(call: Call, from: Shape | undefined, wanted: Shape): Shape {
  const at = wanted.findIndex((dim) => numberOf(dim) === -1);
  if (at < 0) return wanted;
  const rest = from && over(product(from), product(wanted.toSpliced(at, 1)));
  return wanted.with(at, rest ?? call.dim());
}

const reshapeRule: Rule = (call) => {
  const elements = known(call.value(0));
  const x = call.value(0)?.kind === 'counts' ? undefined : call.data(0);
  const keepsZero = call.int('allowzero', 0) === 0;
  const wanted = target(call, 1).map((element, i) => {
    if (numberOf(element) !== 0 || !keepsZero) return dimOf(call, element);
    return x ? (x.shape?.[i] ?? call.dim()) : call.end('it copies a size of a shape');
  });
  const from = x?.shape ?? elements?.shape;
  const shape = withRest(call, from, wanted);
  if (elements && shape.every((dim) => numberOf(dim) !== undefined)) {
    return elementsOf(shape, elements.elements, elements.type);
  }
  if (!x) return call.end('it depends on how many rows share the run');
  return x.kind === 'rows' ? reshape(call, x, shape) : { ...fixedOf(shape), uniform: x.uniform };
};

const flatten: Rule = (call) => {
  const x = call.data(0);
  const shape = call.shape(x);
  const at = call.int('axis', 1);
  const axis = at < 0 ? at + shape.length : at;
  const flat = [product(shape.slice(0, axis)), product(shape.slice(axis))];
  return x.kind === 'rows' ? reshape(call, x, flat) : fixedOf(flat);
};

const transpose: Rule = (call) => {
  const small = known(call.value(0));
  const perm = call.ints('perm');
  if (small)
    return elementsAt(small, small.shape.map(allPlaces), perm ?? [...small.shape.keys()].toReversed());
  const x = call.data(0);
  const shape = call.shape(x);
  const order = perm ?? [...shape.keys()].toReversed();
  if (order.length !== shape.length) call.end('its permutation has another length than the shape');
  const moved = order.map((axis) => shape[call.axis(axis, shape.length)] as Size);
  return call.moved(x, moved, x.kind === 'rows' ? order.findIndex((axis) => axis === x.axis) : 0);
};

/** An empty list is none: onnxruntime then squeezes as if there were no list. */
function axesOf(call: Call): readonly number[] | undefined {
  const axes = call.ints('axes') ?? call.numbers(1, 'axes');
  return axes?.length === 0 ? undefined : axes;
}

const squeeze: Rule = (call) => {
  const small = known(call.value(0));
  const axes = axesOf(call);
  if (small) {
    const shape = squeezed(call, small.shape, axes);
    return elementsOf(shape, small.elements, small.type);
  }
  const x = call.data(0);
  const shape = call.shape(x);
  const left = squeezed(call, shape, axes);
  if (x.kind !== 'rows') return { ...fixedOf(left), uniform: x.uniform };
  const gone = goneAxes(call, shape, axes);
  if (gone.has(x.axis)) call.end('it removes the batch axis');
  return call.rows(left, { ...x, axis: x.axis - [...gone].filter((axis) => axis < x.axis).length });
};

function goneAxes(call: Call, shape: Shape, axes: readonly number[] | undefined): Set<number> {
  if (axes) return new Set(axes.map((axis) => call.axis(axis, shape.length)));
  // One row alone would lose its batch axis, two would not.
  if (shape.some((dim) => numberOf(dim) === undefined)) call.end('it removes whichever axes have the size 1');
  return new Set([...shape.keys()].filter((axis) => numberOf(shape[axis]) === 1));
}

function squeezed(call: Call, shape: Shape, axes: readonly number[] | undefined): Shape {
  const gone = goneAxes(call, shape, axes);
  return shape.filter((_, axis) => !gone.has(axis));
}

const unsqueeze: Rule = (call) => {
  const axes = axesOf(call) ?? [];
  const small = known(call.value(0));
  const x = small ? undefined : call.data(0);
  const shape = small?.shape ?? call.shape(x as Data);
  const rank = shape.length + axes.length;
  const added = new Set(axes.map((axis) => call.axis(axis, rank)));
  const places = Array.from({ length: rank }, (_, i) => i).filter((i) => !added.has(i));
  const result = Array.from(
    { length: rank },
    (_, i): Size => (added.has(i) ? ONE : (shape[places.indexOf(i)] as Size)),
  );
  if (small) return elementsOf(result, small.elements, small.type);
  const data = x as Data;
  return data.kind === 'rows'
    ? call.moved(data, result, places[data.axis])
    : { ...fixedOf(result), uniform: data.uniform };
};

/** Elements that do not differ along an axis may be its rows: each row has the same ones. */
function spread(call: Call, shape: Shape, isAlike: (axis: number) => boolean): Rows | undefined {
  const axis = shape.findIndex(dependsOnRows);
  if (axis < 0) return undefined;
  if (!isAlike(axis)) call.end('it repeats what is not the same for all rows');
  const inner = over(shape[axis] as Size, call.analysis.n) as Size;
  return call.rows(shape, { axis, outer: ONE, inner });
}

const expand: Rule = (call) => {
  const wanted = target(call, 1).map((element) => dimOf(call, element));
  const x = call.data(0);
  const from = call.shape(x);
  const rank = Math.max(from.length, wanted.length);
  const pad = (shape: Shape) => [...new Array<Size>(rank - shape.length).fill(ONE), ...shape];
  const [have, want] = [pad(from), pad(wanted)];
  const shape = have.map((dim, i) => {
    const other = want[i] as Size;
    return dependsOnRows(other) ? other : broadcastSize(dim, other, call.names);
  });
  if (x.kind === 'rows') {
    const axis = x.axis + rank - from.length;
    const other = want[axis] as Size;
    if (!same(other, ONE) && !same(other, have[axis] as Size))
      call.end('it changes the size of the batch axis');
    return call.rows(shape, { ...x, axis });
  }
  const rows = spread(call, shape, (axis) => same(have[axis] as Size, ONE));
  return rows ?? { ...fixedOf(shape), uniform: x.uniform };
};

const tile: Rule = (call) => {
  const repeats = target(call, 1).map((element) => dimOf(call, element));
  const x = call.data(0);
  const from = call.shape(x);
  const shape = from.map((dim, i) => times(dim, repeats[i] ?? ONE));
  if (x.kind === 'rows') {
    return call.rows(shape, { ...x, outer: times(x.outer, repeats[x.axis] ?? ONE) });
  }
  return spread(call, shape, (axis) => dependsOnRows(repeats[axis] ?? ONE)) ?? fixedOf(shape);
};

const constantOfShape: Rule = (call) => {
  const shape = target(call, 0).map((element) => dimOf(call, element));
  const rows = spread(call, shape, () => true);
  if (rows) return rows;
  const value = call.attribute('value')?.tensor;
  const count = numberOf(product(shape));
  const element = value ? value.elements?.[0] : size(0);
  if (element && count !== undefined && count <= 64) {
    return elementsOf(shape, new Array<Size>(count).fill(element), value?.type ?? 1);
  }
  return { ...fixedOf(shape), uniform: true } satisfies Fixed;
};

export const LAYOUT: Readonly<Record<string, Rule>> = {
  Reshape: moving(reshapeRule),
  Flatten: moving(flatten),
  Transpose: moving(transpose),
  Squeeze: moving(squeeze),
  Unsqueeze: moving(unsqueeze),
  Expand: moving(expand),
  Tile: moving(tile),
  ConstantOfShape: constantOfShape,
};
