/**
 * Where the windows of convolutions and pooling lie. Sources differ in how they say it, not in what they compute, but
 * for the last window of an axis: whether it is rounded away, or dropped because it begins behind the input.
 */
import { badModel } from '../../lib/contract/errors.ts';
import type { GraphBuilder } from '../graph/builder.ts';
import type { Maker } from '../graph/layout.ts';
import { known } from '../graph/shapes.ts';
import type { Attributes, Dim, Value } from '../graph/value.ts';

/** One number for each axis of space, in the order of the tensor. */
export interface Windows {
  readonly kernel: readonly number[];
  readonly strides: readonly number[];
  /** Default 1. */
  readonly dilations?: readonly number[];
  /** Before all axes, then after them. `same` gives as many windows as strides, an odd pad more after or before. */
  readonly pads: readonly number[] | 'same_upper' | 'same_lower';
  /** Rounds the number of windows up instead of down. */
  readonly ceil?: boolean;
  /** Drops a last window that begins behind the input and the pads before it: always, or if there are pads at all. */
  readonly drops?: 'always' | 'padded' | undefined;
}

export interface PaddedWindows extends Windows {
  readonly pads: readonly number[];
}

/** The windows of one axis. */
interface Laid {
  readonly count: number;
  readonly before: number;
  readonly after: number;
  /** How far the last window reaches behind the pads. */
  readonly beyond: number;
}

/** The size that a window covers. */
export function reachOf({ kernel, dilations }: Windows, i: number): number {
  return ((kernel[i] as number) - 1) * (dilations?.[i] ?? 1) + 1;
}

/** The whole padding of an axis with as many windows as strides. */
export function samePad(size: number, reach: number, stride: number): number {
  return Math.max(0, (Math.ceil(size / stride) - 1) * stride + reach - size);
}

/** The smaller half is before, or after for `same_lower`. */
export function halves(total: number, isLower = false): [before: number, after: number] {
  const small = Math.floor(total / 2);
  return isLower ? [total - small, small] : [small, total - small];
}

/** @throws bad_model for windows that no source has */
export function assertWindows({ kernel, strides, dilations = [], pads }: Windows): void {
  const rank = kernel.length;
  const isWhole = [kernel, strides, dilations].every((list) =>
    list.every((size) => Number.isSafeInteger(size) && size >= 1),
  );
  const isEven = strides.length === rank && (dilations.length === rank || dilations.length === 0);
  if (rank < 1 || !isWhole || !isEven)
    throw badModel(
      `has a kernel of ${brief(kernel)}, a stride of ${brief(strides)} and a dilation of ${brief(dilations)}`,
    );
  if (typeof pads === 'string') return;
  if (pads.length !== 2 * rank || !pads.every((pad) => Number.isSafeInteger(pad) && pad >= 0))
    throw badModel(`has a padding of ${brief(pads)} for ${rank} axes`);
}

function brief(sizes: readonly number[]): string {
  return sizes.slice(0, 10).join('x') || 'nothing';
}

/** @throws bad_model when no window fits */
export function layAxis(size: number, windows: Windows, i: number): Laid {
  const [stride, reach] = [windows.strides[i] as number, reachOf(windows, i)];
  const { pads, ceil = false, drops } = windows;
  if (typeof pads === 'string') {
    const [before, after] = halves(samePad(size, reach, stride), pads === 'same_lower');
    return { count: Math.ceil(size / stride), before, after, beyond: 0 };
  }
  const [before, after] = [pads[i] as number, pads[i + pads.length / 2] as number];
  const span = (size + before + after - reach) / stride;
  let count = (ceil ? Math.ceil(span) : Math.floor(span)) + 1;
  const isDropped = drops === 'always' || (drops === 'padded' && pads.some((pad) => pad > 0));
  if (isDropped && (count - 1) * stride >= size + before) count -= 1;
  if (span < 0 || count < 1)
    throw badModel(`the window does not fit: ${reach} into ${size} with padding ${before} and ${after}`);
  const end = (count - 1) * stride + reach - size - before;
  // ONNX drops no window, so that one is left out by less padding.
  return { count, before, after: span >= count ? Math.max(0, end) : after, beyond: Math.max(0, end - after) };
}

