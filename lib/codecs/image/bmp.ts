/** Decodes a BMP to the pixels of OpenCV, which ignores alpha and gives 5 bits as the upper ones of 8. */
import { readBmpHeader } from './headers.ts';
import type { Pixels } from './pixels.ts';
import { assertReaches, broken, unsupported } from './refusal.ts';
import { assertHolds, paint } from './samples.ts';
import { nextTurn, SliceCount } from './slices.ts';

/** After the file's own header of 14 bytes. */
const INFO = 14;
const RLE8 = 1;
const RLE4 = 2;
const BIT_FIELDS = 3;
/** The compressions of each number of bits a pixel. */
const KINDS: ReadonlyMap<number, readonly number[]> = new Map([
  [1, [0]],
  [4, [0, RLE4]],
  [8, [0, RLE8]],
  [16, [0, BIT_FIELDS]],
  [24, [0]],
  [32, [0, BIT_FIELDS]],
]);
/** A run of 2 bytes has at most 255 pixels. */
const RLE_RATIO = 128;

interface Layout {
  readonly width: number;
  readonly height: number;
  readonly topDown: boolean;
  readonly bits: number;
  readonly compression: number;
  /** Bits of green in a pixel of 16 bits: 5 or 6. */
  readonly greenBits: number;
  /** 256 colours; those that the file does not have are black. */
  readonly palette: Uint8Array;
  /** Where the pixels begin. */
  readonly start: number;
}

/**
 * The caller has compared `readBmpHeader` with the pixel limit.
 * @throws bad_input for a cut or damaged file, unsupported_media_type for what OpenCV does not read, or shows wrongly
 */
export async function decodeBmp(bytes: Uint8Array): Promise<Pixels> {
  const layout = readLayout(bytes);
  const { width, height, bits, compression, start } = layout;
  const packed = compression === RLE4 || compression === RLE8;
  const samples = packed ? expandRuns(bytes, layout) : bytes.subarray(start);
  const stride = packed ? width : Math.ceil((width * bits) / 32) * 4;
  assertReaches('BMP', bytes, packed ? start : start + stride * height);
  const data = new Uint8Array(3 * width * height);
  const slice = new SliceCount();
  for (let y = 0; y < height; y++) {
    if (slice.isOver(width)) await nextTurn();
    const row = stride * (layout.topDown ? y : height - 1 - y);
    const first = y * width;
    if (bits <= 8) {
      const depth = packed ? 8 : bits;
      paint(samples, row, depth, depth, layout.palette, { data, first, step: 1, columns: width });
    } else if (bits === 16) copy16(samples, row, layout, data, first * 3);
    else copyBgr(samples, row, bits >> 3, data, first * 3, width);
  }
  return { width, height, data };
}

function readLayout(bytes: Uint8Array): Layout {
  const { width, height } = readBmpHeader(bytes);
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const size = view.getUint32(INFO, true);
  const isCore = size === 12;
  if (!isCore && size < 36) throw unsupported(`BMP with a header of ${size} bytes`, '12 or at least 36');
  assertReaches('BMP', bytes, INFO + size);
  const bits = view.getUint16(isCore ? 24 : 28, true);
  const compression = isCore ? 0 : view.getUint32(30, true);
  if (!KINDS.get(bits)?.includes(compression) || (isCore && bits === 16)) {
    const expected = '1, 4, 8, 16, 24 or 32 bits, plain, with bit masks or, of 4 and 8 bits, with runs';
    throw unsupported(`BMP of ${bits} bits with compression ${compression}`, expected);
  }
  return {
    width,
    height,
    topDown: !isCore && view.getInt32(22, true) < 0,
    bits,
    compression,
    greenBits: compression === BIT_FIELDS ? readMasks(bytes, view, bits, size) : 5,
    palette:
      bits <= 8 ? readPalette(bytes, INFO + size, isCore ? 0 : view.getUint32(46, true), bits, isCore) : NONE,
    start: view.getUint32(10, true),
  };
}

const NONE = new Uint8Array(0);

