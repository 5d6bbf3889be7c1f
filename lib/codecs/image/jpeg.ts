/**
 * Decodes a JPEG to upright 8-bit RGB pixels, bit for bit those of OpenCV's libjpeg-turbo. libjpeg only warns about a
 * cut file and paints it grey, and a progressive file may ask for any number of scans, so the markers are checked
 * first; without an end marker nothing is decoded, as in OpenCV 5.
 */
import type { ServingError } from '../../contract/errors.ts';
import { LIMITS } from '../../contract/limits.ts';
import { sharedDecoder } from './libjpeg.ts';
import { exifOrientation, orient, type Pixels } from './pixels.ts';
import { broken as brokenFile, unsupported } from './refusal.ts';

/** Encoders write up to about 20. */
const SCANS = 50;
/**
 * Each scan can cost a walk over every coefficient, 25 ms for 16 Mi pixels, and the decoder in WebAssembly cannot stop for others:
 * the largest image may have 20.
 */
const SCANNED_PIXELS = 20 * LIMITS.imagePixels;
/** Segments before the first scan. A colour profile in pieces takes about a dozen. */
const SEGMENTS = 1_000;

const EOI = 0xd9;
const SOS = 0xda;
const APP1 = 0xe1;
/** DHT, JPG and DAC have marker numbers between those of frames, but are not frames. */
const NO_FRAME = [0xc4, 0xc8, 0xcc];
const EXIF = 'Exif\0\0';

interface Header {
  readonly width: number;
  readonly height: number;
  readonly isColor: boolean;
  /** Or YCCK. */
  readonly isCmyk: boolean;
  readonly orientation: number;
  /** Where the marker of the first scan begins. */
  readonly scans: number;
}

interface Frame {
  readonly width: number;
  readonly height: number;
  readonly isColor: boolean;
  /** Or YCCK. */
  readonly isCmyk: boolean;
}

/** @throws bad_input for broken markers, unsupported_media_type for samples of other than 8 bits. */
export function readJpegHeader(bytes: Uint8Array): Header {
  let frame: Frame | undefined;
  let orientation: number | undefined;
  let at = 2;
  for (let count = 0; count < SEGMENTS; count++) {
    const marker = markerAt(bytes, at);
    // Fill bytes: any number of 0xff may come before a marker.
    while (bytes[at + 1] === 0xff) at++;
    if (marker === SOS) {
      if (frame === undefined) throw broken('a scan comes before the frame header');
      return { ...frame, orientation: orientation ?? 1, scans: at };
    }
    const length = segmentLength(bytes, at, marker);
    const body = bytes.subarray(at + 4, at + 2 + length);
    if (marker >= 0xc0 && marker <= 0xcf && !NO_FRAME.includes(marker)) {
      if (frame !== undefined) throw broken('it has two frame headers');
      frame = readFrame(body);
    } else if (marker === APP1 && hasExif(body)) {
      // If there are two EXIF segments, the first counts, as in OpenCV.
      orientation ??= exifOrientation(body.subarray(EXIF.length));
    }
    at += 2 + length;
  }
  throw broken(`more than ${SEGMENTS} segments come before its first scan`);
}

/**
 * The caller has compared `readJpegHeader` with the pixel limit.
 * @throws bad_input for a truncated or damaged file
 */
export async function decodeJpeg(bytes: Uint8Array): Promise<Pixels> {
  const header = readJpegHeader(bytes);
  const whole = bytes.subarray(0, findEnd(bytes, header));
  const pixels = header.isCmyk
    ? await (await import('./cmyk/decode.ts')).decodeCmyk(whole, header)
    : await sharedDecoder.decode(whole, header);
  return orient(pixels, header.orientation);
}

function readFrame(body: Uint8Array): Frame {
  const [precision = 0, h1 = 0, h0 = 0, w1 = 0, w0 = 0, components = 0] = body;
  if (body.length !== 6 + 3 * components) throw broken('its frame header has the wrong length');
  const width = w1 * 256 + w0;
  const height = h1 * 256 + h0;
  if (width === 0 || height === 0) throw broken(`its header says ${width}x${height} pixels`);
  if (precision !== 8) throw unsupported(`JPEG of ${precision} bits a sample`, '8 bits');
  if (![1, 3, 4].includes(components)) throw unsupported(`JPEG of ${components} components`, '1, 3 or 4');
  return { width, height, isColor: components === 3, isCmyk: components === 4 };
}

/** The index after the end-of-image marker. Coded data contains 0xff only before a 0 or a marker. */
function findEnd(bytes: Uint8Array, { width, height, scans: firstScan }: Header): number {
  const most = Math.min(SCANS, Math.floor(SCANNED_PIXELS / (width * height)));
  let scans = 0;
  for (let at = bytes.indexOf(0xff, firstScan); at >= 0; at = bytes.indexOf(0xff, at)) {
    const marker = bytes[at + 1];
    if (marker === EOI) return at + 2;
    if (marker === 0xff) {
      at++;
    } else if (marker === undefined || marker <= 1 || (marker >= 0xd0 && marker <= 0xd7)) {
      at += 2;
    } else {
      if (marker === SOS) scans++;
      if (scans > most) throw broken(`it has more than ${most} scans`);
      at += 2 + segmentLength(bytes, at, marker);
    }
  }
  throw cut(bytes);
}

/** The marker at `at`, after any fill bytes. */
function markerAt(bytes: Uint8Array, at: number): number {
  if (at < bytes.length && bytes[at] !== 0xff) throw broken(`no marker at byte ${at}`);
  let next = at + 1;
  while (bytes[next] === 0xff) next++;
  const marker = bytes[next];
  if (marker === undefined) throw cut(bytes);
  if (marker < 0xc0 || (marker >= 0xd0 && marker <= EOI)) {
    throw broken(`unexpected marker ${hex(marker)} at byte ${at}`);
  }
  return marker;
}

/** The length of the segment with the marker at `at`, including its own two bytes. */
function segmentLength(bytes: Uint8Array, at: number, marker: number): number {
  const high = bytes[at + 2];
  const low = bytes[at + 3];
  if (high === undefined || low === undefined) throw cut(bytes);
  const length = high * 256 + low;
  if (length < 2) throw broken(`segment ${hex(marker)} at byte ${at} has length ${length}`);
  if (at + 2 + length > bytes.length) throw cut(bytes);
  return length;
}

function hasExif(body: Uint8Array): boolean {
  return body.length >= EXIF.length && String.fromCharCode(...body.subarray(0, EXIF.length)) === EXIF;
}

function hex(byte: number): string {
  return `0x${byte.toString(16).padStart(2, '0')}`;
}

function cut(bytes: Uint8Array): ServingError {
  return broken(`it ends at byte ${bytes.length}, before its end marker`);
}

function broken(why: string): ServingError {
  return brokenFile('JPEG', why);
}
