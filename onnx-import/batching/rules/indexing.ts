/**
 * Operators that choose or place single elements. Along the batch axis they would take one row for another.
 */
import type { Rule } from '../call.ts';
import { numberOf } from '../size.ts';
import { type Data, elementsOf, type Fixed, fixedOf, isSamePlace } from '../value.ts';
import { known } from './arithmetic.ts';
import { samePlace } from './joining.ts';
import { ownRow } from './row-numbers.ts';

/** Data and indices, with the indices' axes in place of the one that is indexed. */
const gather: Rule = (call) => {
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
  const places = call.shape(indices);
  const shape = [...from.slice(0, axis), ...places, ...from.slice(axis + 1)];
  if (x.kind === 'rows' && indices.kind === 'rows' && !own) call.end('its rows take from all rows');
  if (indices.kind === 'rows') return call.moved(indices, shape, indices.axis + axis);
  if (x.kind !== 'rows') return fixedOf(shape);
  if (x.axis === axis) call.end('it takes single rows of the batch');
  return call.moved(x, shape, x.axis < axis ? x.axis : x.axis + places.length - 1);
};

/** Both have the shape's rank; an element comes from the same place on every other axis. */
const gatherElements: Rule = (call) => {
  const values = [call.data(0), call.data(1)];
  const place = samePlace(call, values);
  const shape = call.shape(values[1] as Data);
  if (place?.axis === call.axis(call.int('axis', 0), shape.length))
    call.end('it takes single rows of the batch');
  return place ? call.rows(shape, place) : fixedOf(shape);
};

const gatherND: Rule = (call) => {
  const batch = call.int('batch_dims', 0);
  const own = ownRow(call, ({ column, shape }) => {
    const isIndex = batch === 0 && (column !== undefined || numberOf(shape.at(-1)) === 1);
    return isIndex ? (column ?? 0) : undefined;
  });
  const [x, indices] = [call.data(0), own ?? call.data(1)];
  const [from, places] = [call.shape(x), call.shape(indices)];
  const depth = numberOf(places.at(-1)) ?? call.end('how many axes it indexes is not known');
  const shape = [...places.slice(0, -1), ...from.slice(batch + depth)];
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

const scatterElements: Rule = (call) => {
  const values = [call.data(0), call.data(1), call.data(2)];
  const place = samePlace(call, values);
  const shape = call.shape(values[0] as Data);
  if (place?.axis === call.axis(call.int('axis', 0), shape.length)) call.end('it places rows of the batch');
  return place ? call.rows(shape, place) : fixedOf(shape);
};

const scatterND: Rule = (call) => {
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

const oneHot: Rule = (call) => {
  const [indices, depth] = [call.data(0), call.elements(1)?.map(numberOf)[0]];
  call.fixed(2);
  const shape = call.shape(indices);
  const axis = call.axis(call.int('axis', -1), shape.length + 1);
  const result = shape.toSpliced(axis, 0, call.dimOr(depth));
  return indices.kind === 'rows'
    ? call.moved(indices, result, indices.axis + (axis <= indices.axis ? 1 : 0))
    : fixedOf(result);
};

const trilu: Rule = (call) => {
  const x = call.data(0);
  call.fixed(1);
  const shape = call.shape(x);
  if (x.kind === 'rows' && x.axis >= shape.length - 2)
    call.end('what it keeps of a row depends on its place');
  return call.moved(x, shape);
};

const reverseSequence: Rule = (call) => {
  const [x, lengths] = [call.data(0), call.data(1)];
  const axis = call.int('batch_axis', 1);
  if (x.kind !== 'rows')
    return lengths.kind === 'rows' ? call.end('it reverses a constant') : fixedOf(x.shape);
  const isAligned = lengths.kind === 'rows' ? isSamePlace({ ...lengths, axis }, x) : lengths.uniform === true;
  if (x.axis !== axis || !isAligned) call.end('it reverses the batch axis');
  return call.moved(x, x.shape);
};

const compress: Rule = (call) => {
  const [x, axis] = [call.data(0), call.attribute('axis')];
  call.fixed(1);
  const shape = call.shape(x);
  if (!axis) return x.kind === 'rows' ? call.end('it flattens the rows') : fixedOf([call.dim()]);
  const at = call.axis(axis.int, shape.length);
  if (x.kind === 'rows' && x.axis === at) call.end('it takes single rows of the batch');
  return call.moved(x, shape.with(at, call.dim()));
};

export const INDEXING: Readonly<Record<string, Rule>> = {
  Gather: gather,
  GatherElements: gatherElements,
  GatherND: gatherND,
  ScatterElements: scatterElements,
  Scatter: scatterElements,
  ScatterND: scatterND,
  OneHot: oneHot,
  Trilu: trilu,
  ReverseSequence: reverseSequence,
  Compress: compress,
};