/** The windows of all axes; undefined when a size that they depend on is free. */
export function layWindows(sizes: readonly (Dim | undefined)[], windows: Windows): Laid[] | undefined {
  assertWindows(windows);
  if (sizes.length !== windows.kernel.length)
    throw badModel(`has windows of ${windows.kernel.length} axes for an image of ${sizes.length}`);
  if (!sizes.every((size) => typeof size === 'number')) return undefined;
  return sizes.map((size, i) => layAxis(size, windows, i));
}

interface Placed {
  /** The input, padded itself where ONNX's pads cannot express it. */
  readonly x: Value;
  /** `pads` or `auto_pad`. */
  readonly attributes: Attributes;
  readonly isGrown: boolean;
}

/**
 * The pads of windows that are rounded down, at run time where they follow a free size.
 * @param fill what a window finds outside
 */
export function placeWindows(node: Maker, x: Value, windows: Windows, fill: number): Placed {
  const { pads } = windows;
  const { length } = windows.kernel;
  const place = (all: readonly number[]): Placed => ({ x, attributes: { pads: all }, isGrown: false });
  const laid = layWindows(known(x).slice(2), windows);
  if (laid) return place([...laid.map(({ before }) => before), ...laid.map(({ after }) => after)]);
  if (typeof pads !== 'string') return place(pads);
  const isLower = pads === 'same_lower';
  const totals = windows.kernel.map((_, i) => totalPad(known(x)[i + 2], windows, i));
  if (totals.every((total) => total !== undefined)) {
    const each = totals.map((total) => halves(total, isLower));
    return place([...each.map(([before]) => before), ...each.map(([, after]) => after)]);
  }
  // onnxruntime's SAME_UPPER is wrong for strides longer than the kernel, and without dilation for others.
  const isPlain = windows.kernel.every((size, i) => {
    return (windows.dilations?.[i] ?? 1) === 1 && size >= (windows.strides[i] as number);
  });
  if (isPlain && !isLower) return { x, attributes: { auto_pad: 'SAME_UPPER' }, isGrown: false };
  const none = new Array<number>(2 * length).fill(0);
  return { x: grown(node, x, windows, fill), attributes: { pads: none }, isGrown: true };
}

/** Undefined when it follows a free size. */
function totalPad(dim: Dim | undefined, windows: Windows, i: number): number | undefined {
  const [stride, reach] = [windows.strides[i] as number, reachOf(windows, i)];
  if (reach === 1) return 0;
  if (typeof dim === 'number') return samePad(dim, reach, stride);
  return stride === 1 ? reach - 1 : undefined;
}

/** Pads by amounts that are computed at run time. */
function grown(node: Maker, x: Value, windows: Windows, fill: number): Value {
  const { g } = node;
  const parts = windows.kernel.map((_, i): readonly [Value, Value] => {
    const total = totalPad(known(x)[i + 2], windows, i);
    const isLower = windows.pads === 'same_lower';
    if (total !== undefined) {
      const [before, after] = halves(total, isLower);
      return [g.ints([before]), g.ints([after])];
    }
    const size = g.one('Shape', [x], { start: i + 2, end: i + 3 });
    const amount = padOf(g, size, reachOf(windows, i), windows.strides[i] as number);
    const small = g.one('Div', [amount, g.ints([2])]);
    const large = g.one('Sub', [amount, small]);
    return isLower ? [large, small] : [small, large];
  });
  const [befores, afters] = [parts.map(([before]) => before), parts.map(([, after]) => after)];
  const none = g.ints([0, 0]);
  const list = g.one('Concat', [none, ...befores, none, ...afters], { axis: 0 });
  return node.one('Pad', [x, list, g.scalar(x.dtype, fill)]);
}

function padOf(g: GraphBuilder, size: Value, reach: number, stride: number): Value {
  const count = g.one('Div', [g.one('Add', [size, g.ints([stride - 1])]), g.ints([stride])]);
  const covered = g.one('Mul', [g.one('Sub', [count, g.ints([1])]), g.ints([stride])]);
  const wanted = g.one('Sub', [g.one('Add', [covered, g.ints([reach])]), size]);
  return g.one('Max', [wanted, g.ints([0])]);
}

/** Pads the axes of space: before all of them, then after. */
export function padSpace(node: Maker, x: Value, pads: readonly number[], fill: number): Value {
  if (pads.every((size) => size === 0)) return x;
  const half = pads.length / 2;
  const all = [0, 0, ...pads.slice(0, half), 0, 0, ...pads.slice(half)];
  return node.one('Pad', [x, node.g.ints(all), node.g.scalar(x.dtype, fill)], { mode: 'constant' });
}
