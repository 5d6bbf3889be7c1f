/**
 * Decodes a picture and turns its pixels into a tensor, exactly as OpenCV's imdecode(IMREAD_COLOR),
 * resize(INTER_LINEAR) and cvtColor(BGR2GRAY) would, or as Pillow's resize, where the settings say so. A header of a few
 * bytes can claim gigapixels, so limits are checked before anything is decoded.
 */
import { badInput, ServingError } from '../../contract/errors.ts';
import { LIMITS, overLimit } from '../../contract/limits.ts';
import { bytesPerElement, type NumericDType, type Tensor, viewBytes } from '../../contract/tensor.ts';
import { FORMAT_NAMES, FORMATS, foreignFormat, type ImageFormat, type ImageHeader } from './formats.ts';
import { checkPixels, type FrameSettings, framedRows } from './frame.ts';
import { type Elements, levelTables, type Normalisation } from './levels.ts';
import type { Pixels } from './pixels.ts';
import { inSlices, SLICE_PIXELS, SliceCount, type Slices } from './slices.ts';

export interface ImageSettings extends Normalisation, FrameSettings {
  /** Order of the channels; `grey` is one channel, 0.299 R + 0.587 G + 0.114 B. Default bgr. */
  readonly channels: 'bgr' | 'rgb' | 'grey';
  /** Shape [channels, height, width] or [height, width, channels]. Default chw. */
  readonly layout: 'chw' | 'hwc';
}

export const DEFAULT_IMAGE: ImageSettings = {
  channels: 'bgr',
  layout: 'chw',
  scale: 1,
  mean: [0],
  std: [1],
};

const SNIFFED_BYTES = 64;

/**
 * The size from the header alone.
 * @throws bad_input for broken or unknown bytes, unsupported_media_type for other formats, by name
 */
export function imageSize(bytes: Uint8Array): ImageHeader {
  return formatOf(bytes).readHeader(bytes);
}

function formatOf(bytes: Uint8Array): ImageFormat {
  const format = FORMATS.find((one) => one.is(bytes));
  if (format !== undefined) return format;
  const expected = `expected a ${FORMAT_NAMES} image`;
  if (bytes.length === 0) throw badInput(`${expected}, got 0 bytes`);
  const head = Buffer.from(bytes.subarray(0, SNIFFED_BYTES));
  const foreign = foreignFormat(head.toString('latin1'));
  if (foreign !== undefined) {
    throw new ServingError('unsupported_media_type', `${expected}, got ${foreign}`);
  }
  throw badInput(`${expected}, got ${bytes.length} bytes that begin with 0x${head.toString('hex', 0, 8)}`);
}

/** `imageSize` of an image that may be decoded. @throws as `imageSize`; too_large over LIMITS.imageBytes or LIMITS.imagePixels */
export function assertImage(bytes: Uint8Array): ImageHeader {
  if (bytes.length > LIMITS.imageBytes) throw overLimit('imageBytes', `an image of ${bytes.length} bytes is`);
  const size = imageSize(bytes);
  checkPixels('an image of', size);
  return size;
}

/**
 * Pixels as OpenCV's imdecode(IMREAD_COLOR) gives them, but in RGB order. Asynchronous because a decoder is
 * loaded at the first image that needs it; the decoding itself blocks.
 * @throws too_large over LIMITS.imageBytes or LIMITS.imagePixels; bad_input for a cut or damaged image;
 * unsupported_media_type for another format or one that is not decoded; internal when a decoder cannot be loaded
 */
export async function decodeImage(bytes: Uint8Array): Promise<Pixels> {
  assertImage(bytes);
  return formatOf(bytes).decode(bytes);
}

/**
 * Resized, normalised and laid out in one pass, as [C,H,W] or [H,W,C]. Integer dtypes round and clamp; the pipeline
 * refuses settings that need it. float16 is the raw 16 bits. A promise for a large image.
 * @throws bad_config for settings that make no sense, too_large for a target over LIMITS.imagePixels,
 * bad_input for a bool input
 */
export function imageTensor(
  pixels: Pixels,
  settings: ImageSettings,
  dtype: NumericDType,
): Tensor | Promise<Tensor> {
  return inSlices(tensorSlices(pixels, settings, dtype));
}

function* tensorSlices(pixels: Pixels, settings: ImageSettings, dtype: NumericDType): Slices<Tensor> {
  const { channels, layout } = settings;
  const framed = framedRows(pixels, settings);
  const { width, height } = framed ?? pixels;
  const count = channels === 'grey' ? 1 : 3;
  const tables = levelTables(settings, count, dtype);
  // Each element is written below, so none needs to be 0 before.
  const bytes = Buffer.allocUnsafeSlow(count * width * height * bytesPerElement(dtype));
  const data = viewBytes(dtype, bytes);
  // Pixels that are taken as they are come as long rows.
  const all = width * height;
  const rowPixels = framed ? width : Math.min(all, SLICE_PIXELS);
  const greys = new Uint8Array(channels === 'grey' ? rowPixels : 0);
  const slice = new SliceCount();
  for (let first = 0, y = 0; first < all; first += rowPixels, y++) {
    const behind = Math.min(first + rowPixels, all);
    const row = framed?.row(y) ?? pixels.data.subarray(3 * first, 3 * behind);
    if (channels === 'grey')
      placeGreys(toGrey(row, greys.subarray(0, behind - first)), tables[0]!, data, first);
    else {
      const red = channels === 'bgr' ? 2 : 0;
      const [step, plane] = layout === 'chw' ? [1, all] : [3, 1];
      placeColours(row, red, tables, data, { first: first * step, end: behind * step, step, plane });
    }
    if (slice.isOver(framed?.cost ?? rowPixels) && behind < all) yield;
  }
  return { dtype, shape: layout === 'chw' ? [count, height, width] : [height, width, count], data };
}

/** Writes the values of samples from element `first` of `out` on. */
function placeGreys(samples: Uint8Array, table: Elements, out: Elements, first: number): void {
  const count = samples.length;
  for (let x = 0; x < count; x++) out[first + x] = table[samples[x]!];
}

/** Which elements become the first channel of a row of pixels, and the distance to the next channel. */
interface Place {
  readonly first: number;
  readonly end: number;
  readonly step: number;
  readonly plane: number;
}

/**
 * Writes the values of pixels whose first channel is sample `red`. All three at once: three passes over the pixels take
 * twice as long.
 */
function placeColours(
  row: Uint8Array,
  red: number,
  [table0, table1, table2]: readonly Elements[],
  out: Elements,
  { first, end, step, plane }: Place,
): void {
  for (let from = 0, to = first; to < end; from += 3, to += step) {
    out[to] = table0![row[from + red]!];
    out[to + plane] = table1![row[from + 1]!];
    out[to + 2 * plane] = table2![row[from + 2 - red]!];
  }
}

/** OpenCV's 15-bit BGR2GRAY. */
function toGrey(row: Uint8Array, grey: Uint8Array): Uint8Array {
  for (let x = 0, from = 0; x < grey.length; x++, from += 3) {
    const red = row[from]!;
    const green = row[from + 1]!;
    const blue = row[from + 2]!;
    grey[x] = (red * 9_798 + green * 19_235 + blue * 3_735 + 16_384) >> 15;
  }
  return grey;
}
