/** Operators that move or repeat elements without computing: where the batch axis is afterwards. */
import { elementCount } from '../../../lib/contract/tensor.ts';
import { ints } from '../attributes.ts';
import { first } from '../elements.ts';
import { transposed } from '../moves.ts';
import { allPlaces, elementsAt, known } from '../rows/arithmetic.ts';
import type { Call, RowRule } from '../rows/call.ts';
import { moving } from '../rows/row-numbers.ts';
import { listOf, type ShapeNode, type ShapeRule } from '../rows/shape-node.ts';
import { isUnknown, numberOf, ONE, over, product, type Shape, type Size, times } from '../rows/size.ts';
import { elementsOf, fixedOf, type Rows } from '../rows/value.ts';
import type { Fold, Operators } from './operator.ts';

/** Sizes of a shape input. */
export function wantedSizes(node: ShapeNode, index: number): Size[] | undefined {
  const list = node.listAt(index);
  const length = list?.length ?? numberOf(node.shapeAt(index)?.[0]);
  if (length === undefined || node.shapeAt(index)?.length !== 1 || length > MAX_RANK) return undefined;
  return Array.from({ length }, (_, i) => list?.[i] ?? node.dim());
}

/** No tensor has more axes. */
const MAX_RANK = 64;

/** @param wanted with -1 for what is left */
function withRest(node: ShapeNode, from: Shape | undefined, wanted: Shape): Shape {
  const at = wanted.findIndex((dim) => numberOf(dim) === -1);
  if (at < 0) return wanted;
  const rest = from && over(product(from), product(wanted.toSpliced(at, 1)));
  return wanted.with(at, rest ?? node.dim());
}

const reshaped: ShapeRule = (node) => {
  const [from, wanted] = [node.shapeAt(0), wantedSizes(node, 1)];
  if (!wanted) return [undefined];
  const keepsZero = node.int('allowzero', 0) === 0;
  const shape = wanted.map((dim, i) => (numberOf(dim) === 0 && keepsZero ? (from?.[i] ?? node.dim()) : dim));
  return [withRest(node, from, shape)];
};

const flattened: ShapeRule = (node) => {
  const shape = node.shapeAt(0);
  if (!shape) return [[node.dim(), node.dim()]];
  const axis = node.int('axis', 1);
  const at = axis < 0 ? axis + shape.length : axis;
  return [[product(shape.slice(0, at)), product(shape.slice(at))]];
};

const orderOf = (node: ShapeNode, rank: number) =>
  node.ints('perm') ?? [...new Array(rank).keys()].toReversed();

const transposedShape: ShapeRule = (node) => {
  const shape = node.shapeAt(0);
  return [shape && orderOf(node, shape.length).map((axis) => shape[node.axis(axis, shape.length)] as Size)];
};

/** The axes that Squeeze removes; undefined where they are not known. */
function goneAxes(node: ShapeNode, shape: Shape): ReadonlySet<number> | undefined {
  const axes = listOf(node, 'axes', 1);
  // An empty list is none: onnxruntime then squeezes as if there were no list.
  if (axes && axes.length > 0) return new Set(axes.map((axis) => node.axis(axis, shape.length)));
  if ((!axes && node.has(1)) || shape.some((dim) => numberOf(dim) === undefined)) return undefined;
  return new Set([...shape.keys()].filter((axis) => numberOf(shape[axis]) === 1));
}

const squeezed: ShapeRule = (node) => {
  const shape = node.shapeAt(0);
  const gone = shape && goneAxes(node, shape);
  return [gone && shape.filter((_, axis) => !gone.has(axis))];
};

/** For each axis of the result of Unsqueeze, that of the input, or -1 for a new one. */
function unsqueezedAxes(node: ShapeNode, rank: number): readonly number[] | undefined {
  const axes = listOf(node, 'axes', 1) ?? (node.has(1) ? undefined : []);
  const length = rank + (axes?.length ?? 0);
  const added = axes && new Set(axes.map((axis) => node.axis(axis, length)));
  let next = 0;
  return added && Array.from({ length }, (_, i) => (added.has(i) ? -1 : next++));
}

const unsqueezed: ShapeRule = (node) => {
  const shape = node.shapeAt(0);
  return [shape && unsqueezedAxes(node, shape.length)?.map((axis) => shape[axis] ?? ONE)];
};

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

export const targetSizes = (call: Call, index: number) =>
  target(call, index).map((element) => dimOf(call, element));

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

const reshapeRule: RowRule = (call) => {
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

const flatten: RowRule = (call) => {
  const x = call.data(0);
  call.shape(x);
  return x.kind === 'rows' ? reshape(call, x, call.result()) : fixedOf(call.result());
};

const transpose: RowRule = (call) => {
  const small = known(call.value(0));
  const order = orderOf(call, call.shapeAt(0)?.length ?? 0);
  if (small) return elementsAt(small, small.shape.map(allPlaces), order);
  const x = call.data(0);
  if (order.length !== call.shape(x).length) call.end('its permutation has another length than the shape');
  return call.moved(x, call.result(), x.kind === 'rows' ? order.findIndex((axis) => axis === x.axis) : 0);
};

const squeeze: RowRule = (call) => {
  const small = known(call.value(0));
  const shape = small?.shape ?? call.shape(call.data(0));
  if (!call.ints('axes')) call.numbers(1, 'axes');
  // One row alone would lose its batch axis, two would not.
  const gone = goneAxes(call, shape) ?? call.end('it removes whichever axes have the size 1');
  if (small) return elementsOf(call.result(), small.elements, small.type);
  const x = call.data(0);
  if (x.kind !== 'rows') return { ...fixedOf(call.result()), uniform: x.uniform };
  if (gone.has(x.axis)) call.end('it removes the batch axis');
  return call.rows(call.result(), { ...x, axis: x.axis - [...gone].filter((axis) => axis < x.axis).length });
};

const unsqueeze: RowRule = (call) => {
  if (!call.ints('axes')) call.numbers(1, 'axes');
  const small = known(call.value(0));
  if (small) return elementsOf(call.result(), small.elements, small.type);
  const x = call.data(0);
  if (x.kind !== 'rows') return { ...fixedOf(call.result()), uniform: x.uniform };
  return call.moved(x, call.result(), unsqueezedAxes(call, x.shape.length)?.indexOf(x.axis));
};

/** The same elements in another shape. */
const relabel: Fold = ([x], _, shapeOf) => {
  const shape = shapeOf();
  return x && shape && elementCount(shape) === x.data.length ? [{ ...x, shape }] : undefined;
};

export const LAYOUT: Operators = {
  Reshape: { shapes: reshaped, elements: first, fold: relabel, rows: moving(reshapeRule) },
  Flatten: { shapes: flattened, rows: moving(flatten) },
  Transpose: {
    shapes: transposedShape,
    fold: ([x], { perm }) => x && [transposed(x, ints(perm))],
    rows: moving(transpose),
  },
  Squeeze: { shapes: squeezed, elements: first, fold: relabel, rows: moving(squeeze) },
  Unsqueeze: { shapes: unsqueezed, elements: first, fold: relabel, rows: moving(unsqueeze) },
};
