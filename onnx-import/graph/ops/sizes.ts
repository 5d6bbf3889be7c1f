/** Operators that make constants, shapes and counts, and those that repeat elements. */
import { elementCount, type Tensor } from '../../../lib/contract/tensor.ts';
import { int } from '../attributes.ts';
import { MAX_COMPUTED, pick, spread, stridesOf } from '../moves.ts';
import { numbersOf, tensorOf } from '../numbers.ts';
import { fits, known } from '../rows/arithmetic.ts';
import type { Call, RowRule } from '../rows/call.ts';
import { moving, rowNumbers } from '../rows/row-numbers.ts';
import {
  broadcastShapes,
  broadcastSize,
  type ShapeNode,
  type ShapeRule,
  sameShape,
} from '../rows/shape-node.ts';
import {
  dependsOnRows,
  numberOf,
  ONE,
  over,
  product,
  type Shape,
  type Size,
  same,
  size,
  times,
} from '../rows/size.ts';
import { elementsOf, type Fixed, fixedOf, MAX_ELEMENTS, type Rows } from '../rows/value.ts';
import { product as productOf } from '../shapes.ts';
import { targetSizes, wantedSizes } from './layout.ts';
import { all, type Fold, type Operators, WIDE } from './operator.ts';

const INT64 = 7;
const FLOAT = 1;

/** Of any input: shapes are all that is read. */
function inputShape(call: Call) {
  const value = call.value(0);
  return value?.shape ?? call.end('the number of dimensions of its input is not known');
}

/** The axes whose sizes Shape gives. */
function slicedAxes(node: ShapeNode, shape: Shape): Shape {
  return shape.slice(node.int('start', 0), node.int('end', shape.length));
}

const shapeRows: RowRule = (call) => {
  const elements = slicedAxes(call, inputShape(call));
  return elementsOf([size(elements.length)], elements, INT64);
};

const constant: RowRule = (call) => {
  const { attributes } = call.node;
  const tensor = attributes.get('value')?.tensor;
  if (tensor) return tensor;
  const list = (numbers: readonly number[], type: number) =>
    numbers.length <= MAX_ELEMENTS
      ? elementsOf([size(numbers.length)], numbers.map(size), type)
      : fixedOf([call.dim()]);
  const [whole, float] = [attributes.get('value_int'), attributes.get('value_float')];
  const [ints, floats] = [attributes.get('value_ints'), attributes.get('value_floats')];
  if (whole) return elementsOf([], [size(whole.int)], INT64);
  if (float) return elementsOf([], [size(float.float)], FLOAT);
  if (ints) return list(ints.ints, INT64);
  return floats ? list(floats.floats, FLOAT) : fixedOf();
};

const range: RowRule = (call) => {
  const inputs = [0, 1, 2].map((i) => known(call.value(i)));
  const elements = inputs.map((input) => input?.elements[0]);
  if (inputs.some((input) => input?.elements.some((element) => !element || dependsOnRows(element)))) {
    const reason = 'it counts the rows';
    return rowNumbers(call, reason) ?? call.end(reason);
  }
  for (const i of [0, 1, 2]) call.fixed(i);
  const [from, to, step] = elements.map((element, i) => element && exact(element, inputs[i]?.type));
  if (from === undefined || step === undefined) return fixedOf([call.dim()]);
  if (to === undefined) {
    const counted = from === 0 && step === 1 ? elements[1] : undefined;
    const isCount = counted && counted.factor > 0 && fits(counted, INT64);
    return { ...fixedOf([isCount ? counted : call.dim()]), below: isCount ? counted : undefined };
  }
  const count = Math.max(0, Math.ceil((to - from) / step));
  if (!Number.isFinite(count) || !fits(size(to - from), inputs[0]?.type)) return fixedOf([call.dim()]);
  if (count > MAX_ELEMENTS)
    return { ...fixedOf([size(count)]), below: from === 0 && step === 1 ? size(to) : undefined };
  return elementsOf(
    [size(count)],
    Array.from({ length: count }, (_, i) => size(from + i * step)),
    inputs[0]?.type,
  );
};

/** The number; undefined for a float, whose steps are rounded. */
function exact(element: Size, type: number | undefined): number | undefined {
  return fits(element, type) ? numberOf(element) : undefined;
}

const expanded: ShapeRule = (node) => {
  const [shape, wanted] = [node.shapeAt(0), wantedSizes(node, 1)];
  return [shape && wanted && broadcastShapes(node, [shape, wanted])];
};

const tiled: ShapeRule = (node) => {
  const repeats = node.listAt(1);
  return [
    node.shapeAt(0)?.map((dim, i) => {
      const by = repeats?.[i];
      return by ? times(dim, by) : node.dim();
    }),
  ];
};

/** Elements that do not differ along an axis may be its rows: each row has the same ones. */
function spreadRows(call: Call, shape: Shape, isAlike: (axis: number) => boolean): Rows | undefined {
  const axis = shape.findIndex(dependsOnRows);
  if (axis < 0) return undefined;
  if (!isAlike(axis)) call.end('it repeats what is not the same for all rows');
  const inner = over(shape[axis] as Size, call.analysis.n) as Size;
  return call.rows(shape, { axis, outer: ONE, inner });
}

const expand: RowRule = (call) => {
  const wanted = targetSizes(call, 1);
  const x = call.data(0);
  const from = call.shape(x);
  const rank = Math.max(from.length, wanted.length);
  const pad = (shape: Shape) => [...new Array<Size>(rank - shape.length).fill(ONE), ...shape];
  const [have, want] = [pad(from), pad(wanted)];
  const shape = have.map((dim, i) => {
    const other = want[i] as Size;
    return dependsOnRows(other) ? other : broadcastSize(call, dim, other);
  });
  if (x.kind === 'rows') {
    const axis = x.axis + rank - from.length;
    const other = want[axis] as Size;
    if (!same(other, ONE) && !same(other, have[axis] as Size))
      call.end('it changes the size of the batch axis');
    return call.rows(shape, { ...x, axis });
  }
  const rows = spreadRows(call, shape, (axis) => same(have[axis] as Size, ONE));
  return rows ?? { ...fixedOf(shape), uniform: x.uniform };
};

