/** Warms a session up: the first run of a model is slower than the later ones. */
import { allocate, type DType, elementCount, type Tensor, type TypedArray } from '../contract/tensor.ts';
import type { TensorSpec } from '../contract/values.ts';
import { float16Bits } from '../pipeline/cast.ts';
import type { ImageChoice } from '../pipeline/image-choice.ts';
import type { Session } from './session.ts';

/** Input bytes of one run: ten images of 3x1024x1024 floats, a small part of the memory of one vCPU's function. */
export const RUN_BYTES = 128 * 1024 * 1024;

/** The first dimension all inputs are fixed to, or undefined when one of them leaves it free. */
export function fixedBatch(inputs: readonly TensorSpec[]): number | undefined {
  const first = inputs[0]?.shape[0];
  return typeof first === 'number' && inputs.every((spec) => spec.shape[0] === first) ? first : undefined;
}

/**
 * Runs the model once, so that the first request finds its memory allocated. Some models reject generated values, which
 * may be indices of a table, and accept zeros; one that rejects both is warmed up by its first request.
 */
export async function warmUp(
  session: Session,
  fixedRows: number | undefined,
  image: ImageChoice,
): Promise<void> {
  for (const isZero of [false, true]) {
    try {
      await session.run(madeUp(session.inputs, { rows: fixedRows ?? 1, isZero, image }));
      return;
    } catch {
      // The next values may fit.
    }
  }
}

interface MadeUp {
  readonly rows: number;
  readonly isZero: boolean;
  readonly image: ImageChoice;
}

function madeUp(inputs: readonly TensorSpec[], { rows, isZero, image }: MadeUp): Tensor[] {
  return inputs.map((spec) => {
    const shape = spec.shape.map((dim, axis) => {
      if (axis === 0) return typeof dim === 'number' ? dim : rows;
      return typeof dim === 'number' ? dim : freeDimension(spec, axis, image);
    });
    const length = elementCount(shape, RUN_BYTES / 8);
    const { dtype } = spec;
    if (dtype === 'string') return { dtype, shape, data: new Array<string>(length).fill('') };
    const data = allocate(dtype, length);
    if (!isZero) fill(data, dtype);
    return { dtype, shape, data };
  });
}

/** Generated values repeat, because an image has a million of them and every cold start makes one. */
const PERIOD = 2 * 101;

/**
 * Integers are 0 and 1, because they may be indices of a table; fractions are above zero, as logarithms need them.
 */
function fill(data: TypedArray, dtype: DType): void {
  const isWhole = dtype !== 'float32' && dtype !== 'float64' && dtype !== 'float16';
  for (let i = 0; i < Math.min(PERIOD, data.length); i++) {
    if (data instanceof BigInt64Array || data instanceof BigUint64Array) data[i] = BigInt(i % 2);
    else if (isWhole) data[i] = i % 2;
    else {
      const value = ((i * 37) % 101) / 101 + 0.01;
      data[i] = dtype === 'float16' ? float16Bits(value) : value;
    }
  }
  for (let filled = PERIOD; filled < data.length; filled *= 2) data.copyWithin(filled, 0, filled);
}

/** A free dimension of an image input takes the configured size, any other 1. */
function freeDimension(spec: TensorSpec, axis: number, image: ImageChoice): number {
  if (spec.shape.length !== 4) return 1;
  const heightAxis = image.layout === 'hwc' ? 1 : 2;
  if (axis === heightAxis) return image.height ?? 1;
  if (axis === heightAxis + 1) return image.width ?? 1;
  return 1;
}
