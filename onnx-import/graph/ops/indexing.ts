/**
 * Operators that choose or place single elements. Along the batch axis they would take one row for another.
 */
import { elementCount, type Tensor } from '../../../lib/contract/tensor.ts';
import { int } from '../attributes.ts';
import { MAX_COMPUTED, pick } from '../moves.ts';
import { numbersOf } from '../numbers.ts';
import { known } from '../rows/arithmetic.ts';
import type { RowRule } from '../rows/call.ts';
import { samePlace } from '../rows/combine.ts';
import { ownRow } from '../rows/row-numbers.ts';
import { type ShapeNode, type ShapeRule, sameShape } from '../rows/shape-node.ts';
import { numberOf, type Shape, size } from '../rows/size.ts';
import { elementsOf, type Fixed, fixedOf, isSamePlace } from '../rows/value.ts';
import { axisOf } from '../shapes.ts';
import { all, type ElementRule, type Fold, type Operators, WHOLE, WIDE } from './operator.ts';

/** Data and indices, with the indices' axes in place of the one that is indexed. */
const gathered: ShapeRule = (node) => {
  const [shape, places] = [node.shapeAt(0), node.shapeAt(1)];
  if (!shape || !places) return [undefined];
  const axis = node.axis(node.int('axis', 0), shape.length);
  return [[...shape.slice(0, axis), ...places, ...shape.slice(axis + 1)]];
};

const gatheredTuples: ShapeRule = (node) => {
  const [shape, places] = [node.shapeAt(0), node.shapeAt(1)];
  const depth = numberOf(places?.at(-1));
  if (!shape || !places || depth === undefined) return [undefined];
  return [[...places.slice(0, -1), ...shape.slice(node.int('batch_dims', 0) + depth)]];
};

const oneHotShape: ShapeRule = (node) => {
  const shape = node.shapeAt(0);
  if (!shape) return [undefined];
  const axis = node.axis(node.int('axis', -1), shape.length + 1);
  return [shape.toSpliced(axis, 0, node.listAt(1)?.[0] ?? node.dim())];
};

/** What is left of an axis is not known; without one, of the whole. */
function shortened(node: ShapeNode): Shape | undefined {
  // No axis is as small.
  const axis = node.int('axis', Number.NEGATIVE_INFINITY);
  const shape = node.shapeAt(0);
  return Number.isFinite(axis) ? shape?.with(node.axis(axis, shape.length), node.dim()) : [node.dim()];
}

const uniqueShapes: ShapeRule = (node) => {
  const values = shortened(node);
  const places = [node.dim()];
  return [values, places, places, places];
};

const rankOf = (node: ShapeNode) => {
  const shape = node.shapeAt(0);
  return shape ? size(shape.length) : node.dim();
};

const gatheredElements: ElementRule = ([x, at]) => {
  const elements = x?.elements;
  if (!elements || !at?.elements) return undefined;
  return at.elements.map((i) =>
    typeof i === 'number' ? elements[i < 0 ? i + elements.length : i] : undefined,
  );
};

const foldGather: Fold = ([x, indices], attributes, shapeOf) => {
  const tensor = x as Tensor;
  const at = numbersOf(indices as Tensor);
  const axis = axisOf(int(attributes.axis, 0), tensor.shape.length);
  const length = tensor.shape[axis] as number;
  if (!at || Array.prototype.some.call(at, (i: number) => i < -length || i >= length)) return undefined;
  const inner = elementCount(tensor.shape.slice(axis + 1));
  const shape = shapeOf();
  if (!shape || elementCount(shape) > MAX_COMPUTED) return undefined;
  return [
    pick(tensor, shape, (i) => {
      const column = i % inner;
      const which = at[Math.floor(i / inner) % at.length] as number;
      const outer = Math.floor(i / (inner * at.length));
      return (outer * length + (which < 0 ? which + length : which)) * inner + column;
    }),
  ];
};

const gather: RowRule = (call) => {
  const small = known(call.value(0));
  const at = known(call.value(1));
  if (small?.shape.length === 1 && at?.elements.every((element) => numberOf(element) !== undefined)) {
    const places = at.elements.map((element) => numberOf(element) as number);
    const count = small.elements.length;
    return elementsOf(
      at.shape,
      places.map((place) => small.elements[place < 0 ? place + count : place]),
      small.type,
    );
  }
  const x = call.data(0);
  const from = call.shape(x);
  const axis = call.axis(call.int('axis', 0), from.length);
  const own = ownRow(call, ({ column }) => (column === undefined ? axis : undefined));
  const indices = own ?? call.data(1);
  const shape = call.result();
  if (x.kind === 'rows' && indices.kind === 'rows' && !own) call.end('its rows take from all rows');
  if (indices.kind === 'rows') return call.moved(indices, shape, indices.axis + axis);
  if (x.kind !== 'rows') return fixedOf(shape);
  if (x.axis === axis) call.end('it takes single rows of the batch');
  return call.moved(x, shape, x.axis < axis ? x.axis : x.axis + shape.length - from.length);
};

/** Both have the shape's rank; an element comes from the same place on every other axis. */
const gatherElements: RowRule = (call) => {
  const place = samePlace(call, [call.data(0), call.data(1)]);
  const shape = call.result();
  if (place?.axis === call.axis(call.int('axis', 0), shape.length))
    call.end('it takes single rows of the batch');
  return place ? call.rows(shape, place) : fixedOf(shape);
};

