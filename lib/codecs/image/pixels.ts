/**
 * Turns decoded pixels the right way up by their EXIF orientation. EXIF comes from untrusted callers; as in OpenCV, a
 * garbled block means "as stored" and is never an error.
 */
import { inSlices, SliceCount, type Slices } from './slices.ts';
import { SHORT, tiffEntry } from './tiff-directory.ts';

/** An image in memory: 8-bit RGB, interleaved, rows from the top. */
export interface Pixels {
  readonly width: number;
  readonly height: number;
  /** 3 x width x height bytes: R G B R G B ... */
  readonly data: Uint8Array;
}

const ORIENTATION_TAG = 0x0112;

/** The orientation 1-8 of an EXIF block (from its "II" or "MM"); 1, as stored, if the block has none. */
export function exifOrientation(tiff: Uint8Array): number {
  const entry = tiffEntry(tiff, ORIENTATION_TAG);
  const value = entry?.type === SHORT ? entry.view.getUint16(entry.at, entry.little) : 1;
  return value >= 1 && value <= 8 ? value : 1;
}

/** Turns the image by its EXIF orientation; 5 to 8 swap width and height. A promise for a large one. */
export function orient(pixels: Pixels, orientation: number): Pixels | Promise<Pixels> {
  return orientation === 1 ? pixels : inSlices(turn(pixels, orientation));
}

function* turn(pixels: Pixels, orientation: number): Slices<Pixels> {
  const { width, height, data } = pixels;
  // Each orientation is a mirror left-right and up-down of the stored image, 5-8 then swap the axes.
  const mirrored = [2, 3, 7, 8].includes(orientation);
  const flipped = [3, 4, 6, 7].includes(orientation);
  const swapped = orientation >= 5;
  const start = (flipped ? (height - 1) * width : 0) + (mirrored ? width - 1 : 0);
  const stepColumn = mirrored ? -1 : 1;
  const stepRow = flipped ? -width : width;
  const [outWidth, outHeight] = swapped ? [height, width] : [width, height];
  const [stepX, stepY] = swapped ? [stepRow, stepColumn] : [stepColumn, stepRow];
  const out = new Uint8Array(data.length);
  const slice = new SliceCount();
  let to = 0;
  for (let y = 0; y < outHeight; y++) {
    if (slice.isOver(outWidth)) yield;
    let from = (start + y * stepY) * 3;
    for (let x = 0; x < outWidth; x++, from += stepX * 3, to += 3) {
      out[to] = data[from]!;
      out[to + 1] = data[from + 1]!;
      out[to + 2] = data[from + 2]!;
    }
  }
  return { width: outWidth, height: outHeight, data: out };
}
