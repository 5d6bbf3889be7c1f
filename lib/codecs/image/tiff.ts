/**
 * Decodes the first image of a TIFF as OpenCV does with libtiff, of the kinds that cameras and scanners write most:
 * grey, RGB and palettes of 8 bits in strips. Alpha is dropped, or, where the file says that it is not yet applied,
 * applied. libtiff shows what it can of a damaged file; here it is refused.
 */
import type { ServingError } from '../../contract/errors.ts';
import { readTiffHeader } from './headers.ts';
import { expandLzw, LZW_RATIO } from './lzw.ts';
import { orient, type Pixels } from './pixels.ts';
import { assertReaches, broken, tooLong, tooShort, unsupported } from './refusal.ts';
import { assertHolds, DEFLATE_RATIO, greys, inflate, paint } from './samples.ts';
import { inSlices, nextTurn, SLICE_PIXELS, SliceCount } from './slices.ts';
import { tiffNumbers } from './tiff-directory.ts';

/** More than any writer makes of 16 megapixels; each costs a start of zlib. */
const STRIPS = 32_768;
const LZW = 5;
const PACK_BITS = 32_773;
const DEFLATE = [8, 32_946];
/** The most bytes that a packed byte can become. */
const RATIOS: ReadonlyMap<number, number> = new Map([
  [1, 1],
  [LZW, LZW_RATIO],
  [PACK_BITS, 64],
  ...DEFLATE.map((code) => [code, DEFLATE_RATIO] as const),
]);

/** To name them in the error. */
const OTHER_COMPRESSIONS: ReadonlyMap<number, string> = new Map([
  ...[2, 3, 4].map((code) => [code, 'CCITT'] as const),
  ...[6, 7].map((code) => [code, 'JPEG'] as const),
  [50_000, 'Zstandard'],
  [50_001, 'WebP'],
]);
const OTHER_SPACES: ReadonlyMap<number, string> = new Map([
  [5, 'CMYK'],
  [6, 'YCbCr'],
  [8, 'CIE Lab'],
]);

const WHITE_IS_ZERO = 0;
const BLACK_IS_ZERO = 1;
const RGB = 2;
const PALETTE = 3;
/** The numbers of samples a pixel of each colour space; one more than 1 or 3 is alpha. */
const SAMPLES: ReadonlyMap<number, readonly number[]> = new Map([
  [WHITE_IS_ZERO, [1, 2]],
  [BLACK_IS_ZERO, [1, 2]],
  [RGB, [3, 4]],
  [PALETTE, [1]],
]);

interface Layout {
  readonly width: number;
  readonly height: number;
  readonly samples: number;
  readonly space: number;
  readonly compression: number;
  /** True if samples are stored as differences from the pixel to the left. */
  readonly differences: boolean;
  /** True if alpha must still be applied to the colors. */
  readonly multiply: boolean;
  readonly orientation: number;
}

/**
 * The caller has compared `readTiffHeader` with the pixel limit.
 * @throws bad_input for a cut or damaged file, unsupported_media_type for another kind of TIFF
 */
export async function decodeTiff(bytes: Uint8Array): Promise<Pixels> {
  const layout = readLayout(bytes);
  const { width, height, samples, space } = layout;
  const { offsets, lengths, rows } = readStrips(bytes, layout);
  const colours = space === RGB ? undefined : coloursOf(bytes, space);
  const data = new Uint8Array(3 * width * height);
  const slice = new SliceCount();
  const most = Math.max(1, Math.floor(SLICE_PIXELS / width));
  for (let y = 0, strip = 0; y < height; y += rows, strip++) {
    const stripRows = Math.min(rows, height - y);
    const start = offsets[strip]!;
    const end = start + lengths[strip]!;
    assertReaches('TIFF', bytes, end);
    const expanded = expandStrip(layout, bytes.subarray(start, end), stripRows * width * samples);
    const stored = expanded instanceof Promise ? await expanded : expanded;
    for (let row = 0; row < stripRows; row += most) {
      const pixels = width * Math.min(most, stripRows - row);
      const part = stored.subarray(row * width * samples, (row * width + pixels) * samples);
      if (layout.differences) addUp(part, width * samples, samples);
      const first = (y + row) * width;
      if (colours !== undefined) {
        paint(part, 0, 8, 8 * samples, colours, { data, first, step: 1, columns: pixels });
      } else copyRgb(part, layout, data.subarray(first * 3, (first + pixels) * 3));
      if (slice.isOver(pixels)) await nextTurn();
    }
  }
  return orient({ width, height, data }, layout.orientation);
}

