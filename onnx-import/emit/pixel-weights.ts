/** How much each input pixel of an axis counts in each output pixel, as a matrix. */
import { badModel } from '../../lib/contract/errors.ts';

const { fround } = Math;

/** At a distance up to 1, and up to 2. */
function cubic(part: number, a: number): [number, number, number, number] {
  const near = (d: number) => ((a + 2) * d - (a + 3)) * d * d + 1;
  const far = (d: number) => ((a * d - 5 * a) * d + 8 * a) * d - 4 * a;
  return [far(1 + part), near(part), near(1 - part), far(2 - part)];
}

/**
 * [from, to], by the place of each output pixel in the input; the border is repeated.
 * @param cube the coefficient of cubic weights; undefined: linear
 */
export function linearWeights(
  from: number,
  places: readonly number[],
  cube: number | undefined,
): Float32Array {
  const weights = new Float32Array(from * places.length);
  for (const [i, place] of places.entries()) {
    const start = Math.floor(place);
    const part = place - start;
    const taps = cube === undefined ? [0, 1 - part, part, 0] : cubic(part, cube);
    for (const [k, weight] of taps.entries()) {
      const at = Math.min(Math.max(start - 1 + k, 0), from - 1) * places.length + i;
      weights[at] = (weights[at] as number) + weight;
    }
  }
  return weights;
}

/** Sums below it are not divided by. */
const LEAST_SUM = 1000 * 1.1754944e-38;

function evenRound(value: number): number {
  const low = Math.floor(value);
  const rest = value - low;
  return rest > 0.5 || (rest === 0.5 && low % 2 === 1) ? low + 1 : low;
}

/** TensorFlow reads cubic weights from a table with this many entries. */
const TABLE = 1024;

function add(weights: Float32Array, at: number, value: number): void {
  weights[at] = fround((weights[at] as number) + value);
}

/**
 * [to, from] of TensorFlow's cubic resizing: half-pixel centers ignore pixels outside the image, the old rule repeats the
 * border.
 * @param step input pixels for each output pixel
 */
export function tableWeights(from: number, to: number, step: number, isCentered: boolean): Float32Array {
  const weights = new Float32Array(from * to);
  for (let i = 0; i < to; i++) {
    const place = isCentered ? fround(fround(fround(i + 0.5) * step) - 0.5) : fround(i * step);
    const low = Math.floor(place);
    const parts = cubic(evenRound((place - low) * TABLE) / TABLE, isCentered ? -0.5 : -0.75).map(
      (part, k) => {
        const pixel = low - 1 + k;
        return isCentered && (pixel < 0 || pixel >= from) ? 0 : part;
      },
    );
    const sum = isCentered ? parts.reduce((a, b) => a + b, 0) : 1;
    for (const [k, part] of parts.entries()) {
      const pixel = Math.max(0, Math.min(low - 1 + k, from - 1));
      add(weights, i * from + pixel, part / (Math.abs(sum) >= LEAST_SUM ? sum : 1));
    }
  }
  return weights;
}

/** [to, from], by the share of each input pixel in the output pixel. @param step input pixels for each output pixel */
export function areaWeights(from: number, to: number, step: number): Float32Array {
  const weights = new Float32Array(from * to);
  for (let i = 0; i < to; i++) {
    const [start, end] = [fround(i * step), fround((i + 1) * step)];
    for (let k = Math.floor(start); k < Math.ceil(end); k++) {
      const share = (Math.min(k + 1, end) - Math.max(k, start)) / step;
      add(weights, i * from + Math.max(0, Math.min(k, from - 1)), share);
    }
  }
  return weights;
}

interface Filter {
  readonly radius: number;
  readonly at: (distance: number) => number;
}

function lanczos(radius: number): Filter {
  const sinc = (x: number) => (x === 0 ? 1 : Math.sin(Math.PI * x) / (Math.PI * x));
  return { radius, at: (x) => (x > radius ? 0 : x <= 1e-3 ? 1 : sinc(x) * sinc(x / radius)) };
}

/** By their names in TensorFlow. */
const FILTERS: ReadonlyMap<string, Filter> = new Map([
  ['box', { radius: 1, at: (x) => (x < 0.5 ? 1 : x === 0.5 ? 0.5 : 0) }],
  ['gaussian', { radius: 1.5, at: (x) => (x >= 1.5 ? 0 : Math.exp((-x * x) / (2 * 0.5 * 0.5))) }],
  [
    'keyscubic',
    {
      radius: 2,
      at: (x) => (x >= 2 ? 0 : x >= 1 ? ((-0.5 * x + 2.5) * x - 4) * x + 2 : (1.5 * x - 2.5) * x * x + 1),
    },
  ],
  ['lanczos3', lanczos(3)],
  ['lanczos5', lanczos(5)],
  [
    'mitchellcubic',
    {
      radius: 2,
      at: (x) => {
        if (x >= 2) return 0;
        if (x >= 1) return (((-7 / 18) * x + 2) * x - 10 / 3) * x + 16 / 9;
        return ((7 / 6) * x - 2) * x * x + 8 / 9;
      },
    },
  ],
  ['triangle', { radius: 1, at: (x) => Math.max(0, 1 - x) }],
]);

export interface Filtering {
  readonly filter: string;
  /** Widens the filter when shrinking, so that every pixel counts. */
  readonly antialias: boolean;
  /** Output pixels for each input pixel. */
  readonly scale: number;
  /** Output pixels by which the image is moved. */
  readonly move: number;
}

/** [to, from], by a filter. Pixels outside the image are 0. @throws bad_model for an unknown filter */
export function filterWeights(from: number, to: number, how: Filtering): Float32Array {
  const { antialias, scale, move } = how;
  const filter = FILTERS.get(how.filter);
  if (!filter) throw badModel(`has the unknown filter ${how.filter}`);
  const weights = new Float32Array(from * to);
  const width = antialias ? Math.max(1 / scale, 1) : 1;
  for (let i = 0; i < to; i++) {
    const center = (i + 0.5) / scale - move / scale;
    if (center < 0 || center > from) continue;
    const first = Math.max(0, Math.ceil(center - filter.radius * width - 0.5));
    const last = Math.min(from - 1, Math.floor(center + filter.radius * width - 0.5));
    let sum = 0;
    for (let k = first; k <= last; k++) {
      const weight = filter.at(Math.abs((k + 0.5 - center) / width));
      weights[i * from + k] = weight;
      sum += weight;
    }
    if (Math.abs(sum) < LEAST_SUM) continue;
    for (let k = first; k <= last; k++) weights[i * from + k] = (weights[i * from + k] as number) / sum;
  }
  return weights;
}
