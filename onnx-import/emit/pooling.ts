/**
 * Pooling. Pads express which windows there are, because onnxruntime and the sources count a last one that is rounded
 * up differently.
 */
import { badModel } from '../../lib/contract/errors.ts';
import { formatShape } from '../../lib/contract/tensor.ts';
import { type Maker, several } from '../graph/layout.ts';
import { fixed, known } from '../graph/shapes.ts';
import type { Attributes, Value } from '../graph/value.ts';
import { cutAlong, joined } from './gather.ts';
import { reduce } from './reduce.ts';
import { layWindows, padSpace, placeWindows, reachOf, type Windows } from './windows.ts';

/** The result of a maximum without elements. */
function lowest({ dtype }: Value): number {
  if (dtype === 'float32') return -3.4028234663852886e38;
  if (dtype === 'float64') return -Number.MAX_VALUE;
  return dtype.startsWith('u') ? 0 : -128;
}

interface Ends {
  /** Where the windows lie, `undefined` at a free size. */
  readonly pads: readonly number[] | undefined;
  readonly beyond: readonly number[];
  readonly isOutside: boolean;
}

/** What windows need besides the pads of the source. */
function endsOf(x: Value, windows: Windows): Ends {
  const laid = layWindows(known(x).slice(2), windows);
  if (!laid) return { pads: undefined, beyond: [], isOutside: false };
  const pads = [...laid.map(({ before }) => before), ...laid.map(({ after }) => after)];
  const beyond = laid.map((each) => each.beyond);
  const isOutside = laid.some(
    (each, i) => Math.max(each.before, each.after + each.beyond) >= reachOf(windows, i),
  );
  return { pads, beyond, isOutside };
}

/** Rounding up of free sizes is left to onnxruntime, which drops windows as `always` does. */
function roundsAtRuntime(windows: Windows, isAverage: boolean): boolean {
  const { ceil = false, drops, kernel, strides, pads } = windows;
  if (!ceil || strides.every((stride) => stride === 1)) return false;
  const isPadded = typeof pads !== 'string' && pads.some((pad) => pad > 0);
  const isInside = strides.every((stride, i) => stride <= (kernel[i] as number));
  const isSame = drops === 'always' || (drops === 'padded' && (isPadded || isInside));
  return isSame && !(isAverage && isPadded);
}

function sized(x: Value, windows: Windows, isAverage = false): { ceil_mode?: number } {
  if (!windows.ceil || typeof windows.pads === 'string') return {};
  if (roundsAtRuntime(windows, isAverage)) return { ceil_mode: 1 };
  if (windows.strides.every((stride) => stride === 1)) return {};
  throw badModel(`needs fixed sizes, the input is ${formatShape(known(x))}; give them with --input`);
}

/** The greatest of each window, and with 2 outputs its place, which counts through the whole tensor. */
export function maxPool(node: Maker, input: Value, windows: Windows, outputs = 1): Value[] {
  const { kernel, strides, dilations } = windows;
  const own = { kernel_shape: kernel, strides, ...(dilations ? { dilations } : {}) };
  const { pads, beyond, isOutside } = endsOf(input, windows);
  const pool = (x: Value, attributes: Attributes) =>
    several(node, 'MaxPool', [x], { ...own, ...attributes }, outputs);
  if (!pads) {
    const placed = placeWindows(node, input, windows, lowest(input));
    if (placed.isGrown && outputs > 1) throw badModel('needs fixed sizes; give them with --input');
    return pool(placed.x, { ...placed.attributes, ...sized(input, windows) });
  }
  const all = pads.map((pad, i) => pad + (beyond[i - kernel.length] ?? 0));
  if (!isOutside) return pool(input, { pads: all });
  if (outputs > 1) throw badModel('has a window without an element to point at');
  return pool(padSpace(node, input, all, lowest(input)), { pads: all.map(() => 0) });
}

/**
 * What the sum of a window is divided by: the number of its elements within the input, or within input and padding, or
 * all of the window.
 */
