/**
 * Which axis of each input and output counts the rows of a run. That of an output comes from the job's settings, the
 * verification or the declared shapes, and never from the sizes of a run: a detector that finds one object would seem to
 * follow its one row.
 */
import type { BatchAxis, TensorSpec } from '../contract/values.ts';
import { type BatchAxes, storedOutputAxis, type Verification } from '../contract/verification.ts';

export function batchAxisOf({ batchAxis = 0 }: TensorSpec): BatchAxis {
  return batchAxis;
}

/** The shape of a record's tensor: without the batch axis. */
export function rowShape(spec: TensorSpec): readonly (number | string)[] {
  const axis = batchAxisOf(spec);
  return axis === 'none' ? spec.shape : withoutAxis(spec.shape, axis);
}

export function withoutAxis<Dim>(shape: readonly Dim[], axis: number): Dim[] {
  return axis === 0 ? shape.slice(1) : shape.toSpliced(axis, 1);
}

/** What is known of outputs besides their shapes. */
interface Known {
  readonly verification?: Verification | undefined;
  readonly batchAxes?: BatchAxes | undefined;
}

/** The outputs with their batch axes. One that nothing is known of has none. */
export function withOutputAxes(
  outputs: readonly TensorSpec[],
  inputs: readonly TensorSpec[],
  known: Known,
): TensorSpec[] {
  const declared = declaredOutputAxes(outputs, inputs);
  // One row needs no proof that its outputs follow it, so such a verdict says nothing about them.
  const isOneRow = inputs.every(({ shape, batchAxis = 0 }) => batchAxis === 'none' || shape[batchAxis] === 1);
  return outputs.map((spec, i) => {
    const batchAxis = storedOutputAxis(spec.name, known, isOneRow) ?? declared[i] ?? 'none';
    return batchAxis === 0 ? spec : { ...spec, batchAxis };
  });
}

/** The batch axes of outputs as the declared shapes have them; undefined where they do not say it. */
export function declaredOutputAxes(
  outputs: readonly TensorSpec[],
  inputs: readonly TensorSpec[],
): (BatchAxis | undefined)[] {
  const batched = inputs.filter((input) => batchAxisOf(input) !== 'none');
  const sizes = new Set(batched.flatMap(({ shape, batchAxis = 0 }) => shape[batchAxis as number] ?? []));
  return outputs.map((output) => (batched.length === 0 ? 'none' : declaredAxis(output, sizes)));
}

/** Undefined where the shapes do not say it. A first axis of size 1 is that of the one row which the model takes. */
function declaredAxis({ shape }: TensorSpec, sizes: ReadonlySet<number | string>): BatchAxis | undefined {
  const [first] = shape;
  if (first === undefined) return undefined;
  if (sizes.has(first)) return 0;
  const isBatch = (dim: number | string) => typeof dim === 'string' && dim !== '' && sizes.has(dim);
  const named = shape.findIndex(isBatch);
  if (named !== -1 && named === shape.findLastIndex(isBatch)) return named;
  if (first === 1) return 0;
  return typeof first === 'number' ? 'none' : undefined;
}
