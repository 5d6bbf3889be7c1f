/** Warms a session up: the first run of a model is slower than the later ones. */
import { allocate, elementCount, type Tensor } from '../contract/tensor.ts';
import type { TensorSpec } from '../contract/values.ts';
import { batchAxisOf, batchSize } from '../pipeline/batch/batch-axes.ts';
import type { ImageChoice } from '../pipeline/bind/image-choice.ts';
import type { Session } from './session.ts';

/** Input bytes of one run: ten images of 3x1024x1024 floats, a small part of the memory of one vCPU's function. */
export const RUN_BYTES = 128 * 1024 * 1024;

/** The rows that all batch axes are fixed to, or undefined when one of them is free. */
export function fixedBatch(inputs: readonly TensorSpec[]): number | undefined {
  const [first, ...others] = inputs.map(batchSize).filter((size) => size !== undefined);
  return typeof first === 'number' && others.every((size) => size === first) ? first : undefined;
}

/**
 * Runs the model once on zeros, so that the first request finds its memory allocated. A model that rejects them is
 * warmed up by its first request.
 */
export async function warmUp(
  session: Session,
  fixedRows: number | undefined,
  image: ImageChoice,
): Promise<void> {
  try {
    await session.run(session.inputs.map((spec) => zeros(spec, fixedRows ?? 1, image)));
  } catch {
    // Its first request may fit better.
  }
}

function zeros(spec: TensorSpec, rows: number, image: ImageChoice): Tensor {
  const { dtype } = spec;
  const shape = spec.shape.map((dim, axis) => {
    if (typeof dim === 'number') return dim;
    return axis === batchAxisOf(spec) ? rows : freeDimension(spec, axis, image);
  });
  const length = elementCount(shape, RUN_BYTES / 8);
  if (dtype === 'string') return { dtype, shape, data: new Array<string>(length).fill('') };
  return { dtype, shape, data: allocate(dtype, length) };
}

/** A free dimension of an image input takes the configured size, any other 1. */
function freeDimension(spec: TensorSpec, axis: number, image: ImageChoice): number {
  if (spec.shape.length !== 4) return 1;
  const heightAxis = image.layout === 'hwc' ? 1 : 2;
  if (axis === heightAxis) return image.height ?? 1;
  if (axis === heightAxis + 1) return image.width ?? 1;
  return 1;
}
