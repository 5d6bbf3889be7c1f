/**
 * Reads a WebP's chunks: the size of the canvas, and the one frame that is decoded, as a file of its own. libwebp
 * takes memory for the size that it finds in a frame, so that size is compared with the canvas, which the caller
 * compares with the pixel limit. Source: "WebP Container Specification", RFC 9649.
 */

import type { ServingError } from '../../../contract/errors.ts';
import { present } from '../../../contract/present.ts';
import { exifOrientation } from '../pixels.ts';
import { broken as brokenFile } from '../refusal.ts';

export interface Webp {
  readonly width: number;
  readonly height: number;
  readonly isColor: boolean;
  readonly orientation: number;
  readonly frame: Frame;
}

/** The picture, or the first frame of an animation, with its place on the canvas. */
export interface Frame {
  readonly x: number;
  readonly y: number;
  readonly width: number;
  readonly height: number;
  /** VP8 or VP8L, and the ALPH before it. */
  readonly chunks: readonly Chunk[];
}

interface Chunk {
  readonly name: string;
  readonly data: Uint8Array;
}

/** More than any animation has frames. */
const CHUNKS = 65_536;
const RIFF_BYTES = 12;
const ANMF_BYTES = 16;
const ALPHA_FLAG = 0x10;
const EXIF_FLAG = 0x08;
const ANIMATION_FLAG = 0x02;

/** @throws bad_input for broken chunks, and for a frame that is not as large as the header says */
export function readWebp(bytes: Uint8Array): Webp {
  const chunks = chunksOf(insideOf(bytes));
  const [first] = chunks;
  if (first?.name !== 'VP8X') {
    const frame = frameOf(chunks);
    const { width, height } = frame;
    return { width, height, isColor: !hasAlpha(frame), orientation: 1, frame };
  }
  if (first.data.length < 10) throw broken('its VP8X chunk is cut');
  const flags = first.data[0]!;
  const width = 1 + uint24(first.data, 4);
  const height = 1 + uint24(first.data, 7);
  const animated = (flags & ANIMATION_FLAG) !== 0;
  const frame = animated ? animationFrame(chunks) : frameOf(chunks);
  if (
    animated
      ? frame.x + frame.width > width || frame.y + frame.height > height
      : frame.width !== width || frame.height !== height
  ) {
    throw broken(`its frame of ${frame.width}x${frame.height} does not fit its canvas of ${width}x${height}`);
  }
  const exif = (flags & EXIF_FLAG) === 0 ? undefined : chunks.find(({ name }) => name === 'EXIF');
  return {
    width,
    height,
    isColor: !animated && (flags & ALPHA_FLAG) === 0 && !hasAlpha(frame),
    orientation: exif === undefined ? 1 : exifOrientation(exif.data),
    frame,
  };
}

/** The frame as a file of its own. */
export function frameFile({ width, height, chunks }: Frame): Uint8Array {
  const canvas = new Uint8Array(10);
  const view = new DataView(canvas.buffer);
  canvas[0] = ALPHA_FLAG;
  view.setUint32(4, width - 1, true);
  view.setUint32(6, ((height - 1) << 8) | canvas[6]!, true);
  const parts = chunks.length > 1 ? [{ name: 'VP8X', data: canvas }, ...chunks] : chunks;
  const body = parts.flatMap(({ name, data }) => [
    ...head(name, data.length),
    data,
    new Uint8Array(data.length & 1),
  ]);
  const bytes = body.reduce((sum, { length }) => sum + length, 4);
  return Buffer.concat([...head('RIFF', bytes), Buffer.from('WEBP'), ...body]);
}

function head(name: string, length: number): [Uint8Array, Uint8Array] {
  return [Buffer.from(name), new Uint8Array(Uint32Array.of(length).buffer)];
}