function readLayout(bytes: Uint8Array): Layout {
  const { width, height } = readTiffHeader(bytes);
  const [space] = tiffNumbers(bytes, 262, 1) ?? [];
  if (space === undefined) throw broken('TIFF', 'its directory has no colour space (tag 262)');
  const samples = one(bytes, 277, 1);
  const compression = one(bytes, 259, 1);
  for (const bits of tiffNumbers(bytes, 258, 65_535) ?? [1]) {
    if (bits !== 8) throw refused(`${bits} ${bits === 1 ? 'bit' : 'bits'} a sample`);
  }
  for (const format of tiffNumbers(bytes, 339, 65_535) ?? []) {
    if (format !== 1)
      throw refused(format === 3 ? 'floating point samples' : `signed samples (format ${format})`);
  }
  if (!SAMPLES.has(space)) throw refused(`colours as ${OTHER_SPACES.get(space) ?? `number ${space}`}`);
  if (!SAMPLES.get(space)?.includes(samples))
    throw refused(`${samples} samples a pixel of colour space ${space}`);
  if (!RATIOS.has(compression)) {
    throw refused(`${OTHER_COMPRESSIONS.get(compression) ?? 'unknown'} compression (${compression})`);
  }
  if (tiffNumbers(bytes, 322, 1) !== undefined) throw refused('tiles');
  if (samples > 1 && one(bytes, 284, 1) !== 1) throw refused('samples in planes');
  if (one(bytes, 266, 1) !== 1) throw refused(`bit order ${one(bytes, 266, 1)}`);
  // libtiff knows predictors only where a compression has them.
  const predictor = compression === 1 || compression === PACK_BITS ? 1 : one(bytes, 317, 1);
  if (predictor !== 1 && predictor !== 2) throw refused(`predictor ${predictor}`);
  const extra = tiffNumbers(bytes, 338, 65_535) ?? [];
  if (extra.length > 1 - (samples % 2) || extra.some((kind) => kind > 2)) {
    throw refused(`extra samples of kind ${extra[0]}`);
  }
  // As in EXIF; libtiff takes a number that does not exist for "as stored".
  const orientation = one(bytes, 274, 1);
  return {
    width,
    height,
    samples,
    space,
    compression,
    differences: predictor === 2,
    multiply: samples === 4 && extra[0] === 2,
    orientation: orientation >= 1 && orientation <= 8 ? orientation : 1,
  };
}

/** The number of a tag, or what holds without it. */
function one(bytes: Uint8Array, tag: number, otherwise: number): number {
  return tiffNumbers(bytes, tag, 1)?.[0] ?? otherwise;
}

function refused(what: string): ServingError {
  const expected =
    'strips of 8-bit grey, RGB or palette pixels, plain or packed with LZW, deflate or PackBits';
  return unsupported(`TIFF with ${what}`, expected);
}

interface Strips {
  readonly offsets: readonly number[];
  /** In bytes of the file. */
  readonly lengths: readonly number[];
  /** Rows of each strip but the last. */
  readonly rows: number;
}

