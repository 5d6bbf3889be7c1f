/**
 * In: nothing. Out: images of all kinds, whole and broken, made here byte by byte.
 * Trap: a bomb must cost nothing to make: a header that promises, or one deflated megabyte again and again.
 */
import { deflateRawSync, constants as zlib } from 'node:zlib';
import { pngChunk, pngFile, pngHeader, writePng } from '../support/png.ts';

export const b64 = (bytes: Uint8Array): string => Buffer.from(bytes).toString('base64');
/** An instance with one image. */
export const withImage = (bytes: Uint8Array): string => `{"x":"${b64(bytes)}"}`;

/** A grey PNG of `width` x `height` that decodes. */
export function greyPng(width: number, height: number): Buffer {
  return writePng({ width, height, depth: 8, colourType: 0, sample: (x, y) => [(x * 7 + y * 13) % 256] });
}

/** Signature and header with an empty image. */
export function headerPng(width: number, height: number, depth = 8, colourType = 0, interlace = 0): Buffer {
  return pngFile(pngHeader(width, height, depth, colourType, interlace), pngChunk('IDAT', Buffer.alloc(8)));
}

const BLOCK_BYTES = 1024 * 1024;

/** A grey PNG, all black, of about a thousandth of its bytes. */
export function flatPng(width: number, height: number, depth: 1 | 8 = 8): Buffer {
  const bytes = height * (Math.ceil((width * depth) / 8) + 1);
  const block = deflateRawSync(Buffer.alloc(BLOCK_BYTES), { level: 9, finishFlush: zlib.Z_FULL_FLUSH });
  const rest = deflateRawSync(Buffer.alloc(bytes % BLOCK_BYTES), { level: 9 });
  const blocks = Array<Buffer>(Math.floor(bytes / BLOCK_BYTES)).fill(block);
  const data = Buffer.concat([Buffer.of(0x78, 0xda), ...blocks, rest, adlerOfZeros(bytes)]);
  return pngFile(pngHeader(width, height, depth, 0, 0), pngChunk('IDAT', data));
}

/** Of zeros only the count enters into the checksum: s1 stays 1, s2 is added it each time. */
function adlerOfZeros(count: number): Buffer {
  const sum = Buffer.alloc(4);
  sum.writeUInt16BE(count % 65_521, 0);
  sum.writeUInt16BE(1, 2);
  return sum;
}

export function jpegSegment(marker: number, body: Uint8Array): Buffer {
  return Buffer.concat([Buffer.of(0xff, marker, (body.length + 2) >> 8, (body.length + 2) & 255), body]);
}

/** A frame header and an empty scan. */
export function headerJpeg(
  width: number,
  height: number,
  precision = 8,
  components = 3,
  frameMarker = 0xc0,
): Buffer {
  const frame = Buffer.alloc(6 + 3 * components);
  frame.set([precision, height >> 8, height & 255, width >> 8, width & 255, components]);
  return Buffer.concat([
    Buffer.of(0xff, 0xd8),
    jpegSegment(frameMarker, frame),
    jpegSegment(0xda, Buffer.alloc(10)),
    Buffer.of(0xff, 0xd9),
  ]);
}