const tile: RowRule = (call) => {
  const repeats = targetSizes(call, 1);
  const x = call.data(0);
  const from = call.shape(x);
  const shape = from.map((dim, i) => times(dim, repeats[i] ?? ONE));
  if (x.kind === 'rows') {
    return call.rows(shape, { ...x, outer: times(x.outer, repeats[x.axis] ?? ONE) });
  }
  return spreadRows(call, shape, (axis) => dependsOnRows(repeats[axis] ?? ONE)) ?? fixedOf(shape);
};

const constantOfShape: RowRule = (call) => {
  const shape = targetSizes(call, 0);
  const rows = spreadRows(call, shape, () => true);
  if (rows) return rows;
  const value = call.attribute('value')?.tensor;
  const count = numberOf(product(shape));
  const element = value ? value.elements?.[0] : size(0);
  if (element && count !== undefined && count <= 64) {
    return elementsOf(shape, new Array<Size>(count).fill(element), value?.type ?? 1);
  }
  return { ...fixedOf(shape), uniform: true } satisfies Fixed;
};

const foldExpand: Fold = ([x], _, shapeOf) => {
  const shape = shapeOf();
  return x && shape && elementCount(shape) <= MAX_COMPUTED ? [pick(x, shape, spread(x, shape))] : undefined;
};

const foldTile: Fold = ([x], _, shapeOf) => {
  const [tensor, shape] = [x as Tensor, shapeOf()];
  if (!shape || elementCount(shape) > MAX_COMPUTED) return undefined;
  const [strides, own] = [stridesOf(shape), stridesOf(tensor.shape)];
  return [
    pick(tensor, shape, (i) =>
      shape.reduce(
        (at, dim, axis) =>
          at +
          ((Math.floor(i / (strides[axis] as number)) % dim) % (tensor.shape[axis] as number)) *
            (own[axis] as number),
        0,
      ),
    ),
  ];
};

const foldConstant: Fold = (_, { value }, shapeOf) => {
  const fill = typeof value === 'object' && 'tensor' in value ? value.tensor : tensorOf('float32', [1], [0]);
  const shape = shapeOf();
  return shape && elementCount(shape) <= MAX_COMPUTED ? [pick(fill, shape, () => 0)] : undefined;
};

/** From 0 on by 1, a free size counts itself. */
const rangeShape: ShapeRule = (node) => {
  const [from, to, by] = [0, 1, 2].map((i) => node.listAt(i)?.[0]);
  const [start, limit, step] = [from, to, by].map(numberOf);
  if (start !== undefined && limit !== undefined && step !== undefined)
    return [[size(Math.max(0, Math.ceil((limit - start) / step)))]];
  return [[start === 0 && step === 1 && to ? to : node.dim()]];
};

/** A float32 holds each whole number up to here. */
const EXACT = 2 ** 24;

const foldRange: Fold = (inputs) => {
  const [start, limit, step] = inputs.map((input) => numbersOf(input as Tensor)?.[0]);
  if (start === undefined || limit === undefined || !step) return undefined;
  const length = Math.max(0, Math.ceil((limit - start) / step));
  if (length > MAX_COMPUTED) return undefined;
  const values = Array.from({ length }, (_, i) => start + i * step);
  // Steps of a float are rounded, in an order that frameworks differ in.
  if (![start, limit, step].every((value) => Number.isInteger(value) && Math.abs(value) <= EXACT))
    return undefined;
  return [tensorOf((inputs[0] as Tensor).dtype, [length], values)];
};

const foldShape: Fold = ([x], { start, end }) => {
  const dims = (x as Tensor).shape.slice(int(start, 0), typeof end === 'number' ? end : undefined);
  return [tensorOf('int64', [dims.length], dims)];
};

export const SIZES: Operators = {
  Shape: {
    shapes: (node) => {
      const shape = node.shapeAt(0);
      return [[shape ? size(slicedAxes(node, shape).length) : node.dim()]];
    },
    results: ['int64'],
    elements: ([x], { start, end }) =>
      x?.shape?.slice(int(start, 0), typeof end === 'number' ? end : undefined),
    fold: foldShape,
    rows: shapeRows,
  },
  Size: {
    shapes: () => [[]],
    results: ['int64'],
    elements: ([x]) => x?.shape && [productOf(x.shape)],
    fold: ([x]) => [tensorOf('int64', [], [(x as Tensor).data.length])],
    rows: (call) => elementsOf([], [product(inputShape(call))], INT64),
  },
  Constant: { rows: constant },
  ...all('Bernoulli Multinomial RandomNormal RandomUniform', { isRandom: true }),
  ...all('RandomNormalLike RandomUniformLike', { shapes: sameShape, isRandom: true }),
  Range: { shapes: rangeShape, fold: foldRange, dtypes: [...WIDE, 'int16'], rows: range },
  Expand: { shapes: expanded, fold: foldExpand, rows: moving(expand) },
  Tile: { shapes: tiled, fold: foldTile, rows: moving(tile) },
  ConstantOfShape: {
    shapes: (node) => [wantedSizes(node, 0)],
    results: [
      ({ value }) => (typeof value === 'object' && 'tensor' in value ? value.tensor.dtype : 'float32'),
    ],
    fold: foldConstant,
    rows: constantOfShape,
  },
};
