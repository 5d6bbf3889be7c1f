/**
 * Draws an image from a seed, as PNG and JPEG with the pixels that each of them holds. JPEG loses, so its pixels are read
 * back with the package's own plain-JavaScript build: our reader must not be compared with itself.
 */

import { createRequire } from 'node:module';
import { elementAt } from '../lib/contract/present.ts';
import { writePng } from '../test/support/png.ts';
import { randomNumbers } from './models.ts';

export interface BenchImage {
  readonly png: Buffer;
  readonly jpeg: Buffer;
  /** RGB, row by row. */
  readonly pngPixels: Uint8Array;
  readonly jpegPixels: Uint8Array;
}

/** The part of @cornerstonejs/codec-libjpeg-turbo-8bit that is used. */
interface Library {
  readonly JPEGEncoder: new () => {
    getDecodedBuffer(frame: object): Uint8Array;
    setQuality(quality: number): void;
    setSubSampling(sampling: number): void;
    encode(): void;
    getEncodedBuffer(): Uint8Array;
    delete(): void;
  };
  readonly JPEGDecoder: new () => {
    getEncodedBuffer(length: number): Uint8Array;
    decode(): void;
    getDecodedBuffer(): Uint8Array;
    delete(): void;
  };
}

const QUALITY = 85;
/** TurboJPEG's number of 4:2:0. */
const SUBSAMPLING_420 = 2;

let library: Promise<Library> | undefined;

export async function makeImage(seed: number, width: number, height: number): Promise<BenchImage> {
  const pixels = drawPixels(seed, width, height);
  const sample = (x: number, y: number) => {
    const at = (y * width + x) * 3;
    return [pixels[at] ?? 0, pixels[at + 1] ?? 0, pixels[at + 2] ?? 0];
  };
  // All five filters take turns, as an encoder that chooses by row would have them.
  const png = writePng({ width, height, depth: 8, colourType: 2, sample, filter: (row) => row % 5 });
  return { png, pngPixels: pixels, ...(await throughJpeg(pixels, width, height)) };
}

/** Slopes and a little noise: compresses as a photograph does, not as noise or a drawing. */
function drawPixels(seed: number, width: number, height: number): Uint8Array {
  const random = randomNumbers(seed);
  const slopes = [0, 1, 2].map(() => ({ x: random() * 4, y: random() * 4, start: random() * 510 }));
  const pixels = new Uint8Array(width * height * 3);
  let at = 0;
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < width; x++) {
      for (const slope of slopes) {
        const wave = (slope.start + slope.x * x + slope.y * y) % 510;
        const level = wave < 255 ? wave : 510 - wave;
        pixels[at++] = Math.min(255, Math.max(0, Math.round(level + random() * 12 - 6)));
      }
    }
  }
  return pixels;
}

function openLibrary(): Promise<Library> {
  const require = createRequire(import.meta.url);
  const open = require('@cornerstonejs/codec-libjpeg-turbo-8bit') as (options: object) => Promise<Library>;
  library ??= open({ print: () => undefined, printErr: () => undefined });
  return library;
}

async function throughJpeg(pixels: Uint8Array, width: number, height: number) {
  const { JPEGEncoder, JPEGDecoder } = await openLibrary();
  const encoder = new JPEGEncoder();
  const frame = { width, height, bitsPerSample: 8, componentCount: 3, isSigned: false };
  encoder.getDecodedBuffer({ ...frame, isUsingColorTransform: true }).set(pixels);
  encoder.setQuality(QUALITY);
  encoder.setSubSampling(SUBSAMPLING_420);
  encoder.encode();
  const jpeg = Buffer.from(encoder.getEncodedBuffer());
  encoder.delete();
  const decoder = new JPEGDecoder();
  decoder.getEncodedBuffer(jpeg.length).set(jpeg);
  decoder.decode();
  const jpegPixels = Uint8Array.from(decoder.getDecodedBuffer());
  decoder.delete();
  return { jpeg, jpegPixels };
}

/** The contract's default for a CHW model: float32 0 to 255, planes in the order blue, green, red. */
export function bgrPlanes(pixels: Uint8Array): Float32Array {
  const plane = pixels.length / 3;
  return Float32Array.from(pixels, (_, i) =>
    elementAt(pixels, (i % plane) * 3 + 2 - Math.floor(i / plane), 'pixels'),
  );
}