/** @throws bad_input for too many strips, too few, and when they cannot hold the pixels or are longer than the file */
function readStrips(bytes: Uint8Array, { width, height, samples, compression }: Layout): Strips {
  const rows = Math.min(one(bytes, 278, height), height);
  const count = Math.ceil(height / rows);
  if (!(count <= STRIPS)) throw broken('TIFF', `its strips of ${rows} rows are more than ${STRIPS}`);
  const [offsets, lengths] = [273, 279].map((tag) => tiffNumbers(bytes, tag, STRIPS));
  if (offsets === undefined || lengths === undefined) {
    throw broken('TIFF', 'its directory has no offsets (tag 273) or no lengths (tag 279) of strips');
  }
  if (offsets.length < count || lengths.length < count) {
    throw broken(
      'TIFF',
      `its directory lists ${Math.min(offsets.length, lengths.length)} strips of ${count}`,
    );
  }
  const packed = lengths.reduce((sum, length) => sum + length, 0);
  // However strips overlap, no more is expanded than the file has.
  if (packed > bytes.length) throw broken('TIFF', 'its strips overlap or go beyond its end');
  assertHolds('TIFF', packed, width * height * samples, RATIOS.get(compression)!);
  return { offsets, lengths, rows };
}

function coloursOf(bytes: Uint8Array, space: number): Uint8Array {
  if (space === BLACK_IS_ZERO) return greys(8);
  if (space === WHITE_IS_ZERO) return greys(8).reverse();
  const map = tiffNumbers(bytes, 320, 768);
  if (map?.length !== 768) throw broken('TIFF', 'its palette (tag 320) does not have 256 colours');
  // Colours have 16 bits, but some writers use only 8 of them.
  const shift = map.some((level) => level > 255) ? 8 : 0;
  return Uint8Array.from(map, (_, index) => map[(index % 3) * 256 + Math.floor(index / 3)]! >> shift);
}

function expandStrip(
  { compression }: Layout,
  packed: Uint8Array,
  length: number,
): Uint8Array | Promise<Uint8Array> {
  if (DEFLATE.includes(compression)) return inflate('TIFF', packed, length);
  if (compression === 1) {
    if (packed.length < length) throw tooShort('TIFF', packed.length, length);
    return packed;
  }
  const out = new Uint8Array(length);
  if (compression === PACK_BITS) unpackBits(packed, out);
  // The first code is a clear. What begins otherwise is an LZW of before TIFF 5, with its bits the other way round.
  else if (packed[0] !== 0x80) throw broken('TIFF', 'its image data is damaged, or is LZW of before TIFF 5');
  else {
    const expanding = inSlices(expandLzw('TIFF', 8, packed, out));
    if (expanding) return expanding.then(() => out);
  }
  return out;
}

/** Each byte n before 128 is followed by n + 1 literal bytes, from 129 on by one that stands 257 - n times. */
function unpackBits(packed: Uint8Array, out: Uint8Array): void {
  let to = 0;
  for (let at = 0; at < packed.length; ) {
    const code = packed[at++]!;
    if (code === 128) continue;
    const count = code < 128 ? code + 1 : 257 - code;
    const used = code < 128 ? count : 1;
    if (at + used > packed.length) break;
    if (to + count > out.length) throw tooLong('TIFF', out.length);
    if (used === count) out.set(packed.subarray(at, at + used), to);
    else out.fill(packed[at]!, to, to + count);
    at += used;
    to += count;
  }
  if (to < out.length) throw tooShort('TIFF', to, out.length);
}

function addUp(stored: Uint8Array, rowBytes: number, samples: number): void {
  for (let row = 0; row < stored.length; row += rowBytes) {
    for (let at = row + samples; at < row + rowBytes; at++) stored[at] = stored[at]! + stored[at - samples]!;
  }
}

function copyRgb(stored: Uint8Array, { samples, multiply }: Layout, out: Uint8Array): void {
  if (samples === 3) {
    out.set(stored.subarray(0, out.length));
    return;
  }
  for (let from = 0, to = 0; to < out.length; from += 4, to += 3) {
    const alpha = multiply ? stored[from + 3]! : 255;
    for (let colour = 0; colour < 3; colour++) {
      out[to + colour] = Math.floor((stored[from + colour]! * alpha + 127) / 255);
    }
  }
}
