/**
 * Warms a session up and measures whether records can share a run. A model may scale by the largest value of all rows
 * (as dynamic quantization does) or by their mean; then a record's answer depends on its neighbours without an error.
 * So a row runs alone and beside one that is a thousand times as large.
 */
import { allocate, type DType, elementCount, type Tensor, type TypedArray } from '../contract/tensor.ts';
import type { NamedTensor, TensorSpec } from '../contract/values.ts';
import { float16Bits, float16Value } from '../pipeline/cast.ts';
import type { ImageChoice } from '../pipeline/image-choice.ts';
import type { Session } from './session.ts';

/** Input bytes of one run: ten images of 3x1024x1024 floats, a small part of the memory of one vCPU's function. */
export const RUN_BYTES = 128 * 1024 * 1024;

/** Rows by their content. */
type Row = 'small' | 'large' | 'zeros';
const LARGE = 1_000;
/** Relative to the row's largest value. Sums in another order differ by 1e-6 of it, another scale by much more. */
const TOLERANCE = 1e-4;
/** A float16 has 11 bits. */
const FLOAT16_TOLERANCE = 1e-2;

/** The first dimension all inputs are fixed to, or undefined when one of them leaves it free. */
export function fixedBatch(inputs: readonly TensorSpec[]): number | undefined {
  const first = inputs[0]?.shape[0];
  return typeof first === 'number' && inputs.every((spec) => spec.shape[0] === first) ? first : undefined;
}

/**
 * Runs one row, and then two. Returns true when records can share a run: every output has one row per input row, and
 * a row's result does not depend on the other.
 */
export async function warmUp(
  session: Session,
  fixedRows: number | undefined,
  image: ImageChoice,
): Promise<boolean> {
  const { inputs, outputs } = session;
  const sameBatch = inputs.every(
    (spec) => spec.shape.length > 0 && (fixedRows !== undefined || typeof spec.shape[0] === 'string'),
  );
  // A model that mixes a free and a fixed batch, or takes a scalar, has no shared batch.
  const declared =
    sameBatch && outputs.every((spec) => fixedRows !== undefined || typeof spec.shape[0] === 'string');
  const rows = fixedRows ?? 1;
  const run = (...contents: Row[]) => attempt(() => session.run(madeUp(inputs, contents, image)));
  const follows = (results: readonly NamedTensor[], count: number) =>
    results.every((result) => result.shape[0] === count);
  /** Undefined when the model rejects the content of the rows. */
  const measured = async (row: Row, neighbour: Row): Promise<boolean | undefined> => {
    const padding = new Array<Row>(rows - 1).fill('zeros');
    const alone = await run(row, ...padding);
    if (!alone) return undefined;
    if (!sameBatch || !follows(alone, rows)) return false;
    if (fixedRows === 1) return true;
    const both = await run(row, neighbour, ...padding.slice(1));
    if (!both) return undefined;
    if (!follows(both, fixedRows ?? 2)) return false;
    if (isSameRow(alone, both)) return true;
    // A model that draws random numbers also differs from itself alone.
    const again = await run(row, ...padding);
    return again !== undefined && !isSameRow(alone, again);
  };
  // Some models reject generated values, which may be indices of a table, and accept zeros. If they reject zeros too
  // (a Gather may need other sizes), the declaration decides.
  return (await measured('small', 'large')) ?? (await measured('zeros', 'zeros')) ?? declared;
}

async function attempt<T>(work: () => Promise<T>): Promise<T | undefined> {
  try {
    return await work();
  } catch {
    return undefined;
  }
}

/** Whether row 0 is equal in both, within the tolerance. Nothing is copied, because a row may be an image. */
function isSameRow(first: readonly NamedTensor[], second: readonly NamedTensor[]): boolean {
  return first.every((tensor, i) => {
    const other = second[i] as NamedTensor;
    const length = elementCount(tensor.shape.slice(1));
    if (elementCount(other.shape.slice(1)) !== length) return false;
    if (tensor.dtype !== 'string' && bytesOf(tensor, length).equals(bytesOf(other, length))) return true;
    const tolerance = toleranceOf(tensor, length);
    for (let at = 0; at < length; at++) {
      const [a, b] = [elementAt(tensor, at), elementAt(other, at)];
      // Object.is treats two NaN, or two equal infinities, as equal.
      if (!Object.is(a, b) && !(Math.abs(Number(a) - Number(b)) <= tolerance)) return false;
    }
    return true;
  });
}

function toleranceOf(tensor: NamedTensor, length: number): number {
  if (tensor.dtype === 'string') return 0;
  let largest = 0;
  for (let at = 0; at < length; at++) {
    const size = Math.abs(Number(elementAt(tensor, at)));
    if (Number.isFinite(size)) largest = Math.max(largest, size);
  }
  return largest * (tensor.dtype === 'float16' ? FLOAT16_TOLERANCE : TOLERANCE);
}

/** The bytes of row 0. */
function bytesOf({ data }: NamedTensor, length: number): Buffer {
  const { buffer, byteOffset, byteLength } = (data as TypedArray).subarray(0, length);
  return Buffer.from(buffer as ArrayBuffer, byteOffset, byteLength);
}

function elementAt({ dtype, data }: NamedTensor, at: number): number | string {
  const element = data[at] as number | bigint | string;
  if (typeof element === 'string') return element;
  return dtype === 'float16' ? float16Value(Number(element)) : Number(element);
}

function madeUp(inputs: readonly TensorSpec[], rows: readonly Row[], image: ImageChoice): Tensor[] {
  return inputs.map((spec) => {
    const shape = spec.shape.map((dim, axis) => {
      if (axis === 0) return typeof dim === 'number' ? dim : rows.length;
      return typeof dim === 'number' ? dim : freeDimension(spec, axis, image);
    });
    const length = elementCount(shape, RUN_BYTES / 8);
    const { dtype } = spec;
    if (dtype === 'string') return { dtype, shape, data: new Array<string>(length).fill('') };
    const data = allocate(dtype, length);
    const rowLength = length / (shape[0] || 1);
    for (const [at, row] of rows.entries()) {
      if (row !== 'zeros') fillRow(data.subarray(at * rowLength, (at + 1) * rowLength), dtype, row);
    }
    return { dtype, shape, data };
  });
}

/** Generated values repeat, because an image has a million of them and every cold start makes two. */
const PERIOD = 2 * 101;

/**
 * Integers are 0 and 1, because they may be indices of a table; fractions are above zero, as logarithms need them.
 */
function fillRow(data: TypedArray, dtype: DType, row: Row): void {
  const isLarge = row === 'large';
  const isWhole = dtype !== 'float32' && dtype !== 'float64' && dtype !== 'float16';
  for (let i = 0; i < Math.min(PERIOD, data.length); i++) {
    const whole = isLarge ? (i + 1) % 2 : i % 2;
    if (data instanceof BigInt64Array || data instanceof BigUint64Array) data[i] = BigInt(whole);
    else if (isWhole) data[i] = whole;
    else {
      const small = ((i * (isLarge ? 31 : 37)) % 101) / 101 + 0.01;
      const value = isLarge ? LARGE * small : small;
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
