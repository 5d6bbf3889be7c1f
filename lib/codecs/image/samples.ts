/** The handling of samples that several decoders share: inflating them, and painting those that stand for a color. */
import { inflate as inflateLater, inflateSync } from 'node:zlib';
import { broken, tooLong, tooShort } from './refusal.ts';

/** Deflate cannot do better: 258 bytes for 2 bits. */
export const DEFLATE_RATIO = 1_032;

/**
 * Before memory is taken: a header alone must not cost 128 MiB.
 * @param ratio the most bytes that a packed byte can become
 * @throws bad_input when `packed` bytes cannot become `expected`
 */
export function assertHolds(format: string, packed: number, expected: number, ratio: number): void {
  if (expected <= (packed + 1) * ratio) return;
  throw broken(format, `${packed} bytes of image data cannot hold the ${expected} its header promises`);
}

/** Larger data is inflated by another thread. */
const INFLATED_HERE = 8 * 1024 * 1024;

/** A promise for many bytes. @throws bad_input for damaged data, and for other than `expected` bytes */
export function inflate(format: string, deflated: Uint8Array, expected: number): Buffer | Promise<Buffer> {
  assertHolds(format, deflated.length, expected, DEFLATE_RATIO);
  // One extra byte, so that zlib sees the end without a second chunk of the same size.
  const options = { maxOutputLength: expected, chunkSize: Math.max(64, expected + 1) };
  const whole = (samples: Buffer): Buffer => {
    if (samples.length < expected) throw tooShort(format, samples.length, expected);
    return samples;
  };
  const refuse = (error: unknown): never => {
    if (error instanceof RangeError) throw tooLong(format, expected);
    const why = error instanceof Error ? error.message : String(error);
    throw broken(format, `its image data is damaged (${why})`);
  };
  if (expected > INFLATED_HERE) {
    return new Promise<Buffer>((resolve, reject) => {
      inflateLater(deflated, options, (error, samples) => (error ? reject(error) : resolve(samples)));
    }).then(whole, refuse);
  }
  let samples: Buffer;
  try {
    samples = inflateSync(deflated, options);
  } catch (error) {
    return refuse(error);
  }
  return whole(samples);
}

/** The grey levels of the sample values, as a palette. */
export function greys(depth: number): Uint8Array {
  const colours = new Uint8Array(768);
  const step = depth < 8 ? 255 / (2 ** depth - 1) : 1;
  for (let value = 0; value < 256; value++) colours.fill(value * step, value * 3, value * 3 + 3);
  return colours;
}

/** Where `columns` pixels go, as RGB: from pixel `first` of `data` on, every `step`th. */
export interface Target {
  readonly data: Uint8Array;
  readonly first: number;
  readonly step: number;
  readonly columns: number;
}

/**
 * Paints the row that begins at `row`: the first `depth` bits of every `bitsPerPixel` are the number of a colour.
 * @param colours 256 of 3 bytes
 */
export function paint(
  samples: Uint8Array,
  row: number,
  depth: number,
  bitsPerPixel: number,
  colours: Uint8Array,
  { data, first, step, columns }: Target,
): void {
  const end = (first + columns * step) * 3;
  if (depth >= 8) {
    // In 16-bit samples, the first byte is the upper one.
    const pixel = bitsPerPixel >> 3;
    for (let to = first * 3, from = row; to < end; to += step * 3, from += pixel) {
      const colour = samples[from]! * 3;
      data[to] = colours[colour]!;
      data[to + 1] = colours[colour + 1]!;
      data[to + 2] = colours[colour + 2]!;
    }
    return;
  }
  const mask = 2 ** depth - 1;
  for (let to = first * 3, bit = 0; to < end; to += step * 3, bit += bitsPerPixel) {
    // The first pixel is in the upper bits.
    const colour = ((samples[row + (bit >> 3)]! >> (8 - depth - (bit & 7))) & mask) * 3;
    data[to] = colours[colour]!;
    data[to + 1] = colours[colour + 1]!;
    data[to + 2] = colours[colour + 2]!;
  }
}
