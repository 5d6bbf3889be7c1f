/**
 * In: a seed and a size. Out: an image as PNG and JPEG, and the pixels that each of them holds.
 * Trap: JPEG loses, so its pixels are read back, with the package's own plain-JavaScript build and none of lib/: a
 * wrong reader of ours must not be compared with itself.
 */
import { createRequire } from 'node:module';
import { writePng } from '../test/support/png.ts';
import { randomNumbers } from './models.ts';

export interface BenchImage {
  readonly png: Buffer;
  readonly jpeg: Buffer;
  /** RGB, row by row. */
  readonly pngPixels: Uint8Array;
  readonly jpegPixels: Uint8Array;
}

interface Frame {
  readonly width: number;
  readonly height: number;
  readonly bitsPerSample: number;
  readonly componentCount: number;
  readonly isSigned: boolean;
  readonly isUsingColorTransform: boolean;
}

interface Encoder {
  getDecodedBuffer(frame: Frame): Uint8Array;
  setQuality(quality: number): void;
  setSubSampling(sampling: number): void;
  encode(): void;
  getEncodedBuffer(): Uint8Array;
  delete(): void;
}

interface Decoder {
  getEncodedBuffer(length: number): Uint8Array;
  decode(): void;
  getDecodedBuffer(): Uint8Array;
  delete(): void;
}

interface Library {
  readonly JPEGEncoder: new () => Encoder;
  readonly JPEGDecoder: new () => Decoder;
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
  const jpeg = await encodeJpeg(pixels, width, height);
  return { png, jpeg, pngPixels: pixels, jpegPixels: await decodeJpeg(jpeg) };
}

/** Slopes and a little noise: compresses as a photograph does, not as noise or a drawing. */
function drawPixels(seed: number, width: number, height: number): Uint8Array {
  const random = randomNumbers(seed);
  const slopes = Array.from({ length: 3 }, () => ({
    x: random() * 4,
    y: random() * 4,
    start: random() * 510,
  }));
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
  type Factory = (options: object) => Promise<Library>;
  const silent = () => undefined;
  library ??= (require('@cornerstonejs/codec-libjpeg-turbo-8bit') as Factory)({
    print: silent,
    printErr: silent,
  });
  return library;
}

async function encodeJpeg(pixels: Uint8Array, width: number, height: number): Promise<Buffer> {
  const encoder = new (await openLibrary()).JPEGEncoder();
  const frame = { width, height, bitsPerSample: 8, componentCount: 3, isSigned: false };
  encoder.getDecodedBuffer({ ...frame, isUsingColorTransform: true }).set(pixels);
  encoder.setQuality(QUALITY);
  encoder.setSubSampling(SUBSAMPLING_420);
  encoder.encode();
  const jpeg = Buffer.from(encoder.getEncodedBuffer());
  encoder.delete();
  return jpeg;
}

async function decodeJpeg(jpeg: Buffer): Promise<Uint8Array> {
  const decoder = new (await openLibrary()).JPEGDecoder();
  decoder.getEncodedBuffer(jpeg.length).set(jpeg);
  decoder.decode();
  const pixels = Uint8Array.from(decoder.getDecodedBuffer());
  decoder.delete();
  return pixels;
}

/** The contract's default for a CHW model: float32 0 to 255, planes in the order blue, green, red. */
export function bgrPlanes(pixels: Uint8Array): Float32Array {
  const plane = pixels.length / 3;
  return Float32Array.from(pixels, (_, i) => pixels[(i % plane) * 3 + 2 - Math.floor(i / plane)] as number);
}