export type Counted = 'inside' | 'padded' | 'whole';

export function averagePool(node: Maker, input: Value, windows: Windows, counted: Counted): Value {
  const { kernel, strides, dilations } = windows;
  if (dilations?.some((size) => size !== 1))
    throw badModel('averages with dilations, which is not supported');
  const own = { kernel_shape: kernel, strides };
  const { pads, beyond, isOutside } = endsOf(input, windows);
  const average = (x: Value, attributes: Attributes) =>
    node.one('AveragePool', [x], { ...own, ...attributes });
  if (!pads) return averageFree(node, input, windows, counted, average);
  const none = pads.map(() => 0);
  const isExact = beyond.every((size) => size === 0);
  if (isOutside && (counted !== 'padded' || beyond.some((size, i) => size >= (kernel[i] as number))))
    throw badModel('has a window without an element: its average is not a number');
  const all = pads.map((pad, i) => pad + (beyond[i - kernel.length] ?? 0));
  if (all.every((pad) => pad === 0)) return average(input, { pads: all });
  if (counted === 'inside') return average(input, { pads: all, count_include_pad: 0 });
  if (counted === 'whole' || isExact) return average(input, { pads: all, count_include_pad: 1 });
  return average(padSpace(node, input, pads, 0), {
    pads: [...none.slice(kernel.length), ...beyond],
    count_include_pad: 0,
  });
}

function averageFree(
  node: Maker,
  input: Value,
  windows: Windows,
  counted: Counted,
  average: (x: Value, attributes: Attributes) => Value,
): Value {
  const rounds = sized(input, windows, true);
  const isPadded = typeof windows.pads === 'string' || windows.pads.some((pad) => pad > 0);
  const count_include_pad = counted === 'inside' || !isPadded ? 0 : 1;
  const placed = placeWindows(node, input, windows, 0);
  const attributes = { ...placed.attributes, ...rounds, count_include_pad };
  const made = average(placed.x, attributes);
  if (!placed.isGrown || counted !== 'inside') return made;
  // The average of ones is the share of a window inside the image.
  const ones = node.one('Expand', [node.g.scalar(input.dtype, 1), node.g.one('Shape', [input])]);
  return node.one('Div', [made, average(placeWindows(node, ones, windows, 0).x, attributes)]);
}

const MAX_BINS = 4096;

/** Bins from floor(i * size / count) to ceil((i + 1) * size / count) along each axis of space; null keeps its size. */
export function adaptivePool(
  node: Maker,
  x: Value,
  op: 'ReduceMean' | 'ReduceMax',
  counts: readonly (number | null)[],
): Value {
  if (counts.every((count) => count === 1))
    return reduce(
      node,
      op,
      x,
      counts.map((_, i) => i + 2),
      true,
    );
  const sizes = counts.map((_, i) => fixed(x, i + 2));
  const bins = counts.map((count, i) => count ?? (sizes[i] as number));
  if (bins.some((count) => !(count >= 1 && count <= MAX_BINS)))
    throw badModel(`has an output of ${bins.slice(0, 9).join('x')}, the limit is ${MAX_BINS}`);
  if (bins.every((count, i) => count === sizes[i])) return x;
  if (bins.every((count, i) => (sizes[i] as number) % count === 0)) {
    const kernel = bins.map((count, i) => (sizes[i] as number) / count);
    return node.one(op === 'ReduceMean' ? 'AveragePool' : 'MaxPool', [x], {
      kernel_shape: kernel,
      strides: kernel,
    });
  }
  // The bins of one axis do not depend on the others.
  return bins.reduce((value, count, i) => {
    const size = sizes[i] as number;
    if (count === size) return value;
    const parts = Array.from({ length: count }, (_, at) => {
      const [from, to] = [Math.floor((at * size) / count), Math.ceil(((at + 1) * size) / count)];
      return reduce(node, op, cutAlong(node, value, i + 2, from, to), [i + 2], true);
    });
    return joined(node, parts, i + 2);
  }, x);
}
