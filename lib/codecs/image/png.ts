/**
 * Decodes a PNG to 8-bit RGB pixels as OpenCV's imdecode(IMREAD_COLOR) does: palette and grey expanded, 16 bits cut to
 * the upper 8, alpha and tRNS dropped, gamma and profiles ignored. 1 KB of deflate can be 1 MB of zeros, so no more is
 * inflated than the header promises, which the caller has checked. See https://www.w3.org/TR/png-3/.
 */
import { crc32 } from 'node:zlib';
import type { ServingError } from '../../contract/errors.ts';
import { exifOrientation, orient, type Pixels } from './pixels.ts';
import { broken as brokenFile } from './refusal.ts';
import { greys, inflate, paint, type Target } from './samples.ts';
import { inSlices, SliceCount, type Slices } from './slices.ts';

const SIGNATURE = Uint8Array.of(0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a);
/** More chunks than any encoder writes for 32 MiB. Empty chunks would only cost memory. */
const CHUNKS = 65_536;

const GREY = 0;
const RGB = 2;
const PALETTE = 3;
const GREY_ALPHA = 4;
const RGB_ALPHA = 6;

/** Samples per pixel and bit depths of each colour type. */
const COLOUR_TYPES: ReadonlyMap<number, { readonly samples: number; readonly depths: readonly number[] }> =
  new Map([
    [GREY, { samples: 1, depths: [1, 2, 4, 8, 16] }],
    [RGB, { samples: 3, depths: [8, 16] }],
    [PALETTE, { samples: 1, depths: [1, 2, 4, 8] }],
    [GREY_ALPHA, { samples: 2, depths: [8, 16] }],
    [RGB_ALPHA, { samples: 4, depths: [8, 16] }],
  ]);

/** First column, first row and the steps between pixels. Adam7 has seven passes, a plain PNG one. */
type Pass = readonly [x: number, y: number, stepX: number, stepY: number];
const WHOLE: readonly Pass[] = [[0, 0, 1, 1]];
const ADAM7: readonly Pass[] = [
  [0, 0, 8, 8],
  [4, 0, 8, 8],
  [0, 4, 4, 8],
  [2, 0, 4, 4],
  [0, 2, 2, 4],
  [1, 0, 2, 2],
  [0, 1, 1, 2],
];

interface Header {
  readonly width: number;
  readonly height: number;
  readonly depth: number;
  readonly colourType: number;
  readonly bitsPerPixel: number;
  readonly isColor: boolean;
  readonly passes: readonly Pass[];
}

interface Chunk {
  readonly name: string;
  readonly data: Uint8Array;
  /** Where the next chunk begins. */
  readonly end: number;
}

interface Parts {
  readonly deflated: Uint8Array;
  readonly palette: Uint8Array;
  readonly orientation: number;
}

/** @throws bad_input when the first chunk is not a valid IHDR. */
export function readPngHeader(bytes: Uint8Array): Header {
  const { name, data } = readChunk(bytes, SIGNATURE.length);
  if (name !== 'IHDR' || data.length !== 13) throw broken('its first chunk is not a header of 13 bytes');
  const view = new DataView(data.buffer, data.byteOffset, data.byteLength);
  const width = view.getUint32(0);
  const height = view.getUint32(4);
  const [depth = 0, colourType = 0, compression, filter, interlace = 0] = data.subarray(8);
  const type = COLOUR_TYPES.get(colourType);
  if (width === 0 || height === 0 || width > 0x7fffffff || height > 0x7fffffff) {
    throw broken(`its header says ${width}x${height} pixels`);
  }
  if (type === undefined || !type.depths.includes(depth)) {
    throw broken(`colour type ${colourType} with ${depth} bits does not exist`);
  }
  if (compression !== 0 || filter !== 0 || interlace > 1) {
    throw broken(`unknown compression ${compression}, filter ${filter} or interlace ${interlace} method`);
  }
  const passes = interlace === 1 ? ADAM7 : WHOLE;
  const bitsPerPixel = type.samples * depth;
  return { width, height, depth, colourType, bitsPerPixel, isColor: bitsPerPixel === 24, passes };
}

