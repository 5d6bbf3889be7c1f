/**
 * Expands a sparse tensor (COO) to a dense one. The two guides of the old system disagree on the orientation of
 * `indices`. `shape` gives the number of dimensions, so only a square one (nnz = ndim) is ambiguous, and then the
 * endpoint's own guide decides (`pointsFirst`).
 */
import { badInput } from '../../contract/errors.ts';
import { LIMITS, overLimit } from '../../contract/limits.ts';
import { allocate, type DType, elementCount, isNumericDType, type Tensor } from '../../contract/tensor.ts';
import { castTensor } from './cast.ts';

export interface Sparse {
  /** Dense shape. */
  readonly shape: readonly number[];
  /** Flat row-major, of `indicesShape`; counted from 0. */
  readonly indices: ArrayLike<number>;
  readonly indicesShape: readonly number[];
  /** One value per point. */
  readonly values: Tensor;
}

/**
 * @param pointsFirst what a square `indices` means: true = one row per point (HTTP guide), false = one row per
 *   dimension (Python guide)
 * @throws bad_input when parts disagree, an index is out of range or named twice; too_large over the limits
 */
export function densify(sparse: Sparse, dtype: DType, pointsFirst: boolean): Tensor {
  const { shape, indices, indicesShape } = sparse;
  if (!isNumericDType(dtype)) throw badInput(`expected ${dtype}, got a sparse tensor`);
  assertRank(shape);
  const count = elementCount(shape, LIMITS.tensorElements);
  const { data: values } = castTensor(sparse.values, dtype);
  const points = values.length;
  if (points > LIMITS.sparseValues) throw overLimit('sparseValues', `${points} sparse values are`);
  const dims = shape.length;
  const [first, second] = indicesShape;
  const asPoints = first === points && second === dims;
  const asAxes = first === dims && second === points;
  if (indicesShape.length !== 2 || indices.length !== points * dims || !(asPoints || asAxes)) {
    throw badInput(
      `sparse indices: expected [${points},${dims}] or [${dims},${points}] for ${points} values of shape [${shape.join(',')}], got [${indicesShape.join(',')}]`,
    );
  }
  const byPoint = asPoints && asAxes ? pointsFirst : asPoints;
  const offsets = new Float64Array(points);
  for (let point = 0; point < points; point++) {
    let offset = 0;
    for (let axis = 0; axis < dims; axis++) {
      const index = indices[byPoint ? point * dims + axis : axis * points + point] as number;
      const dim = shape[axis] as number;
      if (!Number.isInteger(index) || index < 0 || index >= dim) {
        throw badInput(`sparse index ${index} of dimension ${axis}: expected 0 to ${dim - 1}`);
      }
      offset = offset * dim + index;
    }
    offsets[point] = offset;
  }
  assertDistinct(offsets);
  const data = allocate(dtype, count);
  for (let point = 0; point < points; point++) data[offsets[point] as number] = values[point] as never;
  return { dtype, shape, data };
}

/** Checked before a shape of a million dimensions is compared or quoted. @throws too_large */
export function assertRank(shape: readonly number[]): void {
  if (shape.length <= LIMITS.tensorRank) return;
  throw overLimit('tensorRank', `sparse shape: ${shape.length} dimensions are`);
}

function assertDistinct(offsets: Float64Array): void {
  const sorted = offsets.toSorted();
  for (let i = 1; i < sorted.length; i++) {
    if (sorted[i] === sorted[i - 1]) throw badInput('sparse indices: the same point is named twice');
  }
}
