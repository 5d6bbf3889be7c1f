/** Rows to ask a model with, one at a time. */
import type { Tensor } from '../../lib/contract/tensor.ts';
import type { TensorSpec } from '../../lib/contract/values.ts';
import { batchAxisOf, batchSize } from '../../lib/pipeline/batch/batch-axes.ts';
import { type GivenShapes, withGivenSizes } from './given-sizes.ts';
import { hintsOf } from './hints.ts';
import { madeUpRow, waysToMakeUp } from './probe-values.ts';
import { elementsOf } from './work.ts';

/** Of all rows; the first is made however large it is. */
const MOST_ELEMENTS = 5e6;

export interface SingleRowOptions {
  /** Inputs of unknown rank, which onnxruntime reports as scalars. */
  readonly shapeless: readonly string[];
  /** What the user gives where the file leaves sizes free. */
  readonly sizes?: GivenShapes;
}

/**
 * One row for each size and range of values, the likeliest first.
 * @param declared the inputs of the model in `file`
 * @param row another one for each number
 */
export function* singleRows(
  file: string,
  declared: readonly TensorSpec[],
  options: SingleRowOptions,
  row = 0,
): Generator<readonly Tensor[]> {
  const hints = hintsOf(file);
  const { inputs, shapeless } = withGivenSizes(declared, options.shapeless, options.sizes);
  let elements = 0;
  for (const { specs, ...way } of waysToMakeUp(inputs, shapeless, withOneRow)) {
    if (elements > MOST_ELEMENTS) return;
    const feeds = specs.map((spec, input) => madeUpRow(spec, { ...way, hints, axis: 'none', row, input }));
    elements += elementsOf(feeds);
    yield feeds;
  }
}

/** With one row wherever the size of the batch is named. A batch axis of a fixed size stays as the model has it. */
function withOneRow(specs: readonly TensorSpec[]): TensorSpec[] {
  const names = new Set(specs.map(batchSize).filter((size) => typeof size === 'string'));
  return specs.map((spec) => {
    const isBatch = (dim: number | string, axis: number) =>
      typeof dim === 'string' && (axis === batchAxisOf(spec) || (dim !== '' && names.has(dim)));
    return { ...spec, shape: spec.shape.map((dim, axis) => (isBatch(dim, axis) ? 1 : dim)) };
  });
}