/**
 * The caller has compared `readPngHeader` with the pixel limit.
 * @throws bad_input for anything libpng would refuse, and for image data beyond the header's size
 */
export function decodePng(bytes: Uint8Array): Pixels | Promise<Pixels> {
  const header = readPngHeader(bytes);
  const { deflated, palette, orientation } = readParts(bytes, header);
  const turned = (pixels: Pixels) => orient(pixels, orientation);
  const read = (scanlines: Buffer) => {
    const pixels = inSlices(readRows(header, palette, scanlines));
    return pixels instanceof Promise ? pixels.then(turned) : turned(pixels);
  };
  const scanlines = inflate('PNG', deflated, scanlineBytes(header));
  return scanlines instanceof Promise ? scanlines.then(read) : read(scanlines);
}

function* readRows(header: Header, palette: Uint8Array, scanlines: Buffer): Slices<Pixels> {
  const { width, height, bitsPerPixel } = header;
  const colours = header.colourType === GREY ? greys(header.depth) : palette;
  const slice = new SliceCount();
  const data = new Uint8Array(3 * width * height);
  const distance = Math.max(1, bitsPerPixel >> 3);
  let at = 0;
  for (const [x, y, stepX, stepY] of header.passes) {
    const columns = Math.ceil((width - x) / stepX);
    if (columns <= 0) continue;
    const rowBytes = Math.ceil((columns * bitsPerPixel) / 8);
    let above = -1;
    for (let row = y; row < height; row += stepY) {
      if (slice.isOver(columns)) yield;
      unfilter(scanlines, at, above, rowBytes, distance);
      above = at + 1;
      expand(header, scanlines, above, colours, { data, first: row * width + x, step: stepX, columns });
      at = above + rowBytes;
    }
  }
  return { width, height, data };
}

function readChunk(bytes: Uint8Array, start: number): Chunk {
  if (start + 12 > bytes.length) throw broken(`it ends at byte ${bytes.length}, before its end chunk`);
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const length = view.getUint32(start);
  const name = String.fromCharCode(...bytes.subarray(start + 4, start + 8));
  if (!/^[A-Za-z]{4}$/.test(name)) throw broken(`no chunk begins at byte ${start}`);
  const end = start + 12 + length;
  if (end > bytes.length) throw broken(`it ends at byte ${bytes.length}, inside its ${name} chunk`);
  // A capital first letter marks a critical chunk; libpng verifies the same ones.
  if (/^[A-Z]/.test(name) && crc32(bytes.subarray(start + 4, end - 4)) !== view.getUint32(end - 4)) {
    throw broken(`the checksum of its ${name} chunk is wrong`);
  }
  return { name, data: bytes.subarray(start + 8, end - 4), end };
}

function readParts(bytes: Uint8Array, header: Header): Parts {
  const deflated: Uint8Array[] = [];
  let palette: Uint8Array | undefined;
  let orientation = 1;
  let start = SIGNATURE.length;
  for (let count = 0; ; count++) {
    if (count >= CHUNKS) throw broken(`it has more than ${CHUNKS} chunks`);
    const { name, data, end } = readChunk(bytes, start);
    if (name === 'IEND') break;
    if (name === 'IDAT') deflated.push(data);
    else if (name === 'PLTE') palette = readPalette(data);
    else if (name === 'eXIf') orientation = exifOrientation(data);
    else if (name === 'IHDR' ? count > 0 : /^[A-Z]/.test(name)) throw broken(`unexpected ${name} chunk`);
    start = end;
  }
  if (palette === undefined && header.colourType === PALETTE) throw broken('its palette is missing');
  return {
    deflated: deflated.length === 1 ? deflated[0]! : Buffer.concat(deflated),
    palette: palette ?? new Uint8Array(0),
    orientation,
  };
}

/** 256 colours of 3 bytes; the missing ones are black, as in libpng. */
function readPalette(data: Uint8Array): Uint8Array {
  if (data.length === 0 || data.length > 768 || data.length % 3 !== 0) {
    throw broken(`a palette of ${data.length} bytes is not a list of 1 to 256 colours`);
  }
  const colours = new Uint8Array(768);
  colours.set(data);
  return colours;
}

