/** The attributes of sliding windows. A padding of -1 stands for TensorFlow's SAME. */
import { assertWindows, type Windows } from '../../emit/windows.ts';
import type { Module } from '../module.ts';

/** Numbers by the letters of the axes: kH, kW. */
export function perAxis(
  module: Module,
  prefix: string,
  axes: readonly string[],
  fallback?: number,
): number[] {
  return axes.map((axis) => module.int(prefix + axis, fallback));
}

/** Windows by the prefixes of their attributes, kW, dW and padW unless others are given. */
export function windowsOf(
  module: Module,
  axes: readonly string[],
  [kernel, stride, pad, dilation]: readonly [string, string, string, string?] = ['k', 'd', 'pad'],
): Windows {
  return windowsFrom({
    kernel: perAxis(module, kernel, axes),
    strides: perAxis(module, stride, axes, 1),
    pad: perAxis(module, pad, axes, 0),
    ...(dilation ? { dilations: perAxis(module, dilation, axes, 1) } : {}),
  });
}

interface Given extends Pick<Windows, 'kernel' | 'strides' | 'dilations'> {
  /** Before and after each axis. */
  readonly pad: readonly number[];
}

/** With padding, a last window that begins in it is dropped. */
export function windowsFrom({ pad, ...rest }: Given): Windows {
  const isSame = pad.every((size) => size === -1);
  const windows: Windows = { ...rest, pads: isSame ? 'same_upper' : [...pad, ...pad], drops: 'padded' };
  assertWindows(windows);
  return windows;
}
