/** Tensors that meet in one operator: their rows must lie on the same axis, or be the same for all. */
import type { Call } from './call.ts';
import { broadcastShapes } from './shape-node.ts';
import { ONE, type Size, same } from './size.ts';
import { type Data, type Fixed, fixedOf, isSamePlace, type Rows } from './value.ts';

const DIFFERS = 'it combines the rows with a constant that differs along the batch axis';

/** NumPy's broadcasting. @throws ProofEnd where an element of the result would belong to two rows, or to none */
export function broadcast(call: Call, values: readonly Data[]): Data {
  const first = values.find((value): value is Rows => value.kind === 'rows');
  if (!first && values.some(({ shape }) => !shape)) return fixedOf();
  const shape = broadcastShapes(
    call,
    values.map((value) => call.shape(value)),
  );
  if (!first)
    return { ...fixedOf(shape), uniform: values.every((value) => (value as Fixed).uniform === true) };
  const rank = shape?.length ?? 0;
  const place = { ...first, axis: first.axis + rank - first.shape.length };
  const result = call.rows(shape ?? [], place);
  for (const value of values) {
    const axis = place.axis - rank + call.shape(value).length;
    if (value.kind === 'rows') {
      if (!isSamePlace({ ...value, axis: value.axis - axis }, { ...place, axis: 0 }))
        call.end('its inputs have their rows on different axes');
      continue;
    }
    const dim = value.shape?.[axis] ?? ONE;
    const isAlike = value.uniform === true && same(dim, result.shape[place.axis] as Size);
    if (!same(dim, ONE) && !isAlike) call.end(DIFFERS);
  }
  return result;
}

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
      call.end(DIFFERS);
    }
  }
  return first;
}
