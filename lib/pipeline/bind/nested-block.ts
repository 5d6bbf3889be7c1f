/** Nested numbers of several records as one array. Not in nested.ts, which browsers load. */
import { TENSOR_ELEMENTS } from '../../contract/client-limits.ts';
import { badInput } from '../../contract/errors.ts';
import { allocate, elementCount, type NumericDType, type TypedArray } from '../../contract/tensor.ts';
import { eachRow, floatsInto, shapeOf, storedIn } from './nested.ts';

/**
 * `nestedTensor` of values of one shape: one value's numbers behind those of the one before.
 * @throws as nestedTensor; bad_input for another shape
 */
export function nestedBlock(
  values: readonly unknown[],
  dtype: NumericDType,
): { readonly shape: readonly number[]; readonly data: TypedArray } {
  const shape = shapeOf(values[0]);
  const count = elementCount([values.length, ...shape], TENSOR_ELEMENTS);
  if (count === 0) throw badInput(`is empty (shape [${shape.join(',')}])`);
  const data = allocate(dtype, count);
  const isFloat = data instanceof Float32Array || data instanceof Float64Array;
  const take = isFloat ? floatsInto(data, dtype, shape, false) : storedIn(data, dtype, shape);
  for (const value of values) eachRow(value, shape, 0, take);
  return { shape, data };
}
