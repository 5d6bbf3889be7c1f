/**
 * Which axis of each input and output counts the rows of a run. That of an output comes from the job's settings, the
 * verification or the declared shapes, and never from the sizes of a run: a detector that finds one object would seem to
 * follow its one row.
 */
import { quoteName, quoteNames } from '../../codecs/quote.ts';
import { modelUnavailable } from '../../contract/errors.ts';
import { formatShape } from '../../contract/tensor.ts';
import type { BatchAxis, TensorSpec } from '../../contract/values.ts';
import { type BatchAxes, storedOutputAxis, type Verification } from '../../contract/verification.ts';

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

/** True if all rows may share a scalar here. An array would be broadcast against them. */
export function mayBeScalar({ shape, isScalar, batchAxis }: TensorSpec): boolean {
  return shape.length === 0 && (isScalar === undefined || batchAxis === 'none');
}

/** True if the last axis may count classes, rather than rows or as many values as the data has. */
export function mayHaveClasses(spec: TensorSpec): boolean {
  const last = spec.shape.length - 1;
  const isOpen = last === 0 && typeof spec.shape[0] === 'string';
  return !isOpen && batchAxisOf(spec) !== last;
}

/** The declared size of the batch axis; undefined without one, and where the rank is not declared. */
export function batchSize(spec: TensorSpec): number | string | undefined {
  const axis = batchAxisOf(spec);
  return axis === 'none' ? undefined : spec.shape[axis];
}

/**
 * Which empty shapes are those of scalars. All rows of a run share a scalar input.
 * @param scalars undefined if the file was not read
 */
export function withRanks(
  specs: readonly TensorSpec[],
  scalars: readonly string[] | undefined,
): readonly TensorSpec[] {
  if (scalars === undefined) return specs;
  return specs.map((spec): TensorSpec => {
    if (spec.shape.length > 0) return spec;
    return scalars.includes(spec.name)
      ? { ...spec, isScalar: true, batchAxis: 'none' }
      : { ...spec, isScalar: false };
  });
}

/** The inputs with the batch axes that the job sets. @throws model_unavailable when they do not fit the model */
export function withInputAxes(inputs: readonly TensorSpec[], axes: BatchAxes = {}): TensorSpec[] {
  assertAxes('inputs', inputs, axes);
  return inputs.map((spec) => withAxis(spec, ownAxis(axes, spec)));
}

function withAxis(spec: TensorSpec, batchAxis: BatchAxis | undefined): TensorSpec {
  return batchAxis ? { ...spec, batchAxis } : spec;
}

function ownAxis(axes: BatchAxes, { name }: TensorSpec): BatchAxis | undefined {
  return Object.hasOwn(axes, name) ? axes[name] : undefined;
}

function assertAxes(setting: 'inputs' | 'outputs', specs: readonly TensorSpec[], axes: BatchAxes): void {
  for (const [name, axis] of Object.entries(axes)) {
    const spec = specs.find((one) => one.name === name);
    const where = `config.yaml: ${setting}: ${quoteName(name)}:`;
    if (!spec) {
      throw modelUnavailable(`${where} the model has ${quoteNames(specs.map((one) => one.name))}`);
    }
    const rank = spec.shape.length;
    const isOpen = rank === 0 && !spec.isScalar;
    if (axis === 'none' || isOpen || axis < rank) continue;
    throw modelUnavailable(
      `${where} batchAxis ${axis} is beyond its shape ${formatShape(spec.shape)}; axes count from 0`,
    );
  }
}

/** Facts about outputs besides their shapes. */
interface Known {
  readonly verification?: Verification | undefined;
  /** The batch axes of inputs and outputs that the job sets. */
  readonly batchAxes?: BatchAxes | undefined;
  readonly outputAxes?: BatchAxes | undefined;
}

/**
 * The outputs with their batch axes. An axis that nothing is known about has none.
 * @throws model_unavailable when the job's axes do not fit the model
 */
export function withOutputAxes(
  outputs: readonly TensorSpec[],
  inputs: readonly TensorSpec[],
  known: Known,
): TensorSpec[] {
  const { outputAxes = {} } = known;
  assertAxes('outputs', outputs, outputAxes);
  const declared = declaredOutputAxes(outputs, inputs);
  // One row needs no proof that its outputs follow it, so such a verdict does not cover them.
  const isOneRow = inputs.every((input) => batchAxisOf(input) === 'none' || batchSize(input) === 1);
  return outputs.map((spec, i) => {
    const stored = storedOutputAxis(spec.name, known, isOneRow);
    return withAxis(spec, ownAxis(outputAxes, spec) ?? stored ?? declared[i] ?? 'none');
  });
}

/** The batch axes of outputs as the declared shapes have them; undefined where they do not say it. */
export function declaredOutputAxes(
  outputs: readonly TensorSpec[],
  inputs: readonly TensorSpec[],
): (BatchAxis | undefined)[] {
  if (inputs.every((input) => batchAxisOf(input) === 'none')) return outputs.map(() => 'none');
  const sizes = new Set(inputs.map(batchSize).filter((size) => size !== undefined));
  return outputs.map((output) => declaredAxis(output, sizes));
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
