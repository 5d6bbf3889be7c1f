/**
 * Resizes pixels row by row, bit for bit as OpenCV's resize(INTER_LINEAR) on uint8: half-pixel centres, no
 * antialiasing, and fixed point with 11-bit weights and two cuts before the last rounding, also at the upper and lower
 * edge, where a row is blended with itself.
 */
import type { Pixels } from './pixels.ts';

const WEIGHT = 2_048;

/** For each target index the two source indices and their weights, which add up to 2048. */
interface Taps {
  readonly first: Int32Array;
  readonly second: Int32Array;
  readonly firstWeight: Int32Array;
  readonly secondWeight: Int32Array;
}

export interface Size {
  readonly width: number;
  readonly height: number;
}

/** The part of a scaled picture that is wanted. */
export interface Window extends Size {
  readonly left: number;
  readonly top: number;
}

export interface Resizer {
  /** Source pixels that a row takes, where these are the cost. Default: those of the target. */
  readonly cost?: number;
  /** Writes the window's part of row `y` of the scaled picture as R G B R G B ... into `row`, and returns it. */
  row(y: number, row: Uint8Array): Uint8Array;
}

export function resizer(pixels: Pixels, size: Size, { left, width }: Window): Resizer {
  const across = taps(pixels.width, size.width);
  const down = taps(pixels.height, size.height);
  const stride = pixels.width * 3;
  // Bytes of a source row instead of pixels: the inner loop is the cost of an image.
  for (let x = 0; x < size.width; x++) {
    across.first[x] = at(across.first, x) * 3;
    across.second[x] = at(across.second, x) * 3;
  }
  const wanted: Taps = {
    first: across.first.subarray(left, left + width),
    second: across.second.subarray(left, left + width),
    firstWeight: across.firstWeight.subarray(left, left + width),
    secondWeight: across.secondWeight.subarray(left, left + width),
  };
  return {
    row(y, row) {
      const above = pixels.data.subarray(at(down.first, y) * stride, (at(down.first, y) + 1) * stride);
      const below = pixels.data.subarray(at(down.second, y) * stride, (at(down.second, y) + 1) * stride);
      blend(above, below, at(down.firstWeight, y), at(down.secondWeight, y), wanted, row);
      return row;
    },
  };
}

function blend(
  above: Uint8Array,
  below: Uint8Array,
  aboveWeight: number,
  belowWeight: number,
  across: Taps,
  row: Uint8Array,
): void {
  const { first, second, firstWeight, secondWeight } = across;
  for (let x = 0, to = 0; x < first.length; x++) {
    const left = first[x]!;
    const right = second[x]!;
    const leftWeight = firstWeight[x]!;
    const rightWeight = secondWeight[x]!;
    for (let channel = 0; channel < 3; channel++, to++) {
      const top = above[left + channel]! * leftWeight + above[right + channel]! * rightWeight;
      const bottom = below[left + channel]! * leftWeight + below[right + channel]! * rightWeight;
      row[to] = (((aboveWeight * (top >> 4)) >> 16) + ((belowWeight * (bottom >> 4)) >> 16) + 2) >> 2;
    }
  }
}

/** Beyond the edge both indices are the edge itself. */
function taps(from: number, to: number): Taps {
  const made = {
    first: new Int32Array(to),
    second: new Int32Array(to),
    firstWeight: new Int32Array(to),
    secondWeight: new Int32Array(to),
  };
  const scale = 1 / (to / from);
  for (let index = 0; index < to; index++) {
    const centre = Math.fround((index + 0.5) * scale - 0.5);
    const low = Math.floor(centre);
    const fraction = Math.fround(centre - low);
    made.first[index] = Math.min(Math.max(low, 0), from - 1);
    made.second[index] = Math.min(Math.max(low + 1, 0), from - 1);
    made.firstWeight[index] = roundHalfEven(Math.fround(1 - fraction) * WEIGHT);
    made.secondWeight[index] = roundHalfEven(fraction * WEIGHT);
  }
  return made;
}

function roundHalfEven(value: number): number {
  const rounded = Math.round(value);
  return rounded - value === 0.5 && rounded % 2 !== 0 ? rounded - 1 : rounded;
}

function at(array: Int32Array | Uint8Array, index: number): number {
  return array[index]!;
}
