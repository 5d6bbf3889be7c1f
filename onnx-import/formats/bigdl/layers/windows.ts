/**
 * The sizes of sliding windows. A padding of -1 stands for TensorFlow's SAME. With padding, a last window that begins
 * in it is dropped.
 */
import { badModel } from '../../../../lib/contract/errors.ts';
import type { Module } from '../module.ts';

/** One number per spatial axis, in the order of the tensor: [time,] height, width. */
export interface Windows {
  readonly kernel: readonly number[];
  readonly stride: readonly number[];
  readonly pad: readonly number[];
  readonly dilation?: readonly number[];
  readonly ceil?: boolean;
}

/** Where the windows of one axis lie. `after` may be negative: the last elements are in no window. */
interface Laid {
  readonly before: number;
  readonly after: number;
  readonly count: number;
}

/** Numbers by the letters of the axes: kH, kW. */
export function perAxis(
  module: Module,
  prefix: string,
  axes: readonly string[],
  fallback?: number,
): number[] {
  return axes.map((axis) => module.int(prefix + axis, fallback));
}

/** Windows with the attributes kW, dW, padW and so on. */
export function shortWindows(module: Module, axes: readonly string[]): Windows {
  return {
    kernel: perAxis(module, 'k', axes),
    stride: perAxis(module, 'd', axes, 1),
    pad: perAxis(module, 'pad', axes, 0),
  };
}

export function assertWindows({ kernel, stride, pad, dilation = [] }: Windows): void {
  if (![...kernel, ...stride, ...dilation].every((size) => size >= 1))
    throw badModel(`has a kernel of ${kernel.join('x')} and a stride of ${stride.join('x')}`);
  const isSame = pad.every((size) => size === -1);
  if (!isSame && !pad.every((size) => size >= 0)) throw badModel(`has a padding of ${pad.join('x')}`);
}

/** @throws bad_model when a window does not fit */
export function layWindows(plane: readonly number[], windows: Windows): Laid[] {
  assertWindows(windows);
  const { kernel, stride, pad, dilation, ceil = false } = windows;
  const isPadded = pad.some((size) => size > 0);
  return plane.map((size, axis) => {
    const [step, p] = [stride[axis] as number, pad[axis] as number];
    const reach = (dilation?.[axis] ?? 1) * ((kernel[axis] as number) - 1) + 1;
    if (p === -1) {
      const count = Math.ceil(size / step);
      const all = Math.max(0, (count - 1) * step + (kernel[axis] as number) - size);
      return { before: all >> 1, after: all - (all >> 1), count };
    }
    const span = (size + 2 * p - reach) / step;
    let count = (ceil ? Math.ceil(span) : Math.floor(span)) + 1;
    if (isPadded && (count - 1) * step >= size + p) count -= 1;
    if (count < 1 || span < 0)
      throw badModel(`a window of ${reach} does not fit into ${size} with padding ${p}`);
    return { before: p, after: (count - 1) * step + reach - size - p, count };
  });
}
