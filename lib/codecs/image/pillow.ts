/**
 * Resizes pixels row by row, bit for bit as Pillow's Image.resize on RGB: antialiased where it scales down, one pass across
 * and one down, each in fixed point with 22-bit weights and rounded to 8 bits. Image processors of Transformers, timm and
 * torchvision scale so, and OpenCV does not. Pillow 13 takes the passes of some tall pictures in the other order, which moves a
 * value by one level; earlier ones do not.
 */
import type { Pixels } from './pixels.ts';
import type { Resizer, Size, Window } from './resize.ts';

interface Filter {
  /** Half of its width in source pixels, where it does not scale down. */
  readonly support: number;
  readonly at: (x: number) => number;
}

function sinc(x: number): number {
  return x === 0 ? 1 : Math.sin(x * Math.PI) / (x * Math.PI);
}

function cubic(distance: number): number {
  const x = Math.abs(distance);
  const a = -0.5;
  if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? (((x - 5) * x + 8) * x - 4) * a : 0;
}

function hamming(distance: number): number {
  const x = Math.abs(distance);
  return x < 1 ? sinc(x) * (0.54 + 0.46 * Math.cos(x * Math.PI)) : 0;
}

const FILTERS = {
  box: { support: 0.5, at: (x) => (x > -0.5 && x <= 0.5 ? 1 : 0) },
  bilinear: { support: 1, at: (x) => Math.max(0, 1 - Math.abs(x)) },
  hamming: { support: 1, at: hamming },
  bicubic: { support: 2, at: cubic },
  lanczos: { support: 3, at: (x) => (x >= -3 && x < 3 ? sinc(x) * sinc(x / 3) : 0) },
} satisfies Readonly<Record<string, Filter>>;

export type PillowFilter = 'nearest' | keyof typeof FILTERS;

const PRECISION = 22;
const HALF = 2 ** (PRECISION - 1);

/** The source pixels of each target pixel, and their weights. */
interface Taps {
  readonly first: Int32Array;
  readonly count: Int32Array;
  /** `width` for each target pixel. */
  readonly weights: Int32Array;
  readonly width: number;
}

export function pillowResizer(pixels: Pixels, size: Size, window: Window, filter: PillowFilter): Resizer {
  const { left, top, width, height } = window;
  if (filter === 'nearest') {
    const across = nearest(pixels.width, size.width).subarray(left, left + width);
    const down = nearest(pixels.height, size.height).subarray(top, top + height);
    return { row: (y, row) => pick(pixels, down[y - top]!, across, row) };
  }
  const chosen = FILTERS[filter];
  const isWide = size.width !== pixels.width;
  const across = isWide ? taps(pixels.width, size.width, left, width, chosen) : undefined;
  const down =
    size.height === pixels.height ? undefined : taps(pixels.height, size.height, top, height, chosen);
  const lines = new Map<number, Uint8Array>();
  const line = (y: number): Uint8Array => {
    const source = pixels.data.subarray(3 * y * pixels.width, 3 * (y + 1) * pixels.width);
    if (!across) return source.subarray(3 * left, 3 * (left + width));
    let made = lines.get(y);
    if (!made) lines.set(y, (made = blendAcross(source, across, new Uint8Array(3 * width))));
    return made;
  };
  return {
    cost: Math.ceil((pixels.width * pixels.height) / size.height),
    row(y, row) {
      if (!down) {
        row.set(line(y));
        return row;
      }
      const first = down.first[y - top]!;
      for (const old of lines.keys()) if (old < first) lines.delete(old);
      const sources = Array.from({ length: down.count[y - top]! }, (_, i) => line(first + i));
      return blendDown(sources, down.weights, (y - top) * down.width, row);
    },
  };
}

/** The steps are added up as Pillow does, with its rounding. */
function nearest(from: number, to: number): Int32Array {
  const step = from / to;
  const found = new Int32Array(to);
  for (let i = 0, at = step * 0.5; i < to; i++, at += step) found[i] = Math.min(Math.trunc(at), from - 1);
  return found;
}

function pick(pixels: Pixels, y: number, across: Int32Array, row: Uint8Array): Uint8Array {
  const start = 3 * y * pixels.width;
  for (let x = 0, to = 0; x < across.length; x++, to += 3) {
    const from = start + 3 * across[x]!;
    row[to] = pixels.data[from]!;
    row[to + 1] = pixels.data[from + 1]!;
    row[to + 2] = pixels.data[from + 2]!;
  }
  return row;
}

/** Of the target pixels from `start` on. */
function taps(from: number, to: number, start: number, length: number, filter: Filter): Taps {
  const scale = from / to;
  const filterScale = Math.max(scale, 1);
  const support = filter.support * filterScale;
  const width = Math.ceil(support) * 2 + 1;
  const made: Taps = {
    first: new Int32Array(length),
    count: new Int32Array(length),
    weights: new Int32Array(length * width),
    width,
  };
  for (let i = 0; i < length; i++) {
    const centre = (start + i + 0.5) * scale;
    const first = Math.max(0, Math.trunc(centre - support + 0.5));
    const count = Math.min(from, Math.trunc(centre + support + 0.5)) - first;
    const weights = Array.from({ length: count }, (_, x) =>
      filter.at((x + first - centre + 0.5) * (1 / filterScale)),
    );
    const sum = weights.reduce((total, weight) => total + weight, 0);
    made.first[i] = first;
    made.count[i] = count;
    for (const [x, weight] of weights.entries()) {
      const part = (sum === 0 ? weight : weight / sum) * 2 ** PRECISION;
      made.weights[i * width + x] = Math.trunc(part < 0 ? part - 0.5 : part + 0.5);
    }
  }
  return made;
}

function blendAcross(source: Uint8Array, across: Taps, row: Uint8Array): Uint8Array {
  const { first, count, weights, width } = across;
  for (let x = 0, to = 0; x < first.length; x++, to += 3) {
    let [red, green, blue] = [HALF, HALF, HALF];
    const end = x * width + count[x]!;
    for (let tap = x * width, from = 3 * first[x]!; tap < end; tap++, from += 3) {
      const weight = weights[tap]!;
      red += source[from]! * weight;
      green += source[from + 1]! * weight;
      blue += source[from + 2]! * weight;
    }
    row[to] = clip(red);
    row[to + 1] = clip(green);
    row[to + 2] = clip(blue);
  }
  return row;
}

function blendDown(
  sources: readonly Uint8Array[],
  weights: Int32Array,
  start: number,
  row: Uint8Array,
): Uint8Array {
  for (let x = 0; x < row.length; x++) {
    let sum = HALF;
    for (let i = 0; i < sources.length; i++) sum += sources[i]![x]! * weights[start + i]!;
    row[x] = clip(sum);
  }
  return row;
}

function clip(sum: number): number {
  return Math.min(Math.max(sum >> PRECISION, 0), 255);
}
