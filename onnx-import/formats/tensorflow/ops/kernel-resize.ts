/**
 * Converts ScaleAndTranslate, which is `tf.image.resize` with antialiasing and with other filters. Each axis is a
 * product with a matrix of weights. Antialiasing widens the filter when shrinking, so that every pixel counts.
 */
import { constantNumbers } from '../../../graph/numbers.ts';
import { flagAttribute, textAttribute } from '../graph.ts';
import { cast } from './kernels.ts';
import { refuse } from './refuse.ts';
import { multiplyAxes } from './resize.ts';
import { type OpTable, type Rule, takes } from './rule.ts';

interface Filter {
  readonly radius: number;
  readonly at: (distance: number) => number;
}

function lanczos(radius: number): Filter {
  const sinc = (x: number) => (x === 0 ? 1 : Math.sin(Math.PI * x) / (Math.PI * x));
  return { radius, at: (x) => (x > radius ? 0 : x <= 1e-3 ? 1 : sinc(x) * sinc(x / radius)) };
}

const FILTERS: Readonly<Record<string, Filter>> = {
  box: { radius: 1, at: (x) => (x < 0.5 ? 1 : x === 0.5 ? 0.5 : 0) },
  gaussian: { radius: 1.5, at: (x) => (x >= 1.5 ? 0 : Math.exp((-x * x) / (2 * 0.5 * 0.5))) },
  keyscubic: {
    radius: 2,
    at: (x) => (x >= 2 ? 0 : x >= 1 ? ((-0.5 * x + 2.5) * x - 4) * x + 2 : (1.5 * x - 2.5) * x * x + 1),
  },
  lanczos3: lanczos(3),
  lanczos5: lanczos(5),
  mitchellcubic: {
    radius: 2,
    at: (x) => {
      if (x >= 2) return 0;
      if (x >= 1) return (((-7 / 18) * x + 2) * x - 10 / 3) * x + 16 / 9;
      return ((7 / 6) * x - 2) * x * x + 8 / 9;
    },
  },
  triangle: { radius: 1, at: (x) => Math.max(0, 1 - x) },
};

interface Axis {
  readonly from: number;
  readonly to: number;
  readonly scale: number;
  readonly move: number;
}

/** Weights with one row per output pixel. Pixels outside the image are 0. */
function filterWeights({ from, to, scale, move }: Axis, filter: Filter, antialias: boolean): Float32Array {
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
    if (Math.abs(sum) < 1000 * 1.1754944e-38) continue;
    for (let k = first; k <= last; k++) weights[i * from + k] = (weights[i * from + k] as number) / sum;
  }
  return weights;
}

const scaleAndTranslate: Rule = (node, [image, size, scale, move], g) => {
  const name = textAttribute(node, 'kernel_type', 'lanczos3');
  const filter =
    (Object.hasOwn(FILTERS, name) ? FILTERS[name] : undefined) ?? refuse(`has the unknown filter ${name}`);
  const antialias = flagAttribute(node, 'antialias', true);
  const [scales, moves] = [constantNumbers(scale, 'scale'), constantNumbers(move, 'translation')];
  return multiplyAxes(node, cast(g, image, 'float32'), size, g, (axis, from, to) =>
    filterWeights({ from, to, scale: scales[axis] ?? 1, move: moves[axis] ?? 0 }, filter, antialias),
  );
};

export const KERNEL_RESIZE: OpTable = takes(4, { ScaleAndTranslate: scaleAndTranslate });
