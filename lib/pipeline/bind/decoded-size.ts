/**
 * Refuses a request (or queued record) whose images and sparse tensors would exceed the decoded-size budget. A few
 * bytes of either can expand to gigabytes, so sizes are read from headers and shapes before anything is decoded.
 * Dense tensors are as large as their bytes, which the endpoint has counted.
 */

import type { ImageHeader } from '../../codecs/image/formats.ts';
import { imageSize } from '../../codecs/image/image.ts';
import { isObject } from '../../codecs/instances.ts';
import { contentOf, JsonNumbers } from '../../contract/json-numbers.ts';
import { LIMITS, overLimit } from '../../contract/limits.ts';
import { elementAt } from '../../contract/present.ts';
import { elementCount } from '../../contract/tensor.ts';
import type { Inputs, TensorSpec, Value } from '../../contract/values.ts';
import { imageBytes } from './bind.ts';
import { type ImageChoice, imageSettings } from './image-choice.ts';
import { matchInputs } from './match-inputs.ts';

interface DecodedSize {
  /** Pixels of decoded images. */
  pixels: number;
  /** Elements of the tensors that images and sparse tensors become. */
  elements: number;
}

/**
 * Both budgets are four of the largest image and tensor, so up to four values need no check, which covers nearly
 * every call.
 */
const ALWAYS_FIT = 4;

/**
 * Unreadable values count nothing; binding reports what is wrong with them.
 * @throws too_large
 */
export function assertDecodedSize(
  records: readonly Inputs[],
  specs: readonly TensorSpec[],
  choice: ImageChoice,
  what: 'request' | 'record',
): void {
  if (!mayBeMany(records)) return;
  const sum: DecodedSize = { pixels: 0, elements: 0 };
  for (const record of records) {
    const values = namedValues(record, specs);
    for (const [i, value] of values.entries()) {
      const { pixels, elements } = decodedSizeOf(value, elementAt(specs, i, 'specs'), choice);
      sum.pixels += pixels;
      sum.elements += elements;
    }
  }
  refuseOver(sum.pixels, 'pixelsPerRequest', `the images of this ${what} have`, 'pixels');
  refuseOver(
    sum.elements,
    'elementsPerRequest',
    `the images and sparse tensors of this ${what} become`,
    'elements',
  );
}

function refuseOver(
  count: number,
  limit: 'pixelsPerRequest' | 'elementsPerRequest',
  what: string,
  unit: string,
): void {
  if (count <= LIMITS[limit]) return;
  throw overLimit(limit, `${what} ${count} ${unit} together,`);
}

function mayBeMany(records: readonly Inputs[]): boolean {
  let count = 0;
  for (const record of records) {
    for (const value of record.values()) if (mayExpand(value)) count++;
    if (count > ALWAYS_FIT) return true;
  }
  return false;
}

function mayExpand(value: Value): boolean {
  if (value.kind === 'json')
    return (
      !(contentOf(value) instanceof JsonNumbers) && (typeof value.value === 'string' || isObject(value.value))
    );
  return value.kind !== 'tensor';
}

function namedValues(record: Inputs, specs: readonly TensorSpec[]): Value[] {
  try {
    return matchInputs(record, specs).map(({ value }) => value);
  } catch {
    return [];
  }
}

const NONE: Readonly<DecodedSize> = { pixels: 0, elements: 0 };

function decodedSizeOf(value: Value, spec: TensorSpec, choice: ImageChoice): Readonly<DecodedSize> {
  try {
    const image = imageOf(value, spec);
    if (image !== undefined) return decodedImageSize(imageSize(image), spec, choice);
    const shape = sparseShape(value);
    return shape === undefined ? NONE : { pixels: 0, elements: elementCount(shape, LIMITS.tensorElements) };
  } catch {
    return NONE;
  }
}

/** An image over its own limit is refused for that. */
function decodedImageSize(
  { width, height }: ImageHeader,
  spec: TensorSpec,
  choice: ImageChoice,
): DecodedSize {
  const settings = imageSettings(spec, choice);
  const channels = settings.channels === 'grey' ? 1 : 3;
  const pixels = width * height;
  const target = (settings.width ?? width) * (settings.height ?? height);
  if (Math.max(pixels, target) > LIMITS.imagePixels) return NONE;
  return { pixels, elements: channels * target };
}

/** The bytes of an encoded image, as for bind; undefined when the value is not an image. */
function imageOf(value: Value, spec: TensorSpec): Uint8Array | undefined {
  if (value.kind === 'image') return value.bytes;
  const text =
    value.kind === 'text'
      ? value.text
      : value.kind === 'json'
        ? isObject(value.value)
          ? value.value['b64']
          : value.value
        : undefined;
  return typeof text === 'string' && spec.dtype !== 'string' ? imageBytes(text) : undefined;
}

function sparseShape(value: Value): readonly number[] | undefined {
  if (value.kind === 'sparse') return value.shape;
  const shape = value.kind === 'json' && isObject(value.value) ? value.value['shape'] : undefined;
  return Array.isArray(shape) ? shape : undefined;
}
