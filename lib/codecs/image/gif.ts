/**
 * Decodes the first frame of a GIF as OpenCV shows it: on the whole screen, with the background colour where nothing
 * is drawn or the frame is transparent, and black for a background without a palette. The file is read to its end
 * mark, so that a cut one is refused also when its first frame is whole.
 */
import { readGifHeader } from './headers.ts';
import { expandLzw, LZW_RATIO } from './lzw.ts';
import type { Pixels } from './pixels.ts';
import { assertReaches, broken } from './refusal.ts';
import { assertHolds, paint } from './samples.ts';
import { inSlices, SLICE_PIXELS, SliceCount, type Slices } from './slices.ts';

const EXTENSION = 0x21;
const FRAME = 0x2c;
const END = 0x3b;
const CONTROL = 0xf9;
/** The first row and the step of each pass of an interlaced frame. */
const PASSES: readonly (readonly [first: number, step: number])[] = [
  [0, 8],
  [4, 8],
  [2, 4],
  [1, 2],
];

interface Frame {
  readonly left: number;
  readonly top: number;
  readonly width: number;
  readonly height: number;
  readonly interlaced: boolean;
  /** RGB; empty when the screen's palette counts. */
  readonly palette: Uint8Array;
  /** Where the blocks of its data begin, after the byte that holds the size of a code. */
  readonly data: number;
  /** The number of the transparent colour; -1 for none. */
  readonly transparent: number;
}

/** The caller has compared `readGifHeader` with the pixel limit. @throws bad_input for a cut or damaged file */
export async function decodeGif(bytes: Uint8Array): Promise<Pixels> {
  const screen = readGifHeader(bytes);
  const own = paletteAt(bytes, 13, bytes[10]!);
  const background = bytes[11]! * 3;
  if (own.length > 0 && background >= own.length)
    throw broken('GIF', 'its background colour is not in its palette');
  const { palette, ...frame } = firstFrame(bytes, 13 + own.length);
  if (frame.left + frame.width > screen.width || frame.top + frame.height > screen.height) {
    throw broken('GIF', 'its first frame goes beyond its screen');
  }
  if (frame.width * frame.height === 0) throw broken('GIF', 'its first frame has no pixels');
  const indices = await expandFrame(bytes, frame);
  const colours = new Uint8Array(768);
  colours.set(palette.length > 0 ? palette : own);
  await inSlices(assertColours(indices, (palette.length > 0 ? palette : own).length / 3, frame.transparent));
  const backdrop = own.length > 0 ? own.subarray(background, background + 3) : Uint8Array.of(0, 0, 0);
  if (frame.transparent >= 0) colours.set(backdrop, frame.transparent * 3);
  const data = new Uint8Array(3 * screen.width * screen.height);
  data.set(backdrop);
  // Fills by copying the filled part behind itself until everything is filled.
  for (let at = 3; at < data.length; at *= 2) data.copyWithin(at, 0, at);
  const pixels = { width: screen.width, height: screen.height, data };
  await inSlices(draw(indices, frame, colours, pixels));
  return pixels;
}

/** The palette that begins at `at`; empty when the flags say that there is none. */
function paletteAt(bytes: Uint8Array, at: number, flags: number): Uint8Array {
  const length = (flags & 0x80) === 0 ? 0 : 3 * 2 ** ((flags & 7) + 1);
  assertReaches('GIF', bytes, at + length);
  return bytes.subarray(at, at + length);
}

/** Follows the blocks from `start` to the end mark. */
function firstFrame(bytes: Uint8Array, start: number): Frame {
  let found: Frame | undefined;
  let transparent = -1;
  let at = start;
  for (;;) {
    assertReaches('GIF', bytes, at + 1);
    const block = bytes[at]!;
    if (block === END) break;
    if (block === EXTENSION) {
      if (bytes[at + 1] === CONTROL) transparent = (bytes[at + 3]! & 1) === 0 ? -1 : bytes[at + 6]!;
      at = endOfBlocks(bytes, at + 2);
    } else if (block === FRAME) {
      const frame = readFrame(bytes, at, transparent);
      found ??= frame;
      at = endOfBlocks(bytes, frame.data);
    } else throw broken('GIF', `no block begins at byte ${at}`);
  }
  if (found === undefined) throw broken('GIF', 'it has no picture');
  return found;
}

function readFrame(bytes: Uint8Array, at: number, transparent: number): Frame {
  assertReaches('GIF', bytes, at + 10);
  const view = new DataView(bytes.buffer, bytes.byteOffset + at, 10);
  const flags = view.getUint8(9);
  const palette = paletteAt(bytes, at + 10, flags);
  return {
    left: view.getUint16(1, true),
    top: view.getUint16(3, true),
    width: view.getUint16(5, true),
    height: view.getUint16(7, true),
    interlaced: (flags & 0x40) !== 0,
    palette,
    data: at + 11 + palette.length,
    transparent,
  };
}

/** The index after blocks of up to 255 bytes, each after its length, and the length 0. */
function endOfBlocks(bytes: Uint8Array, start: number): number {
  let at = start;
  while (at < bytes.length && bytes[at] !== 0) at += 1 + bytes[at]!;
  assertReaches('GIF', bytes, at + 1);
  return at + 1;
}

/** The number of the colour of each pixel, in the order of the file. */
async function expandFrame(
  bytes: Uint8Array,
  { width, height, data }: Omit<Frame, 'palette'>,
): Promise<Uint8Array> {
  const bits = bytes[data - 1]!;
  if (bits < 2 || bits > 8) throw broken('GIF', `its data begin with the code size ${bits}, not 2 to 8`);
  const packed = new Uint8Array(endOfBlocks(bytes, data) - data);
  let length = 0;
  for (let at = data; bytes[at] !== 0; at += 1 + bytes[at]!) {
    packed.set(bytes.subarray(at + 1, at + 1 + bytes[at]!), length);
    length += bytes[at]!;
  }
  assertHolds('GIF', length, width * height, LZW_RATIO);
  const indices = new Uint8Array(width * height);
  await inSlices(expandLzw('GIF', bits, packed.subarray(0, length), indices));
  return indices;
}

function* assertColours(indices: Uint8Array, count: number, transparent: number): Slices<void> {
  if (count === 256) return;
  for (let start = 0; start < indices.length; start += SLICE_PIXELS) {
    if (start > 0) yield;
    const odd = indices
      .subarray(start, start + SLICE_PIXELS)
      .find((index) => index >= count && index !== transparent);
    if (odd !== undefined) throw broken('GIF', `colour ${odd} is not in its palette of ${count}`);
  }
}

function* draw(
  indices: Uint8Array,
  frame: Omit<Frame, 'palette'>,
  colours: Uint8Array,
  screen: Pixels,
): Slices<void> {
  const { left, top, width, height } = frame;
  let row = 0;
  const slice = new SliceCount();
  for (const [from, step] of frame.interlaced ? PASSES : [[0, 1] as const]) {
    for (let y = from; y < height; y += step, row += width) {
      if (slice.isOver(width)) yield;
      const first = (top + y) * screen.width + left;
      paint(indices, row, 8, 8, colours, { data: screen.data, first, step: 1, columns: width });
    }
  }
}