const gatherND: RowRule = (call) => {
  const batch = call.int('batch_dims', 0);
  const own = ownRow(call, ({ column, shape }) => {
    const isIndex = batch === 0 && (column !== undefined || numberOf(shape.at(-1)) === 1);
    return isIndex ? (column ?? 0) : undefined;
  });
  const [x, indices] = [call.data(0), own ?? call.data(1)];
  const places = call.shape(indices);
  const depth = numberOf(places.at(-1)) ?? call.end('how many axes it indexes is not known');
  const shape = call.result();
  if (own) return call.moved(own, shape);
  if (x.kind === 'rows' && indices.kind === 'rows') {
    if (!isSamePlace(x, indices) || x.axis >= batch) call.end('its rows take from all rows');
    return call.moved(indices, shape);
  }
  if (indices.kind === 'rows') {
    if (indices.axis < batch || indices.axis >= places.length - 1) call.end('a row is a part of an index');
    return call.moved(indices, shape);
  }
  if (x.kind !== 'rows') return fixedOf(shape);
  if (x.axis < batch + depth) call.end('it takes single rows of the batch');
  return call.moved(x, shape, x.axis - batch - depth + places.length - 1);
};

const scatterElements: RowRule = (call) => {
  const place = samePlace(call, [call.data(0), call.data(1), call.data(2)]);
  const shape = call.result();
  if (place?.axis === call.axis(call.int('axis', 0), shape.length)) call.end('it places rows of the batch');
  return place ? call.rows(shape, place) : fixedOf(shape);
};

const scatterND: RowRule = (call) => {
  const [x, indices, updates] = [call.data(0), call.fixed(1) as Fixed, call.data(2)];
  const [shape, places] = [call.shape(x), call.shape(indices)];
  const depth = numberOf(places.at(-1)) ?? call.end('how many axes it indexes is not known');
  if (x.kind !== 'rows')
    return updates.kind === 'rows' ? call.end('it places rows into a constant') : fixedOf(shape);
  if (x.axis < depth) call.end('it places rows of the batch');
  const expected = { ...x, axis: x.axis - depth + places.length - 1 };
  if (updates.kind !== 'rows' || !isSamePlace(updates, expected))
    call.end('its inputs have their rows on different axes');
  return call.moved(x, shape);
};

const oneHot: RowRule = (call) => {
  const indices = call.data(0);
  for (const index of [1, 2]) call.fixed(index);
  const shape = call.result();
  const axis = call.axis(call.int('axis', -1), shape.length);
  return indices.kind === 'rows'
    ? call.moved(indices, shape, indices.axis + (axis <= indices.axis ? 1 : 0))
    : fixedOf(shape);
};

const trilu: RowRule = (call) => {
  const x = call.data(0);
  call.fixed(1);
  const shape = call.shape(x);
  if (x.kind === 'rows' && x.axis >= shape.length - 2)
    call.end('what it keeps of a row depends on its place');
  return call.moved(x, shape);
};

const reverseSequence: RowRule = (call) => {
  const [x, lengths] = [call.data(0), call.data(1)];
  const axis = call.int('batch_axis', 1);
  if (x.kind !== 'rows')
    return lengths.kind === 'rows' ? call.end('it reverses a constant') : fixedOf(x.shape);
  const isAligned = lengths.kind === 'rows' ? isSamePlace({ ...lengths, axis }, x) : lengths.uniform === true;
  if (x.axis !== axis || !isAligned) call.end('it reverses the batch axis');
  return call.moved(x, x.shape);
};

const compress: RowRule = (call) => {
  const [x, axis] = [call.data(0), call.attribute('axis')];
  call.fixed(1);
  if (!axis && x.kind === 'rows') call.end('it flattens the rows');
  if (axis && x.kind === 'rows' && x.axis === call.axis(axis.int, x.shape.length))
    call.end('it takes single rows of the batch');
  return call.moved(x, call.result());
};

export const INDEXING: Operators = {
  Gather: { shapes: gathered, elements: gatheredElements, fold: foldGather, rows: gather },
  GatherElements: { shapes: (node) => [node.shapeAt(1)], rows: gatherElements },
  GatherND: { shapes: gatheredTuples, rows: gatherND },
  ...all('ScatterElements Scatter', { shapes: sameShape, rows: scatterElements }),
  ScatterND: { shapes: sameShape, rows: scatterND },
  OneHot: { shapes: oneHotShape, results: [2], rows: oneHot },
  Trilu: { shapes: sameShape, dtypes: [...WIDE, 'bool'], typed: [0], rows: trilu },
  ReverseSequence: { shapes: sameShape, rows: reverseSequence },
  Compress: { shapes: (node) => [shortened(node)], rows: compress },
  Unique: {
    shapes: uniqueShapes,
    results: [0, 'int64', 'int64', 'int64'],
    dtypes: ['float32', 'float64', 'int64', 'int8', 'string'],
    typed: [0],
  },
  NonZero: {
    shapes: (node) => [[rankOf(node), node.dim()]],
    results: ['int64'],
    dtypes: ['float32', ...WHOLE, 'uint8', 'bool'],
    typed: [0],
  },
  NonMaxSuppression: { shapes: (node) => [[node.dim(), size(3)]], results: ['int64'] },
  EyeLike: { shapes: sameShape },
};