function readPalette(bytes: Uint8Array, at: number, used: number, bits: number, isCore: boolean): Uint8Array {
  if (used > 256) throw broken('BMP', `its palette has ${used} colours`);
  const count = used === 0 ? 2 ** bits : used;
  const size = isCore ? 3 : 4;
  assertReaches('BMP', bytes, at + count * size);
  const palette = new Uint8Array(768);
  for (let index = 0; index < count; index++) {
    const [blue = 0, green = 0, red = 0] = bytes.subarray(at + index * size);
    palette.set([red, green, blue], index * 3);
  }
  return palette;
}

/** The bits of green; OpenCV reads three layouts, those of 16 bits only with masks behind the header. */
function readMasks(bytes: Uint8Array, view: DataView, bits: number, size: number): number {
  const at = bits === 16 ? INFO + size : INFO + 40;
  assertReaches('BMP', bytes, at + 12);
  const masks = [0, 4, 8].map((offset) => view.getUint32(at + offset, true).toString(16)).join(' ');
  if (bits === 32 ? masks === 'ff0000 ff00 ff' : masks === 'f800 7e0 1f') return 6;
  if (bits === 16 && masks === '7c00 3e0 1f') return 5;
  const expected = bits === 32 ? 'ff0000 ff00 ff' : 'f800 7e0 1f or 7c00 3e0 1f, behind the header';
  throw unsupported(`BMP of ${bits} bits with the bit masks ${masks}`, expected);
}

function copyBgr(
  from: Uint8Array,
  row: number,
  step: number,
  data: Uint8Array,
  to: number,
  width: number,
): void {
  for (let at = row, end = to + 3 * width; to < end; at += step, to += 3) {
    data[to] = from[at + 2]!;
    data[to + 1] = from[at + 1]!;
    data[to + 2] = from[at]!;
  }
}

function copy16(from: Uint8Array, row: number, layout: Layout, data: Uint8Array, to: number): void {
  const { width, greenBits } = layout;
  for (let at = row, end = to + 3 * width; to < end; at += 2, to += 3) {
    const pixel = from[at]! | (from[at + 1]! << 8);
    data[to] = ((pixel >> (5 + greenBits)) << 3) & 0xf8;
    data[to + 1] = ((pixel >> 5) << (8 - greenBits)) & 0xff;
    data[to + 2] = (pixel << 3) & 0xf8;
  }
}

/**
 * The number of the colour of each pixel, one byte each, in the order of the file; pixels that it skips have colour 0.
 * With 4 bits OpenCV does not skip rows, so files that do are refused.
 */
function expandRuns(bytes: Uint8Array, { width, height, bits, start }: Layout): Uint8Array {
  assertHolds('BMP', Math.max(0, bytes.length - start), width * height, RLE_RATIO);
  const indices = new Uint8Array(width * height);
  let at = start;
  let x = 0;
  let y = 0;
  while (y < height) {
    assertReaches('BMP', bytes, at + 2);
    const repeats = bytes[at]!;
    const code = bytes[at + 1]!;
    at += 2;
    if (repeats === 0 && code <= 2) {
      if (bits === 4 && (code === 2 || (code === 1 && y < height - 1))) {
        throw unsupported('BMP of 4 bits that skips pixels', 'runs for every row');
      }
      if (code === 1) break;
      assertReaches('BMP', bytes, at + code);
      x = code === 0 ? 0 : x + bytes[at]!;
      y += code === 0 ? 1 : bytes[at + 1]!;
      at += code;
      if (code === 2 && (x >= width || y >= height)) throw broken('BMP', 'it skips pixels beyond its last');
      continue;
    }
    const count = repeats === 0 ? code : repeats;
    if (x + count > width) throw broken('BMP', 'a run of pixels goes beyond its row');
    const literals = repeats === 0 ? Math.ceil((count * bits) / 16) * 2 : 0;
    assertReaches('BMP', bytes, at + literals);
    for (let index = 0, to = y * width + x; index < count; index++, to++) {
      const byte = literals === 0 ? code : bytes[at + (bits === 8 ? index : index >> 1)]!;
      indices[to] = bits === 8 ? byte : index % 2 === 0 ? byte >> 4 : byte & 15;
    }
    at += literals;
    x += count;
  }
  return indices;
}