/** The bytes after the name WEBP, up to the length in the file. */
function insideOf(bytes: Uint8Array): Uint8Array {
  const end = bytes.length < RIFF_BYTES ? Number.POSITIVE_INFINITY : 8 + uint32(bytes, 4);
  if (end > bytes.length) throw broken(`it ends at byte ${bytes.length}, before its end`);
  return bytes.subarray(RIFF_BYTES, end);
}

function chunksOf(bytes: Uint8Array): Chunk[] {
  const chunks: Chunk[] = [];
  for (let at = 0; at < bytes.length; ) {
    if (chunks.length >= CHUNKS) throw broken(`it has more than ${CHUNKS} chunks`);
    const start = at + 8;
    const end = start <= bytes.length ? start + uint32(bytes, at + 4) : start;
    if (end > bytes.length) throw broken('it ends inside a chunk');
    chunks.push({ name: latin1(bytes, at, at + 4), data: bytes.subarray(start, end) });
    // Each chunk has an even number of bytes; that of the last one may be missing.
    at = end + (end & 1);
  }
  return chunks;
}

function animationFrame(chunks: readonly Chunk[]): Frame {
  const data = chunks.find(({ name }) => name === 'ANMF')?.data;
  if (data === undefined || data.length < ANMF_BYTES) throw broken('its animation has no frame');
  const [x, y, width, height] = [uint24(data, 0) * 2, uint24(data, 3) * 2, uint24(data, 6), uint24(data, 9)];
  const frame = frameOf(chunksOf(data.subarray(ANMF_BYTES)));
  if (frame.width !== width + 1 || frame.height !== height + 1) {
    throw broken(`its frame of ${frame.width}x${frame.height} says ${width + 1}x${height + 1}`);
  }
  return { ...frame, x, y };
}

function frameOf(chunks: readonly Chunk[]): Frame {
  const index = chunks.findIndex(({ name }) => name === 'VP8 ' || name === 'VP8L');
  const image = chunks[index];
  if (image === undefined) throw broken('it has no picture');
  if (image.name === 'VP8L') return { x: 0, y: 0, ...losslessSize(image.data), chunks: [image] };
  const alpha = chunks.findLast(({ name }, at) => at < index && name === 'ALPH');
  return { x: 0, y: 0, ...lossySize(image.data), chunks: alpha === undefined ? [image] : [alpha, image] };
}

function lossySize(data: Uint8Array) {
  if (data.length < 10 || (data[0]! & 1) !== 0 || latin1(data, 3, 6) !== '\x9d\x01\x2a') {
    throw broken('its VP8 chunk does not begin with a key frame');
  }
  return sizeOf(uint24(data, 6) & 0x3fff, (uint24(data, 7) >> 8) & 0x3fff);
}

function losslessSize(data: Uint8Array) {
  if (data.length < 5 || data[0] !== 0x2f || data[4]! >> 5 !== 0) {
    throw broken('its VP8L chunk does not begin with a header');
  }
  const bits = uint32(data, 1);
  return sizeOf(1 + (bits & 0x3fff), 1 + ((bits >>> 14) & 0x3fff));
}

function sizeOf(width: number, height: number) {
  if (width === 0 || height === 0) throw broken(`its header says ${width}x${height} pixels`);
  return { width, height };
}

function hasAlpha({ chunks }: Frame): boolean {
  const image = present(chunks.at(-1), 'chunk');
  return chunks.length > 1 || (image.name === 'VP8L' && (image.data[4]! & 0x10) !== 0);
}

function uint24(bytes: Uint8Array, at: number): number {
  return bytes[at]! | (bytes[at + 1]! << 8) | (bytes[at + 2]! << 16);
}

function uint32(bytes: Uint8Array, at: number): number {
  return uint24(bytes, at) + bytes[at + 3]! * 2 ** 24;
}

function latin1(bytes: Uint8Array, from: number, to: number): string {
  return String.fromCharCode(...bytes.subarray(from, to));
}

export function broken(why: string): ServingError {
  return brokenFile('WebP', why);
}