/** Bytes of all rows of all passes, each row with its filter byte. */
function scanlineBytes({ width, height, bitsPerPixel, passes }: Header): number {
  let bytes = 0;
  for (const [x, y, stepX, stepY] of passes) {
    const columns = Math.ceil((width - x) / stepX);
    const rows = Math.ceil((height - y) / stepY);
    if (columns > 0 && rows > 0) bytes += rows * (1 + Math.ceil((columns * bitsPerPixel) / 8));
  }
  return bytes;
}

/** Undoes the filter of the row whose filter byte is at `at`, in place; `above` is -1 for the first row. */
function unfilter(lines: Buffer, at: number, above: number, rowBytes: number, distance: number): void {
  const filter = lines[at]!;
  const from = at + 1;
  const end = from + rowBytes;
  if (filter === 0) return;
  if (filter > 4) throw broken(`row filter ${filter} does not exist`);
  // The first row has nothing above it: 'up' does nothing, 'Paeth' is 'sub', 'average' halves the left.
  const up = above < 0 ? 0 : above - from;
  if (up === 0 && filter === 2) return;
  if (filter === 2) {
    for (let i = from; i < end; i++) lines[i] = byteAt(lines, i) + byteAt(lines, i + up);
    return;
  }
  // Sample by sample, so that the one to the left need not be read again.
  for (let first = from; first < from + distance; first++) {
    if (filter === 1 || (up === 0 && filter === 4)) addLeft(lines, first, end, distance);
    else if (filter === 3) addAverage(lines, first, end, distance, up);
    else addPaeth(lines, first, end, distance, up);
  }
}

/** Every `step`th byte from `first` on, as the functions below. */
function addLeft(lines: Buffer, first: number, end: number, step: number): void {
  let left = 0;
  for (let i = first; i < end; i += step) {
    left = (left + byteAt(lines, i)) & 255;
    lines[i] = left;
  }
}

function addAverage(lines: Buffer, first: number, end: number, step: number, up: number): void {
  let left = 0;
  for (let i = first; i < end; i += step) {
    const top = up === 0 ? 0 : byteAt(lines, i + up);
    left = (byteAt(lines, i) + ((left + top) >> 1)) & 255;
    lines[i] = left;
  }
}

function addPaeth(lines: Buffer, first: number, end: number, step: number, up: number): void {
  let left = 0;
  let corner = 0;
  for (let i = first; i < end; i += step) {
    const top = byteAt(lines, i + up);
    left = (byteAt(lines, i) + paeth(left, top, corner)) & 255;
    lines[i] = left;
    corner = top;
  }
}

function byteAt(bytes: Uint8Array, index: number): number {
  return bytes[index]!;
}

function paeth(left: number, top: number, corner: number): number {
  const toLeft = Math.abs(top - corner);
  const toTop = Math.abs(left - corner);
  const toCorner = Math.abs(left + top - 2 * corner);
  if (toLeft <= toTop && toLeft <= toCorner) return left;
  return toTop <= toCorner ? top : corner;
}

function expand(header: Header, lines: Uint8Array, row: number, colours: Uint8Array, target: Target): void {
  const { depth, colourType, bitsPerPixel } = header;
  if (colourType === GREY || colourType === PALETTE) {
    paint(lines, row, depth, bitsPerPixel, colours, target);
    return;
  }
  const { data, first, columns } = target;
  if (bitsPerPixel === 24 && target.step === 1) {
    data.set(lines.subarray(row, row + columns * 3), first * 3);
    return;
  }
  const step = target.step * 3;
  const end = first * 3 + columns * step;
  const pixel = bitsPerPixel >> 3;
  const sample = colourType === GREY_ALPHA ? 0 : depth >> 3;
  let from = row;
  for (let to = first * 3; to < end; to += step, from += pixel) {
    data[to] = byteAt(lines, from);
    data[to + 1] = byteAt(lines, from + sample);
    data[to + 2] = byteAt(lines, from + sample * 2);
  }
}

function broken(why: string): ServingError {
  return brokenFile('PNG', why);
}
